"""A real kube-apiserver with its etcd on loopback, for comparison: started, watched and stopped together.

``K8S_BIN`` is the folder with the two binaries (``kube-apiserver``, ``etcd``); without it there is nothing to compare
with, and ``unavailable`` says why. Both listen on 127.0.0.1 only, with a generated certificate and one token for a user
in ``system:masters``. Two admission plugins are off because their controllers do not run here: ServiceAccount (no
controller creates the default accounts) and TaintNodesByCondition (no controller removes the taint).
"""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import socket
import ssl
import subprocess
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

NEEDED = ("kube-apiserver", "etcd")


@dataclass
class Endpoint:
    """An API server that runs: where it listens, what opens it, and the processes it consists of."""

    name: str
    url: str
    token: str
    processes: tuple[int, ...]

    @property
    def rss_mib(self) -> float:
        """Resident memory of all its processes."""
        return sum(map(rss_kib, self.processes)) / 1024


def unavailable() -> str:
    """Why no real server can be started here; empty if one can."""
    folder = os.environ.get("K8S_BIN", "")
    if not folder:
        return "K8S_BIN does not name a folder with kube-apiserver and etcd"
    missing = [name for name in NEEDED if not os.access(Path(folder) / name, os.X_OK)]
    if missing:
        return f"K8S_BIN={folder} has no {' and no '.join(missing)}"
    return "" if shutil.which("openssl") else "openssl, which makes the key for service accounts, is not on PATH"


class Kubernetes(Endpoint):
    """A kube-apiserver and its etcd. It can end and begin again, with the same content at the same address."""

    def __init__(self, home: Path, *, fsync: bool, arguments: Sequence[str]) -> None:
        self._home = home
        client, peer, port = free_ports(3)
        self.etcd = f"http://127.0.0.1:{client}"
        super().__init__("kube-apiserver", f"https://127.0.0.1:{port}", secrets.token_hex(16), ())
        (home / "tokens.csv").write_text(f'{self.token},admin,admin,"system:masters"\n')
        key = home / "accounts.pem"
        make_key = ["openssl", "ecparam", "-name", "prime256v1", "-genkey", "-noout", "-out", str(key)]
        subprocess.run(make_key, check=True, capture_output=True)
        binaries = Path(os.environ["K8S_BIN"]).absolute()
        self._commands = {
            "etcd": [
                str(binaries / "etcd"),
                f"--data-dir={home / 'etcd'}",
                f"--listen-client-urls=http://127.0.0.1:{client}",
                f"--advertise-client-urls=http://127.0.0.1:{client}",
                f"--listen-peer-urls=http://127.0.0.1:{peer}",
                f"--initial-advertise-peer-urls=http://127.0.0.1:{peer}",
                f"--initial-cluster=default=http://127.0.0.1:{peer}",
                *([] if fsync else ["--unsafe-no-fsync"]),
            ],
            "kube-apiserver": [
                str(binaries / "kube-apiserver"),
                f"--etcd-servers=http://127.0.0.1:{client}",
                "--bind-address=127.0.0.1",
                "--advertise-address=127.0.0.1",
                f"--secure-port={port}",
                "--endpoint-reconciler-type=none",
                f"--cert-dir={home / 'certificates'}",
                f"--token-auth-file={home / 'tokens.csv'}",
                "--anonymous-auth=false",
                "--authorization-mode=RBAC",
                "--service-account-issuer=https://kubernetes.default.svc",
                f"--service-account-signing-key-file={key}",
                f"--service-account-key-file={key}",
                "--service-cluster-ip-range=10.0.0.0/24",
                "--disable-admission-plugins=ServiceAccount,TaintNodesByCondition",
                "--profiling=false",
                *arguments,
            ],
        }
        self._running = contextlib.ExitStack()
        self._started: list[subprocess.Popen[bytes]] = []

    def begin(self) -> None:
        """Start both, and wait until they are ready."""
        for name, command in self._commands.items():
            self._started.append(self._running.enter_context(started(self._log(name), command)))
        self.processes = tuple(process.pid for process in reversed(self._started))  # the server, its etcd
        await_ready(self.url, self.token, self._started[-1], self._log("kube-apiserver"))

    def end(self, *, at_once: bool = False) -> None:
        """Stop both; ``at_once``: by SIGKILL."""
        for process in reversed(self._started if at_once else []):
            process.kill()
        self._running.close()
        self._started, self.processes = [], ()

    def _log(self, name: str) -> Path:
        return self._home / f"{name}.log"


@contextlib.contextmanager
def running(*, fsync: bool = True, arguments: Sequence[str] = ()) -> Iterator[Kubernetes]:
    """A fresh cluster for the time of a ``with`` block. Go's garbage collector as in production (GOGC unset)."""
    if reason := unavailable():
        raise RuntimeError(reason)
    with tempfile.TemporaryDirectory(prefix="kubernetes-") as place:
        cluster = Kubernetes(Path(place), fsync=fsync, arguments=arguments)
        try:
            cluster.begin()
            yield cluster
        finally:
            cluster.end()


def await_ready(url: str, token: str, process: subprocess.Popen[bytes], log: Path, seconds: float = 60) -> None:
    """Wait until the server is ready; if it exits instead, raise an error with its last output."""
    trusting = ssl.create_default_context()
    trusting.check_hostname = False
    trusting.verify_mode = ssl.CERT_NONE
    request = urllib.request.Request(f"{url}/readyz", headers={"Authorization": f"Bearer {token}"})
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if process.poll() is not None:
            raise RuntimeError(f"the server ended with {process.returncode}:\n{log.read_text()[-2000:]}")
        try:
            with urllib.request.urlopen(request, timeout=5, context=trusting):
                return
        except (urllib.error.URLError, OSError):
            time.sleep(0.1)
    raise RuntimeError(f"the server is not ready after {seconds:.0f} s:\n{log.read_text()[-2000:]}")


@contextlib.contextmanager
def started(log: Path, command: Sequence[str], **variables: str) -> Iterator[subprocess.Popen[bytes]]:
    """A process for the time of a ``with`` block: terminated at the end, and killed if it does not stop."""
    environment = {key: value for key, value in os.environ.items() if key != "GOGC"} | variables
    with log.open("wb") as output:
        process = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT, env=environment)
        try:
            yield process
        finally:
            process.terminate()
            try:
                process.wait(timeout=20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def free_ports(count: int) -> list[int]:
    """Free ports on loopback."""
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for opened in sockets:
            opened.bind(("127.0.0.1", 0))
        return [opened.getsockname()[1] for opened in sockets]


def rss_kib(process: int) -> int:
    """Resident memory of one process."""
    for line in Path(f"/proc/{process}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1])
    return 0
