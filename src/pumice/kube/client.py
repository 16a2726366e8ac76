"""A few calls to a Kubernetes API, one after the other: enough for a command that changes an object and ends.

Programs that stay use ``session`` and ``api``; a command need not load what those need.
"""

from __future__ import annotations

import http.client
import json
from typing import Any
from urllib.parse import urlsplit

from pumice.kube.kubeconfig import Access
from pumice.kube.refusals import UnreachableError, refusal
from pumice.kube.tls import client_context

TIMEOUT = 30.0


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
        if answer.status >= 400:
            raise refusal(answer.status, answer.reason, content)
        try:
            found = json.loads(content)
        except ValueError:
            found = {}
        return found if isinstance(found, dict) else {}

    def _connection(self) -> http.client.HTTPConnection:
        host, port = self._address.hostname or "", self._address.port
        if self._address.scheme == "http":
            return http.client.HTTPConnection(host, port, timeout=TIMEOUT)
        return http.client.HTTPSConnection(host, port, timeout=TIMEOUT, context=client_context(self._access))
