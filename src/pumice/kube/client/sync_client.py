"""A synchronous client of the Kubernetes API, for commands that read or change some objects and end.

Long-running programs use ``transport`` and ``api``; a command need not import their libraries. Objects are plain
documents. Reads share a connection. Every write has its own: the server may have closed an idle connection, and then
the outcome of a write on it would be unknown.
"""

from __future__ import annotations

import http.client
import json
import socket
import ssl
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, TypeVar
from urllib.parse import urlencode, urlsplit

from pumice.kube.client.api_errors import ApiError, UnreachableError, error_from_response, error_from_status
from pumice.kube.client.credentials import Credential
from pumice.kube.client.kubeconfig import Access
from pumice.kube.client.paging import PAGE_SIZE, SILENCE_SECONDS, ListPages, watch_query
from pumice.kube.client.tls import Trust

TIMEOUT = 30.0
"""Timeout of a request, in seconds."""
NAMES = 5000
"""Maximum number of names that a completion requests."""

Document = dict[str, Any]
Query = Mapping[str, str]
T = TypeVar("T")

UNIX_SCHEME = "unix://"
_PORTS = {"http": 80, "https": 443}
_MERGE = "application/merge-patch+json"
_APPLY = "application/apply-patch+yaml"  # of which JSON is a part


@dataclass(frozen=True, slots=True)
class Listing:
    """The objects of a collection at one resourceVersion."""

    items: list[Document]
    revision: str


class Client:
    """Calls one cluster."""

    def __init__(self, access: Access, *, timeout: float = TIMEOUT) -> None:
        self.access = access
        self._address = urlsplit(access.server)
        self._root = "" if access.server.startswith(UNIX_SCHEME) else self._address.path.rstrip("/")
        self._timeout = timeout
        self._credentials = access.credential_source()
        self._kept: http.client.HTTPConnection | None = None
        self._kept_for = Credential()  # a connection is made with the client certificate of its time
        self._trust: Trust | None = None

    def close(self) -> None:
        """Let go of the connection that is kept."""
        if self._kept is not None:
            self._kept.close()
            self._kept = None

    # ---- looking --------------------------------------------------------------------------------------------------

    def get(self, path: str) -> Document:
        """Read an object."""
        return self._call("GET", path)

    def list(self, path: str, query: Query | None = None, *, page: int = PAGE_SIZE) -> Listing:
        """Read a collection in pages, as it was at one moment. If it expires on the way it is read in one piece."""
        items: list[Document] = []
        pages = ListPages(query, page)
        while True:
            try:
                found = self._call("GET", _with(path, pages.query()))
            except ApiError as error:
                if pages.restart(error):
                    continue
                raise
            if pages.first:
                items.clear()
            about = found.get("metadata") or {}
            items += _items(found)
            if not pages.advance(str(about.get("continue") or "")):
                return Listing(items, str(about.get("resourceVersion") or ""))

    def names(self, path: str) -> Sequence[tuple[str, str]]:
        """Namespace and name of the first objects of a collection: one page, metadata only."""
        light = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json"
        found = self._call("GET", _with(path, {"limit": str(NAMES)}), accept=light)
        about = [item.get("metadata") or {} for item in _items(found)]
        return [(str(each.get("namespace") or ""), str(each.get("name") or "")) for each in about]

    def watch(self, path: str, revision: str, query: Query | None = None) -> Iterator[tuple[str, Document]]:
        """What happens after a revision (ADDED, MODIFIED, DELETED, BOOKMARK) until it ends, as every watch does.

        ``ApiError`` if the server says no, with ``expired`` if the revision lies too far back; ``UnreachableError``
        if nobody answers, or an event breaks off.
        """
        asked = _with(path, watch_query(query, revision))
        connection, answer = self._with_credential(lambda credential: self._begin_watch(asked, credential))
        try:
            while line := self._line(answer):
                kind, changed = _event(line)
                if kind == "ERROR":
                    raise error_from_status(changed)
                yield kind, changed
        finally:
            connection.close()

    def text_lines(self, path: str, query: Query) -> Iterator[bytes]:
        """The lines of a text as they are written, such as a log that is followed; the last may have no end."""
        asked = _with(path, query)
        connection, answer = self._with_credential(lambda credential: self._begin_watch(asked, credential))
        try:
            while line := self._line(answer):
                yield line
        finally:
            connection.close()

    # ---- changing -------------------------------------------------------------------------------------------------

    def create(self, path: str, new: Document, *, dry_run: bool = False) -> Document:
        """Make an object in a collection; ``dry_run``: only try it, with defaults and checks."""
        return self._call("POST", _with(path, {"dryRun": "All"}) if dry_run else path, new)

    def merge(self, path: str, patch: Document) -> Document:
        """Change an object by a merge patch."""
        return self._call("PATCH", path, patch, media=_MERGE)

    def apply(
        self, path: str, wanted: Document, manager: str, *, force: bool = False, dry_run: bool = False
    ) -> Document:
        """Make an object what it should be, as far as that is said.

        ``conflict`` if others have said something else about the same; with ``force`` they give way.
        """
        query = {"fieldManager": manager, "force": str(force).lower()} | ({"dryRun": "All"} if dry_run else {})
        return self._call("PATCH", _with(path, query), wanted, media=_APPLY)

    def delete(self, path: str, *, uid: str = "", propagation: str = "") -> Document:
        """Delete an object; with a uid only this very one, ``conflict`` otherwise.

        ``propagation``: Foreground, Background or Orphan; empty is what the resource does by itself.
        """
        options: Document = {"apiVersion": "v1", "kind": "DeleteOptions"}
        if uid:
            options["preconditions"] = {"uid": uid}
        if propagation:
            options["propagationPolicy"] = propagation
        return self._call("DELETE", path, options)

    # ---- how ------------------------------------------------------------------------------------------------------

    def _call(
        self, verb: str, path: str, body: Document | None = None, *, media: str = "application/json", accept: str = ""
    ) -> Document:
        sent = None if body is None else json.dumps(body).encode()
        headers = {"Accept": accept or "application/json"}
        if sent is not None:
            headers["Content-Type"] = media
        content = self._with_credential(lambda credential: self._send(verb, path, sent, headers, credential))
        return _understood(content)

    def _with_credential(self, send: Callable[[Credential], T]) -> T:
        """Send a request; if the answer is 401, once more with another credential, where there is one."""
        credential = self._credentials.obtain()
        try:
            return send(credential)
        except ApiError as error:
            if error.code != 401 or not self._credentials.renew(credential):
                raise
        return send(self._credentials.obtain())

    def _send(
        self, verb: str, path: str, body: bytes | None, headers: Mapping[str, str], credential: Credential
    ) -> bytes:
        headers = {**headers, **credential.headers()}
        if verb == "GET":
            answer, content = self._read(path, headers, credential)
        else:
            connection = self._connection(credential)
            try:
                answer = self._answer(connection, verb, path, body, headers)
                content = self._content(answer)
            finally:
                connection.close()
        if answer.status >= 400:
            raise error_from_response(answer.status, answer.reason, content, answer.headers.get("Retry-After", ""))
        return content

    def _begin_watch(
        self, path: str, credential: Credential
    ) -> tuple[http.client.HTTPConnection, http.client.HTTPResponse]:
        connection = self._connection(credential, SILENCE_SECONDS)
        try:
            headers = {"Accept": "application/json", **credential.headers()}
            answer = self._answer(connection, "GET", path, None, headers)
            if answer.status >= 400:
                raise error_from_response(answer.status, answer.reason, self._content(answer))
        except BaseException:
            connection.close()
            raise
        return connection, answer

    def _read(
        self, path: str, headers: Mapping[str, str], credential: Credential
    ) -> tuple[http.client.HTTPResponse, bytes]:
        """Ask over the connection that is kept. If the other end has closed it meanwhile, over a new one."""
        if self._kept is not None and self._kept_for == credential:
            with suppress(UnreachableError):
                return self._ask(self._kept, path, headers)
        self.close()
        self._kept, self._kept_for = self._connection(credential), credential
        return self._ask(self._kept, path, headers)

    def _ask(
        self, connection: http.client.HTTPConnection, path: str, headers: Mapping[str, str]
    ) -> tuple[http.client.HTTPResponse, bytes]:
        try:
            answer = self._answer(connection, "GET", path, None, headers)
            return answer, self._content(answer)
        except UnreachableError:
            self.close()
            raise

    def _answer(
        self,
        connection: http.client.HTTPConnection,
        verb: str,
        path: str,
        body: bytes | None,
        headers: Mapping[str, str],
    ) -> http.client.HTTPResponse:
        try:
            connection.request(verb, self._root + path, body, dict(headers))
            return connection.getresponse()
        except (OSError, http.client.HTTPException) as error:
            raise self._unreachable(error) from error

    def _content(self, answer: http.client.HTTPResponse) -> bytes:
        try:
            return answer.read()
        except (OSError, http.client.HTTPException) as error:
            raise self._unreachable(error) from error

    def _line(self, answer: http.client.HTTPResponse) -> bytes:
        try:
            return answer.readline()
        except (OSError, http.client.HTTPException, ValueError) as error:  # ValueError: a chunk that breaks off
            raise self._unreachable(error) from error

    def _unreachable(self, error: Exception) -> UnreachableError:
        said = (getattr(error, "strerror", None) or str(error) or type(error).__name__).strip()
        return UnreachableError(f"{self.access.server}: {said}")

    def _connection(self, credential: Credential, timeout: float | None = None) -> http.client.HTTPConnection:
        if self.access.server.startswith(UNIX_SCHEME):
            return _Local(self.access.server.removeprefix(UNIX_SCHEME), timeout or self._timeout)
        host, scheme = self._address.hostname or "", self._address.scheme
        port, seconds = self._address.port or _PORTS[scheme], timeout or self._timeout
        if scheme == "http":
            return http.client.HTTPConnection(host, port, timeout=seconds)
        if self._trust is None:
            self._trust = Trust(self.access)
        self._trust.present(credential)
        context, called = self._trust.context, self.access.server_name or host
        assert isinstance(context, ssl.SSLContext)  # the scheme is https
        return _Secure(host, port, timeout=seconds, context=context, called=called)


class _Local(http.client.HTTPConnection):
    """A Unix socket."""

    def __init__(self, path: str, timeout: float) -> None:
        super().__init__("localhost", timeout=timeout)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self._path)


class _Secure(http.client.HTTPSConnection):
    """TLS to a host that may be called otherwise in its certificate."""

    def __init__(self, host: str, port: int, *, timeout: float, context: ssl.SSLContext, called: str) -> None:
        super().__init__(host, port, timeout=timeout, context=context)
        self._called, self._settings = called, context

    def connect(self) -> None:
        http.client.HTTPConnection.connect(self)
        self.sock = self._settings.wrap_socket(self.sock, server_hostname=self._called)


def _with(path: str, query: Query) -> str:
    return f"{path}?{urlencode(query)}" if query else path


def _understood(content: bytes) -> Document:
    """Decode a response. A body that is not JSON did not come from a Kubernetes API."""
    try:
        found = json.loads(content)
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise UnreachableError("the response is not valid for the Kubernetes API")
    return found


def _items(found: Document) -> list[Document]:
    items = found.get("items") or []
    return [item for item in items if isinstance(item, dict)] if isinstance(items, list) else []


def _event(line: bytes) -> tuple[str, Document]:
    event = _understood(line)
    changed = event.get("object")
    return str(event.get("type") or ""), changed if isinstance(changed, dict) else {}
