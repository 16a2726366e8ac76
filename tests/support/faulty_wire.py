"""A wire between one of our components and the API that understands what passes.

Requests are told apart by what they ask for, in the words of RBAC: ``create pods/binding``, ``watch pods``, ``patch
queues/status``. A test says what shall happen to some of them, for as long as it wants: they are refused, before or
after they were carried out, held back, or their connection breaks, of a watch also in the middle of an event. Whatever
passes is written down. The component speaks plain HTTP to it, whatever the API speaks.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
import threading
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from http import HTTPStatus
from typing import Any

import aiohttp
from aiohttp import web
from yarl import URL

GOODBYE = 0.2
"""Seconds in which TLS connections that were left say so to the other end."""
CUT = -1
"""In place of a status code: no answer, the connection breaks."""
HOP_BY_HOP = {"host", "connection", "content-length", "transfer-encoding", "accept-encoding", "date", "server"}
VERBS = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}
REASONS = {409: "Conflict", 410: "Expired", 429: "TooManyRequests", 503: "ServiceUnavailable"}
ERROR = re.compile(rb'"type":"ERROR","object":{.*"code":(\d+)}')


@dataclass
class Asked:
    """A request: what it asked for, of whom, when, and what was answered."""

    what: str
    name: str  # with its namespace; of a collection, the namespace, or nothing
    at: float
    body: bytes = b""
    code: int = 0  # what the client was told; 0: nothing yet
    real: int = 0  # what the API has said, of a watch also later on; 0: it was not asked


@dataclass(eq=False)
class Fault:
    """What happens to requests, until it is lifted or has happened often enough."""

    what: str  # as in ``Asked``; ``*`` stands for anything
    code: int = 0  # what they are answered; 0: what the API says
    name: str = "*"
    done: bool = False  # only the answer is wrong: it was carried out
    retry_after: int | None = None
    event: bool = False  # of a watch: it begins well, and its first event is the error
    torn: int = 0  # of a watch: after so many bytes it breaks
    late: float = 0.0  # of a watch: what comes waits for so many seconds
    held: bool = False  # until this is taken back
    times: int | None = None  # so often; None: always
    every: int = 1  # to one of so many that ask the same of the same object, from the first on
    met: int = 0  # how often it has happened
    _seen: Counter[tuple[str, str]] = field(default_factory=Counter)

    def takes(self, asked: Asked) -> bool:
        """Whether it happens to this one."""
        if self.times is not None and self.met >= self.times:
            return False
        if not (fnmatchcase(asked.what, self.what) and fnmatchcase(asked.name, self.name)):
            return False
        self._seen[asked.what, asked.name] += 1
        if (self._seen[asked.what, asked.name] - 1) % self.every:
            return False
        self.met += 1
        return True


@dataclass
class FaultyWire:
    """Passes on to ``upstream`` what the faults let through."""

    upstream: str
    port: int = 0
    faults: list[Fault] = field(default_factory=list)
    asked: list[Asked] = field(default_factory=list)
    cuts: int = 0  # of watches
    loop: asyncio.AbstractEventLoop | None = None
    _http: aiohttp.ClientSession | None = None
    _watches: set[asyncio.Transport] = field(default_factory=set)

    @property
    def url(self) -> str:
        """Where components find the API at this end."""
        return f"http://127.0.0.1:{self.port}"

    # ---- what a test does ---------------------------------------------------------------------------------

    @contextlib.contextmanager
    def fault(self, what: str, code: int = 0, **more: Any) -> Iterator[Fault]:
        """Let something happen for the time of a ``with`` block."""
        fault = Fault(what, code, **more)
        self.faults.insert(0, fault)
        try:
            yield fault
        finally:
            fault.held = False
            self.faults.remove(fault)

    def cut_watches(self) -> None:
        """Break every watch that is open."""
        assert self.loop is not None
        self.loop.call_soon_threadsafe(self._cut_watches)

    def count(self, what: str, code: int | None = None, name: str = "*", since: float = 0.0) -> int:
        """How many requests there were, all in all or with an answer."""
        return len(self.those(what, code, name, since))

    def those(self, what: str, code: int | None = None, name: str = "*", since: float = 0.0) -> list[Asked]:
        """The requests that there were."""
        return [
            each
            for each in list(self.asked)
            if fnmatchcase(each.what, what) and fnmatchcase(each.name, name) and code in {None, each.code}
            if each.at >= since
        ]

    # ---- what passes --------------------------------------------------------------------------------------

    async def serve(self, request: web.BaseRequest) -> web.StreamResponse:
        """Answer a request."""
        asked = understood(request, await request.read())
        self.asked.append(asked)
        fault = next((fault for fault in list(self.faults) if fault.takes(asked)), None) or Fault(asked.what)
        while fault.held:
            await asyncio.sleep(0.01)
        if fault.code and not fault.done:
            return await self._refuse(request, asked, fault)
        try:
            async with self._pass(request, asked.body) as answer:
                asked.real = answer.status
                if fault.code and fault.done:
                    await answer.read()
                    return await self._refuse(request, asked, fault)
                return await self._answer(request, asked, answer, fault)
        except (aiohttp.ClientError, OSError):
            return _cut(request, asked)

    def _pass(self, request: web.BaseRequest, body: bytes) -> Any:
        assert self._http is not None
        headers = {name: value for name, value in request.headers.items() if name.lower() not in HOP_BY_HOP}
        headers["Accept-Encoding"] = "identity"
        url = URL(f"{self.upstream}{request.path_qs}", encoded=True)
        return self._http.request(request.method, url, headers=headers, data=body or None, allow_redirects=False)

    async def _answer(
        self, request: web.BaseRequest, asked: Asked, answer: aiohttp.ClientResponse, fault: Fault
    ) -> web.StreamResponse:
        headers = {name: value for name, value in answer.headers.items() if name.lower() not in HOP_BY_HOP}
        asked.code = answer.status
        if not asked.what.startswith("watch ") or answer.status != HTTPStatus.OK:
            return web.Response(status=answer.status, headers=headers, body=await answer.read())
        passed = web.StreamResponse(headers=headers)
        passed.enable_chunked_encoding()
        await passed.prepare(request)
        assert isinstance(request.transport, asyncio.Transport)
        transport, left = request.transport, fault.torn
        self._watches.add(transport)
        try:
            async for chunk in answer.content.iter_any():
                if error := ERROR.search(chunk):
                    asked.real = int(error[1])
                await asyncio.sleep(fault.late)
                if fault.torn and len(chunk) > left:
                    await passed.write(chunk[:left])
                    self._break(transport)
                    break
                left -= len(chunk)
                await passed.write(chunk)
        finally:
            self._watches.discard(transport)
        return passed

    def _cut_watches(self) -> None:
        for transport in list(self._watches):
            self._break(transport)

    def _break(self, transport: asyncio.Transport) -> None:
        self._watches.discard(transport)
        self.cuts += 1
        transport.abort()

    async def _refuse(self, request: web.BaseRequest, asked: Asked, fault: Fault) -> web.StreamResponse:
        if fault.code == CUT:
            return _cut(request, asked)
        asked.code = fault.code
        details = {"retryAfterSeconds": fault.retry_after} if fault.retry_after is not None else {}
        status = {
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "code": fault.code,
            "reason": REASONS[fault.code], "message": f"the wire says {fault.code}", "details": details,
        }  # fmt: skip  # short things on few lines
        if fault.event:
            return web.json_response({"type": "ERROR", "object": status}, dumps=lambda said: json.dumps(said) + "\n")
        headers = {} if fault.retry_after is None else {"Retry-After": str(fault.retry_after)}
        return web.json_response(status, status=fault.code, headers=headers)

    @contextlib.asynccontextmanager
    async def listening(self) -> AsyncIterator[None]:
        """Serve for the time of a ``with`` block."""
        self.loop = asyncio.get_running_loop()
        connector = aiohttp.TCPConnector(ssl=False, limit=0)
        timeout = aiohttp.ClientTimeout(total=None)
        async with aiohttp.ClientSession(
            connector=connector, timeout=timeout, cookie_jar=aiohttp.DummyCookieJar()
        ) as http:
            self._http = http
            handling = web.Server(self.serve, handler_cancellation=True, access_log=None)
            server = await self.loop.create_server(handling, "127.0.0.1", 0)
            self.port = server.sockets[0].getsockname()[1]
            try:
                yield
            finally:
                server.close()
                await handling.shutdown(timeout=0.1)
        await asyncio.sleep(GOODBYE)


def understood(request: web.BaseRequest, body: bytes) -> Asked:
    """What a request asks for."""
    words = request.path.strip("/").split("/")
    words = words[2:] if words[0] == "api" else words[3:]
    namespace = ""
    if len(words) > 2 and words[0] == "namespaces":
        namespace, words = words[1], words[2:]
    resource, name, *rest = [*words, "", ""]
    subresource = "/".join(filter(None, rest))
    verb = VERBS.get(request.method) or ("get" if name else "list")
    if verb == "list" and request.query.get("watch") in {"1", "true"}:
        verb = "watch"
    what = f"{verb} {resource}/{subresource}" if subresource else f"{verb} {resource}"
    if verb == "create" and not name:
        name = json.loads(body)["metadata"].get("name", "")
    return Asked(what, "/".join(filter(None, (namespace, name))), time.monotonic(), body)


def _cut(request: web.BaseRequest, asked: Asked) -> web.StreamResponse:
    asked.code = CUT
    if request.transport is not None:
        request.transport.abort()
    return web.Response()


@contextlib.contextmanager
def faulty_wire(upstream: str) -> Iterator[FaultyWire]:
    """A wire to an API, in a thread of its own for the time of a ``with`` block."""
    wire = FaultyWire(upstream)
    ready, stop = threading.Event(), asyncio.Event()

    async def play() -> None:
        async with wire.listening():
            ready.set()
            await stop.wait()

    thread = threading.Thread(target=lambda: asyncio.run(play()), daemon=True)
    thread.start()
    assert ready.wait(30)
    try:
        yield wire
    finally:
        assert wire.loop is not None
        wire.loop.call_soon_threadsafe(stop.set)
        thread.join(30)
