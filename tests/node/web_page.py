"""The installed web page, reached as docs/ui.md says: ``kubectl port-forward`` to its Service."""

from __future__ import annotations

import json
import re
import ssl
import subprocess
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tests.node.installation import HOME, Installation
from tests.support.kubectl import KUBECTL
from tests.support.processes import killed_after, started_process

SECONDS = 60.0
FORWARDING = re.compile(r"Forwarding from 127\.0\.0\.1:(\d+) -> 8443")


class WebPage:
    """The page at a port of this machine."""

    def __init__(self, pumice: Installation, port: int) -> None:
        self._pumice = pumice
        self._url = f"https://127.0.0.1:{port}"
        self._trusting = ssl.create_default_context()
        self._trusting.check_hostname, self._trusting.verify_mode = False, ssl.CERT_NONE  # it signed its own

    def text(self, path: str) -> str:
        """The page at an address of it."""
        return self._found(path, "").decode()

    def document(self, path: str, token: str) -> dict[str, Any]:
        """A document that the page shows."""
        document: dict[str, Any] = json.loads(self._found(path, token))
        return document

    def status(self, path: str, token: str) -> int:
        """The status of an answer."""
        return self._get(path, token)[0]

    def await_job(self, name: str, token: str, *, running: int) -> None:
        """Wait until the page shows a job of the tests with so many running tasks."""

        def shown() -> bool:
            rows = {row["name"]: row for row in self.document("/api/jobs", token)["jobs"]}
            return name in rows and rows[name]["tasks"]["running"] == running

        self._pumice.until(shown, f"the page shows {name} with {running} running tasks")

    def _found(self, path: str, token: str) -> bytes:
        status, body = self._get(path, token)
        assert status == 200, f"{path}: {status}: {body[:500]!r}\n{self._pumice.picture()}"
        return body

    def _get(self, path: str, token: str) -> tuple[int, bytes]:
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        request = urllib.request.Request(f"{self._url}{path}", headers=headers)
        try:
            with urllib.request.urlopen(request, context=self._trusting, timeout=SECONDS) as answer:
                return answer.status, answer.read()
        except urllib.error.HTTPError as error:
            return error.code, error.read()


@contextmanager
def web_page(pumice: Installation) -> Iterator[WebPage]:
    """The page for the time of a ``with`` block."""
    command = [KUBECTL or "kubectl", "--kubeconfig", str(pumice.cluster.kubeconfig), "-n", HOME]
    command += ["port-forward", "service/pumice-ui", ":443", "--address=127.0.0.1"]
    with started_process(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        assert process.stdout is not None
        with killed_after(process, SECONDS):
            said = process.stdout.readline()
        found = FORWARDING.match(said)
        assert found, f"kubectl port-forward: {said}{pumice.picture()}"
        yield WebPage(pumice, int(found[1]))


@contextmanager
def viewer(pumice: Installation, name: str, role: str, *, everywhere: bool = False) -> Iterator[str]:
    """An account with a ClusterRole, for the time of a ``with`` block; yields its token.

    The role counts in the namespace of the jobs, or everywhere.
    """
    kubectl, kind = pumice.kubectl, "clusterrolebinding" if everywhere else "rolebinding"
    kubectl("create", "serviceaccount", name)
    kubectl("create", kind, name, f"--clusterrole={role}", f"--serviceaccount={kubectl.name}:{name}")
    try:
        yield kubectl("create", "token", name).strip()
    finally:
        kubectl("delete", kind, name)
        kubectl("delete", "serviceaccount", name)
