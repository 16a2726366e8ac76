"""A synchronous client of the Kubernetes API, for commands that read or change some objects and end.

Long-running programs use ``transport`` and ``api``; a command need not import their libraries. Objects are plain
documents. Reads share a connection. A write uses it only if it was used just now: the server may have closed an idle
connection, and then the outcome of a write on it would be unknown.
"""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import urlencode, urlsplit

from kubebase.local_socket import check_listener
from pumice.kube.client.api_errors import ApiError, UnreachableError, error_from_response, error_from_status
from pumice.kube.client.blocking_http import Answer, Connection, ProtocolError
from pumice.kube.client.credentials import Credential
from pumice.kube.client.kubeconfig import UNIX_SCHEME, Access
from pumice.kube.client.paging import PAGE_SIZE, SILENCE_SECONDS, ListPages, watch_query

if TYPE_CHECKING:
    import ssl

    from pumice.kube.client.tls import Trust

TIMEOUT = 30.0
"""Timeout of a request, in seconds."""
FRESH_SECONDS = 0.5
"""How long after a read its connection takes a write; servers keep idle connections much longer."""
NAMES = 5000
"""Maximum number of names that a completion requests."""

Document = dict[str, Any]
Query = Mapping[str, str]
T = TypeVar("T")

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
        self._root = "" if access.endpoint.startswith(UNIX_SCHEME) else self._address.path.rstrip("/")
        self._timeout = timeout
        self._credentials = access.credential_source()
        self._kept: Connection | None = None
        self._kept_at = 0.0
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
            connection = self._fresh(credential) or self._connection(credential)
            try:
                answer = self._answer(connection, verb, path, body, headers)
                content = self._content(answer)
            finally:
                connection.close()
        if answer.status >= 400:
            raise error_from_response(answer.status, answer.reason, content, answer.headers.get("retry-after", ""))
        return content

    def _begin_watch(self, path: str, credential: Credential) -> tuple[Connection, Answer]:
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

    def _read(self, path: str, headers: Mapping[str, str], credential: Credential) -> tuple[Answer, bytes]:
        """Ask over the connection that is kept. If the other end has closed it meanwhile, over a new one."""
        if self._kept is not None and self._kept_for == credential:
            with suppress(UnreachableError):
                return self._ask(self._kept, path, headers)
        self.close()
        self._kept, self._kept_for = self._connection(credential), credential
        return self._ask(self._kept, path, headers)

    def _ask(self, connection: Connection, path: str, headers: Mapping[str, str]) -> tuple[Answer, bytes]:
        try:
            answer = self._answer(connection, "GET", path, None, headers)
            content = self._content(answer)
        except UnreachableError:
            self.close()
            raise
        self._kept_at = time.monotonic()
        return answer, content

    def _fresh(self, credential: Credential) -> Connection | None:
        """The connection that is kept, if it was used just now; whoever takes it closes it."""
        if self._kept is None or self._kept_for != credential or time.monotonic() - self._kept_at > FRESH_SECONDS:
            return None
        found, self._kept = self._kept, None
        return found

    def _answer(
        self,
        connection: Connection,
        verb: str,
        path: str,
        body: bytes | None,
        headers: Mapping[str, str],
    ) -> Answer:
        try:
            return connection.request(verb, self._root + path, body, headers)
        except (OSError, ProtocolError) as error:
            raise self._unreachable(error) from error

    def _content(self, answer: Answer) -> bytes:
        try:
            return answer.read()
        except (OSError, ProtocolError) as error:
            raise self._unreachable(error) from error

    def _line(self, answer: Answer) -> bytes:
        try:
            return answer.readline()
        except (OSError, ProtocolError) as error:
            raise self._unreachable(error) from error

    def _unreachable(self, error: Exception) -> UnreachableError:
        said = (getattr(error, "strerror", None) or str(error) or type(error).__name__).strip()
        return UnreachableError(f"{self.access.server}: {said}")

    def _connection(self, credential: Credential, timeout: float | None = None) -> Connection:
        seconds = timeout or self._timeout
        if self.access.endpoint.startswith(UNIX_SCHEME):
            path = self.access.endpoint.removeprefix(UNIX_SCHEME)
            return Connection(lambda: _connect_local(path, seconds), "localhost")
        host, scheme = self._address.hostname or "", self._address.scheme
        place = (host, self._address.port or _PORTS[scheme])
        if scheme == "http":
            return Connection(lambda: _connect(place, seconds), self._address.netloc)
        if self._trust is None:
            from pumice.kube.client.tls import Trust

            self._trust = Trust(self.access)
        self._trust.present(credential)
        context, called = self._trust.context, self.access.server_name or host
        assert not isinstance(context, bool)  # the scheme is https
        return Connection(lambda: _connect_securely(place, seconds, context, called), self._address.netloc)


def _connect(place: tuple[str, int], timeout: float) -> socket.socket:
    connected = socket.create_connection(place, timeout)
    connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return connected


def _connect_local(path: str, timeout: float) -> socket.socket:
    """A Unix socket."""
    local = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    local.settimeout(timeout)
    try:
        local.connect(path)
        check_listener(local)
    except OSError:
        local.close()
        raise
    return local


def _connect_securely(place: tuple[str, int], timeout: float, context: ssl.SSLContext, called: str) -> socket.socket:
    """TLS to a host that may be called otherwise in its certificate."""
    plain = _connect(place, timeout)
    try:
        return context.wrap_socket(plain, server_hostname=called)
    except OSError:
        plain.close()
        raise


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
