"""kubectl's own typed clients, which send protobuf and nothing else since version 1.32.

What is read from it must be what the same command prints without a server: first by a server that does nothing but
read, then by ``pumice up``. Where there is no kubectl the tests are skipped; in CI that is a failure. ``KUBECTL``
names another one than that on the path.
"""

from __future__ import annotations

import json
import os
import shutil
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, ClassVar

import pytest

from kubesim.http import content_negotiation
from tests.support.api_servers import pumice_up
from tests.support.processes import run_process

KUBECTL = os.environ.get("KUBECTL") or shutil.which("kubectl")

Kubectl = Callable[..., str]


@pytest.fixture(scope="module")
def program() -> str:
    if KUBECTL is None:
        assert os.environ.get("CI") != "true", "kubectl is not on PATH; CI has to have it"
        pytest.skip("kubectl is not on PATH")
    return KUBECTL


def runs(*command: str) -> Kubectl:
    """kubectl with these options, as a function of the other words."""

    def run(*arguments: str, given: str = "") -> str:
        done = run_process([*command, *arguments], input=given, capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == 0, f"kubectl {' '.join(arguments)}: {done.stdout}{done.stderr}"
        return done.stdout

    return run


@pytest.fixture(scope="module")
def kubectl(program: str) -> Iterator[Kubectl]:
    with pumice_up("--nodes", "2") as (_, kubeconfig):
        yield runs(program, "--kubeconfig", str(kubeconfig), "--cache-dir", str(kubeconfig.parent / "cache"))


class Reader(BaseHTTPRequestHandler):
    """Answers every object with itself, and keeps it."""

    bodies: ClassVar[list[Any]] = []

    def do_POST(self) -> None:
        """Read one object."""
        content = self.rfile.read(int(self.headers["Content-Length"]))
        self.bodies.append(bare(content_negotiation.decode_body(content, self.headers["Content-Type"])))
        answer = content_negotiation.encode(self.bodies[-1])
        self.send_response(201)
        self.send_header("Content-Type", content_negotiation.JSON)
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *_: Any) -> None:
        """Say nothing."""


@pytest.fixture(scope="module")
def reader(program: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kubectl]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Reader) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        place = tmp_path_factory.mktemp("kubectl")
        (place / "empty").touch()
        address = f"http://127.0.0.1:{server.server_port}"
        yield runs(program, "--kubeconfig", str(place / "empty"), "--server", address, "--cache-dir", str(place))
        server.shutdown()


CREATED = [
    "namespace red",
    "configmap colours --from-literal=sky=blue --from-literal=grass=",
    "secret generic lock --from-literal=number=0815 --type=example.org/lock",
    "serviceaccount robot",
    "quota small --hard=cpu=1500m,memory=2Gi,pods=0 --scopes=NotBestEffort",
    "job once --image=box -- sleep 0",
    "priorityclass low --value=-7 --description=last --preemption-policy=Never",
    "priorityclass none --value=0 --global-default",
    "poddisruptionbudget half --selector=app=web --min-available=50%",
    "poddisruptionbudget still --selector=app=web --max-unavailable=0",
]


def printed(kubectl: Kubectl, words: list[str]) -> Any:
    """What a command would create; nulls are no values."""
    at = words.index("--") if "--" in words else len(words)
    return bare(json.loads(kubectl("create", *words[:at], "--dry-run=client", "-o", "json", *words[at:])))


def bare(found: Any) -> Any:
    """Without nulls."""
    if isinstance(found, dict):
        return {key: bare(value) for key, value in found.items() if value is not None}
    return [bare(value) for value in found] if isinstance(found, list) else found


@pytest.mark.parametrize("what", CREATED)
def test_kubectl_create_body_decodes_to_printed_object(what: str, reader: Kubectl) -> None:
    expected = printed(reader, what.split(" "))
    reader("create", *what.split(" "))
    found = Reader.bodies.pop()
    assert found == expected


@pytest.mark.parametrize("what", CREATED)
def test_kubectl_create_object_is_stored_completely(what: str, kubectl: Kubectl) -> None:
    words = what.split(" ")
    expected = printed(kubectl, words)
    expected.pop("status", None)  # not for clients to write
    kubectl("create", *words)
    stored = json.loads(kubectl("get", words[0], words[2] if words[0] == "secret" else words[1], "-o", "json"))
    assert stored == with_additions(expected, stored)


def with_additions(sent: Any, stored: Any) -> Any:
    """What was sent, and beside it what only the server says: nothing that was sent may be missing or different."""
    if isinstance(sent, dict) and isinstance(stored, dict):
        return {**stored, **{key: with_additions(value, stored.get(key)) for key, value in sent.items()}}
    if isinstance(sent, list) and isinstance(stored, list) and len(sent) == len(stored):
        return [with_additions(one, other) for one, other in zip(sent, stored, strict=True)]
    return sent


def test_reviews_are_answered(kubectl: Kubectl) -> None:
    assert kubectl("auth", "can-i", "create", "pods").strip() == "yes"
    assert kubectl("auth", "can-i", "get", "/metrics").strip() == "yes"
    assert "*.*" in kubectl("auth", "can-i", "--list")
    assert "admin" in kubectl("auth", "whoami")


def test_drain_evicts(kubectl: Kubectl) -> None:
    """An eviction has the options of a deletion in it. Whoever forces a pod off a node waits until it is gone."""
    node = kubectl("get", "nodes", "-o", "name").split()[0].removeprefix("node/")
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "guest", "namespace": "default"},
        "spec": {"nodeName": node, "containers": [{"name": "main", "image": "box"}]},
    }
    kubectl("create", "-f", "-", given=json.dumps(pod))
    kubectl("wait", "pod/guest", "--for=jsonpath={.status.phase}=Running", "--timeout=30s")
    said = kubectl("drain", node, "--force", "--grace-period=1", "--timeout=30s")
    assert "pod/guest evicted" in said
    assert kubectl("get", "pod", "guest", "--ignore-not-found") == ""
    kubectl("uncordon", node)


def test_delete_takes_its_options(kubectl: Kubectl) -> None:
    kubectl("create", "configmap", "short-lived")
    kubectl("delete", "configmap", "short-lived", "--cascade=foreground", "--timeout=30s")
    assert kubectl("get", "configmap", "short-lived", "--ignore-not-found") == ""
