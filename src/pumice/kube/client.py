"""A few calls to a Kubernetes API, one after the other: enough for a command that changes an object and ends."""

from __future__ import annotations

import http.client
import json
import ssl
import tempfile
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from pumice.kube.kubeconfig import Access

TIMEOUT = 30.0


class RefusedError(Exception):
    """The API said no: code, reason and message of its Status."""

    def __init__(self, code: int, reason: str, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.reason = reason


class UnreachableError(Exception):
    """Nobody answers at the address."""


class Client:
    """Calls one cluster."""

    def __init__(self, access: Access) -> None:
        self._access = access
        self._address = urlsplit(access.server)

    def get(self, path: str) -> dict[str, Any]:
        """Read an object."""
        return self._call("GET", path)

    def merge(self, path: str, patch: dict[str, Any]) -> dict[str, Any]:
        """Change an object by a merge patch."""
        return self._call("PATCH", path, json.dumps(patch), {"Content-Type": "application/merge-patch+json"})

    def _call(self, verb: str, path: str, body: str = "", headers: dict[str, str] | None = None) -> dict[str, Any]:
        sent = {"Accept": "application/json", **(headers or {})}
        if self._access.token:
            sent["Authorization"] = f"Bearer {self._access.token}"
        connection = self._connection()
        try:
            connection.request(verb, self._address.path.rstrip("/") + path, body or None, sent)
            answer = connection.getresponse()
            content = answer.read()
        except (OSError, http.client.HTTPException) as error:
            raise UnreachableError(f"{self._access.server}: {str(error) or type(error).__name__}") from error
        finally:
            connection.close()
        try:
            found = json.loads(content)
        except ValueError:
            found = {}
        if not isinstance(found, dict):
            found = {}
        if answer.status >= 400:
            message = found.get("message") or f"{answer.status} {answer.reason}"
            raise RefusedError(answer.status, found.get("reason", ""), message)
        return found

    def _connection(self) -> http.client.HTTPConnection:
        host, port = self._address.hostname or "", self._address.port
        if self._address.scheme == "http":
            return http.client.HTTPConnection(host, port, timeout=TIMEOUT)
        return http.client.HTTPSConnection(host, port, timeout=TIMEOUT, context=self._tls())

    def _tls(self) -> ssl.SSLContext:
        access = self._access
        context = ssl.create_default_context(cadata=access.authority.decode() if access.authority else None)
        if not access.verify:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        if access.client_certificate:
            # The ssl module reads keys from files only; this one is gone as soon as it has been read.
            with tempfile.TemporaryDirectory() as folder:
                path = Path(folder) / "client.pem"
                path.touch(mode=0o600)
                path.write_bytes(access.client_certificate + b"\n" + access.client_key)
                context.load_cert_chain(path)
        return context
