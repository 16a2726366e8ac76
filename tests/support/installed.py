"""Pumice installed on a real kube-apiserver, its components run with nothing but the rights that it ships.

What asks for what is in the server's audit log. There is no controller manager and no kubelet: tests play what they
need of both.
"""

from __future__ import annotations

import contextlib
import json
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from benchmarks import kubernetes
from pumice.install.rights import CONTROLLERS, SCHEDULER, WEBHOOKS
from pumice.kube.client import Client
from pumice.kube.kubeconfig import Access
from tests.support.kubectl import Namespace
from tests.support.processes import run_process

HOME = "pumice-system"
POLICY = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived"],
    "rules": [{"level": "Metadata", "userGroups": [f"system:serviceaccounts:{HOME}"]}, {"level": "None"}],
}


def pumice(kubeconfig: Path, *arguments: str) -> tuple[int, str, str]:
    """A command of ours: how it ended, and what it said on either stream."""
    command = [sys.executable, "-m", "pumice", *arguments, "--kubeconfig", str(kubeconfig)]
    done = run_process(command, capture_output=True, text=True, timeout=120, check=False)
    return done.returncode, done.stdout, done.stderr


@dataclass
class Real:
    """A real API server, and an administrator's way into it."""

    endpoint: kubernetes.Kubernetes
    folder: Path
    audit: Path

    @property
    def admin(self) -> Path:
        """The administrator's kubeconfig."""
        return self.folder / "admin.kubeconfig"

    @property
    def client(self) -> Client:
        return Client(Access(self.endpoint.url, token=self.endpoint.token, verify=False))

    def kubectl(self, namespace: str = "default") -> Namespace:
        return Namespace(self.admin, namespace)

    def write_kubeconfig(self, name: str, token: str, namespace: str = HOME, server: str = "") -> Path:
        path = self.folder / f"{name}.kubeconfig"
        cluster = {"server": server or self.endpoint.url, "insecure-skip-tls-verify": True}
        document = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": name,
            "clusters": [{"name": name, "cluster": cluster}],
            "users": [{"name": name, "user": {"token": token}}],
            "contexts": [{"name": name, "context": {"cluster": name, "user": name, "namespace": namespace}}],
        }
        path.write_text(yaml.safe_dump(document))
        path.chmod(0o600)
        return path

    def token(self, component: str) -> str:
        """A token of a component's service account."""
        return self.kubectl(HOME)("create", "token", f"pumice-{component}", "--duration=2h").strip()

    def account(self, component: str) -> Path:
        """The kubeconfig of a component's service account."""
        return self.write_kubeconfig(component, self.token(component))

    def asked(self) -> list[dict[str, Any]]:
        """What our components have asked the server for, so far."""
        return [json.loads(line) for line in self.audit.read_text().splitlines() if line.endswith("}")]


@contextlib.contextmanager
def real_server(folder: Path, *, plugins: Sequence[str] = ()) -> Iterator[Real]:
    """A fresh API server that writes down what our accounts ask for; ``plugins``: of admission, beside the usual."""
    policy, audit = folder / "policy.yaml", folder / "audit.log"
    policy.write_text(yaml.safe_dump(POLICY))
    audit.touch()
    arguments = [f"--audit-policy-file={policy}", f"--audit-log-path={audit}", "--audit-log-mode=blocking"]
    if plugins:
        arguments.append(f"--enable-admission-plugins={','.join(plugins)}")
    with kubernetes.running(fsync=False, arguments=arguments) as endpoint:
        real = Real(endpoint, folder, audit)
        real.write_kubeconfig("admin", endpoint.token, "default")
        yield real


def take_away(real: Real) -> None:
    """Uninstall Pumice, wherever it is, if it is."""
    found = ("get", "clusterrolebinding", "pumice-scheduler", "-o", "jsonpath={.subjects[0].namespace}")
    status, home = real.kubectl().tried(*found)
    if status == 0:
        ended, _, said = pumice(real.admin, "uninstall", "--namespace", home)
        assert ended == 0, said


class Component:
    """A process of ours; ``log`` is what it says, ``wrong`` why it was not ready when it was last asked."""

    wrong = ""

    def __init__(self, real: Real, name: str, *arguments: str) -> None:
        self.name = name
        (self.port,) = kubernetes.free_ports(1)
        self.log = real.folder / f"{name}.log"
        command = [sys.executable, "-m", "pumice", name, "--kubeconfig", str(real.account(name))]
        self._command = [*command, "--metrics-address", f"127.0.0.1:{self.port}", *arguments]

    @contextlib.contextmanager
    def running(self, *, ready: bool = True) -> Iterator[Component]:
        with kubernetes.started(self.log, self._command) as process:
            self.process = process
            if ready:
                self.await_ready()
            yield self

    def await_ready(self) -> None:
        try:
            until(self.is_ready, what=f"{self.name} is ready", said=self.log)
        except AssertionError as error:
            raise AssertionError(f"{error}\n/readyz: {self.wrong}") from None

    def is_ready(self) -> bool:
        assert self.process.poll() is None, self.log.read_text()
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/readyz", timeout=5):
                return True
        except urllib.error.HTTPError as error:
            self.wrong = error.read().decode()
            return False
        except OSError as error:
            self.wrong = str(error)
            return False


def webhooks(real: Real, port: int, *arguments: str) -> Component:
    """The webhooks, at a port of loopback."""
    return Component(real, WEBHOOKS, "--listen", f"127.0.0.1:{port}", "--host", "127.0.0.1", *arguments)


@contextlib.contextmanager
def everything(real: Real, port: int, scheduler: Sequence[str] = ()) -> Iterator[dict[str, Component]]:
    """All components at work; ``scheduler``: more arguments for it."""
    elected = ["--leader-elect", "--leader-elect-namespace", HOME]
    components = [
        webhooks(real, port),
        Component(real, CONTROLLERS, *elected),
        Component(real, SCHEDULER, *elected, *scheduler),
    ]
    with contextlib.ExitStack() as stack:
        for component in components:
            stack.enter_context(component.running(ready=False))
        for component in components:
            component.await_ready()
        yield {component.name: component for component in components}


def until(holds: Any, seconds: float = 40, *, what: str = "", said: Path | None = None) -> None:
    deadline = time.monotonic() + seconds
    while not holds():
        text = f"\n{said.read_text()[-2000:]}" if said else ""
        assert time.monotonic() < deadline, f"{what or 'it'}: not within {seconds} s{text}"
        time.sleep(0.1)
