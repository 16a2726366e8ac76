"""HTTP/1.1 over a blocking socket, as much of it as the API of Kubernetes needs.

The module of the standard library takes longer to load than a short command has to run: it reads headers as those of
mails, and brings TLS along whether it is used or not.
"""

from __future__ import annotations

TYPE_CHECKING = False  # typing and dataclasses take longer to load than a command needs to submit a job
if TYPE_CHECKING:
    import socket
    from collections.abc import Callable, Iterator, Mapping
    from typing import BinaryIO

LONGEST_LINE = 64 * 1024
MOST_HEADERS = 1000
READ_BYTES = 64 * 1024


class ProtocolError(ValueError):
    """The other end does not speak HTTP, or its answer has broken off."""


class Answer:
    """The answer to a request; ``headers`` by their names in small letters.

    The body is read from the connection as it is asked for.
    """

    def __init__(self, status: int, reason: str, headers: dict[str, str], body: Iterator[bytes]) -> None:
        self.status = status
        self.reason = reason
        self.headers = headers
        self._body = body
        self._rest = b""

    def read(self) -> bytes:
        """All that has not been read."""
        content = b"".join([self._rest, *self._body])
        self._rest = b""
        return content

    def readline(self) -> bytes:
        """The next line; without an end if it is the last, empty if there is none."""
        parts = [self._rest]
        while b"\n" not in parts[-1]:
            chunk = next(self._body, b"")
            if not chunk:
                self._rest = b""
                return b"".join(parts)
            parts.append(chunk)
        line, newline, self._rest = b"".join(parts).partition(b"\n")
        return line + newline


class Connection:
    """One connection, over which requests are sent one after another."""

    def __init__(self, connect: Callable[[], socket.socket], host: str) -> None:
        self._connect = connect
        self._host = host
        self._socket: socket.socket | None = None
        self._file: BinaryIO | None = None

    def request(self, verb: str, target: str, body: bytes | None, headers: Mapping[str, str]) -> Answer:
        """Send a request, and read the head of its answer. ``OSError``, ``ProtocolError``."""
        fields = {"Host": self._host, "Accept-Encoding": "identity", "User-Agent": "pumice", **headers}
        if body is not None or verb in ("POST", "PUT", "PATCH"):
            fields["Content-Length"] = str(len(body or b""))
        for text in (target, *fields.values()):
            if not (text.isascii() and text.isprintable()):  # a line end would begin another header or request
                raise ProtocolError(f"{text!r} cannot be sent")
        lines = [f"{verb} {target} HTTP/1.1", *(f"{name}: {value}" for name, value in fields.items()), "", ""]
        if self._socket is None:
            self._socket = self._connect()
            self._file = self._socket.makefile("rb")
        self._socket.sendall("\r\n".join(lines).encode("latin-1") + (body or b""))
        assert self._file is not None
        status, reason, found = _head(self._file)
        return Answer(status, reason, found, _body(self._file, verb, status, found, self.close))

    def close(self) -> None:
        """Let go of the socket."""
        for each in (self._file, self._socket):
            if each is not None:
                each.close()
        self._file = self._socket = None


def _head(file: BinaryIO) -> tuple[int, str, dict[str, str]]:
    while True:
        version, _, rest = _line(file).partition(" ")
        code, _, reason = rest.partition(" ")
        if not version.startswith("HTTP/1.") or len(code) != 3 or not code.isdecimal():
            raise ProtocolError("the answer is not HTTP")
        headers: dict[str, str] = {}
        for _ in range(MOST_HEADERS):
            line = _line(file)
            if not line:
                break
            name, _, value = line.partition(":")
            headers[name.strip().lower()] = value.strip()
        else:
            raise ProtocolError("the answer has too many headers")
        if version == "HTTP/1.0":
            headers.setdefault("connection", "close")
        if int(code) >= 200:  # others come before the answer proper
            return int(code), reason, headers


def _line(file: BinaryIO) -> str:
    line = file.readline(LONGEST_LINE)
    if not line.endswith(b"\n"):
        raise ProtocolError("the other end closed the connection" if len(line) < LONGEST_LINE else "a line is too long")
    return line.rstrip(b"\r\n").decode("latin-1")


def _body(
    file: BinaryIO, verb: str, status: int, headers: Mapping[str, str], close: Callable[[], None]
) -> Iterator[bytes]:
    """The body as it arrives. The connection is closed after it if it cannot be used again."""
    if verb == "HEAD" or status in (204, 304):
        return
    length = headers.get("content-length", "")
    if "chunked" in headers.get("transfer-encoding", "").lower():
        while size := _chunk_size(file):
            yield from _exactly(file, size)
            _line(file)
        while _line(file):  # fields behind the last chunk
            pass
    elif length:
        if not length.isdecimal():
            raise ProtocolError(f"the length {length!r} is not a number")
        yield from _exactly(file, int(length))
    else:
        while content := file.read(READ_BYTES):
            yield content
        close()
    if headers.get("connection", "").lower() == "close":
        close()


def _chunk_size(file: BinaryIO) -> int:
    text = _line(file).partition(";")[0].strip()
    try:
        return int(text, 16)
    except ValueError:
        raise ProtocolError(f"the size {text!r} of a chunk is not a number") from None


def _exactly(file: BinaryIO, size: int) -> Iterator[bytes]:
    while size:
        content = file.read1(min(size, READ_BYTES))  # type: ignore[attr-defined]  # typeshed: BufferedIOBase only
        if not content:
            raise ProtocolError("the answer has broken off")
        size -= len(content)
        yield content
