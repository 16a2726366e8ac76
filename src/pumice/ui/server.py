"""The HTTP server of ``pumice ui``: documents, the stream, and the files of the page."""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
from aiohttp import hdrs, web

from pumice.ui.access import Authenticator, LoginError
from pumice.ui.encoded import EncodedDocument
from pumice.ui.http_errors import NotFoundError, RequestError, UnavailableError
from pumice.ui.request_guard import SECURITY_HEADERS, RequestGuard
from pumice.ui.routes import UiRoutes
from pumice.ui.static_files import INDEX, StaticFile, StaticFiles
from pumice.ui.stream import GZIP_HEADER, TOPICS, deflated, encode_event
from pumice.ui.viewer import Viewer

log = logging.getLogger(__name__)

COOKIE = "pumice_ui"
LARGEST_BODY = 16 << 10
FINISH = 1.0
"""Seconds for requests in flight to finish on shutdown; streams never finish by themselves."""
RETRY_MILLISECONDS = 1000
MOST_STREAMS = 2_000
REVIEWED_SECONDS = 300.0
"""Seconds after which a stream ends whose viewer the cluster has authenticated."""

Answer = Callable[[web.Request, Viewer], Awaitable[EncodedDocument]]


class UiServer:
    """Serves until cancelled."""

    def __init__(
        self,
        routes: UiRoutes,
        authenticator: Authenticator,
        guard: RequestGuard,
        files: StaticFiles,
        at: socket.socket,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self._routes = routes
        self._authenticator = authenticator
        self._guard = guard
        self._files = files
        self._at = at
        self._tls = tls
        self._streams: set[asyncio.Task[Any]] = set()
        self.url = ""
        """The address it listens on, once it does."""

    async def run(self) -> None:
        """Serve until cancelled."""
        runner = web.AppRunner(
            self._application(), access_log=None, handle_signals=False, shutdown_timeout=FINISH, keepalive_timeout=60
        )
        await runner.setup()
        try:
            await web.SockSite(runner, self._at, ssl_context=self._tls).start()
            host, port = runner.addresses[0][:2]
            self.url = f"http{'s' if self._tls else ''}://{f'[{host}]' if ':' in host else host}:{port}"
            await asyncio.Event().wait()
        finally:
            self.url = ""
            for stream in self._streams:
                stream.cancel()
            await runner.cleanup()

    def _application(self) -> web.Application:
        application = web.Application(client_max_size=LARGEST_BODY, middlewares=[self._guarded])
        routes, add = self._routes, application.router.add_get
        add("/api/about", self._document(routes.about))
        add("/api/tree", self._document(routes.tree))
        add("/api/queues/{name}/history", self._document(routes.queue_history))
        add("/api/queues/{name}", self._document(routes.queue))
        add("/api/jobs", self._document(routes.jobs))
        add("/api/jobs/{namespace}/{name}/why", self._document(routes.why))
        add("/api/jobs/{namespace}/{name}", self._document(routes.job))
        add("/api/nodes", self._document(routes.nodes))
        add("/api/nodes/{name}", self._document(routes.node))
        add("/api/decisions", self._document(routes.decisions))
        add("/api/then", self._document(routes.then))
        add("/api/stream", self._stream)
        application.router.add_post("/api/login", self._login)
        application.router.add_post("/api/logout", self._logout)
        add("/static/{path:.+}", self._static)
        add("/{path:.*}", self._page)
        return application

    # ---- every request ------------------------------------------------------------------------------------

    @web.middleware
    async def _guarded(
        self, request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
    ) -> web.StreamResponse:
        data = request.path.startswith("/api/")
        refusal = self._guard.refusal(request.headers, data=data)
        if refusal:
            return _error(403, "Forbidden", refusal)
        try:
            return await handler(request)
        except RequestError as error:
            return _error(error.code, error.reason, str(error))
        except web.HTTPException as error:
            return _error(error.status, error.reason.replace(" ", ""), error.reason)
        except (asyncio.CancelledError, ConnectionError):
            raise
        except Exception:
            log.exception("Failed to answer a request: path=%s", request.path)
            return _error(500, "InternalError", "the server failed to answer; its log says why")

    async def _viewer(self, request: web.Request) -> Viewer:
        scheme, _, token = request.headers.get(hdrs.AUTHORIZATION, "").partition(" ")
        if scheme.lower() != "bearer":
            token = request.cookies.get(COOKIE, "")
        return await self._authenticator.viewer(token.strip())

    # ---- documents ----------------------------------------------------------------------------------------

    def _document(self, answer: Answer) -> Callable[[web.Request], Awaitable[web.StreamResponse]]:
        async def handle(request: web.Request) -> web.StreamResponse:
            viewer = await self._viewer(request)
            if not self._routes.ready:
                raise UnavailableError("the server has not read the cluster yet; try again", reason="NotSynced")
            found = await answer(request, viewer)
            headers = {**SECURITY_HEADERS, "Cache-Control": "no-cache", "ETag": found.etag, "Vary": "Accept-Encoding"}
            if request.headers.get(hdrs.IF_NONE_MATCH) == found.etag:
                return web.Response(status=304, headers=headers)
            body = found.plain
            if _accepts_gzip(request) and found.gzipped is not None:
                body = found.gzipped
                headers["Content-Encoding"] = "gzip"
            return web.Response(body=body, headers={**headers, "Content-Type": "application/json; charset=utf-8"})

        return handle

    async def _stream(self, request: web.Request) -> web.StreamResponse:
        viewer = await self._viewer(request)
        if not self._routes.ready:
            raise UnavailableError("the server has not read the cluster yet; try again", reason="NotSynced")
        hub, watcher = self._routes.watcher.hub, self._routes.watcher
        if hub.viewers >= MOST_STREAMS:
            raise UnavailableError(f"{MOST_STREAMS} streams are open already", reason="TooManyStreams")
        asked = request.query.get("topics")
        topics = frozenset(asked.split(",")) if asked else frozenset(TOPICS)
        compressed = _accepts_gzip(request)
        response = web.StreamResponse(
            headers={
                **SECURITY_HEADERS,
                "Content-Type": "text/event-stream; charset=utf-8",
                "Cache-Control": "no-store",
                "X-Accel-Buffering": "no",
                **({"Content-Encoding": "gzip"} if compressed else {}),
            }
        )
        task = asyncio.current_task()
        assert task is not None
        self._streams.add(task)
        try:
            events = hub.follow(topics, viewer.scope, compressed=compressed)
            await response.prepare(request)
            hello = encode_event("hello", watcher.hello(), hub.next_id)
            first = b"retry: %d\n\n" % RETRY_MILLISECONDS + hello
            await response.write(GZIP_HEADER + deflated(first) if compressed else first)
            async with asyncio.timeout(REVIEWED_SECONDS if viewer.authentication == "cluster" else None):
                async for content in events:
                    await response.write(content)
        except (ConnectionError, TimeoutError):
            pass  # the viewer has left, or must connect again to show that its rights still hold
        finally:
            self._streams.discard(task)
        return response

    # ---- authentication -----------------------------------------------------------------------------------

    async def _login(self, request: web.Request) -> web.StreamResponse:
        _check_own_page(request)
        try:
            token = msgspec.json.decode(await request.read(), type=dict[str, str]).get("token", "")
        except msgspec.MsgspecError:
            raise RequestError('the body must be JSON: {"token": "..."}') from None
        await self._authenticator.viewer(token)
        response = web.Response(status=204, headers=SECURITY_HEADERS)
        response.set_cookie(COOKIE, token, path="/", httponly=True, secure=self._tls is not None, samesite="Strict")
        return response

    async def _logout(self, request: web.Request) -> web.StreamResponse:
        _check_own_page(request)
        response = web.Response(status=204, headers=SECURITY_HEADERS)
        response.del_cookie(COOKIE, path="/", httponly=True, secure=self._tls is not None, samesite="Strict")
        return response

    # ---- files --------------------------------------------------------------------------------------------

    async def _static(self, request: web.Request) -> web.StreamResponse:
        file = self._files.get(request.match_info["path"])
        if file is None:
            raise NotFoundError(f"file {request.path} not found")
        return _file_response(request, file)

    async def _page(self, request: web.Request) -> web.StreamResponse:
        path = request.path
        last = path.rpartition("/")[2]
        if path.startswith(("/api/", "/static/")) or (path.count("/") == 1 and "." in last):
            raise NotFoundError(f"{path} not found")
        index = self._files.get(INDEX)
        if index is None:
            raise NotFoundError("this installation has no page: its file index.html is missing")
        return _file_response(request, index)


def _file_response(request: web.Request, file: StaticFile) -> web.Response:
    # Names of files carry no version, so a browser asks each time, and gets 304 as long as the file is the same.
    headers = {
        **SECURITY_HEADERS,
        "Content-Type": file.type,
        "ETag": file.etag,
        "Cache-Control": "no-cache",
        "Vary": "Accept-Encoding",
    }
    version = request.query.get("v")
    if version is not None and version == file.etag.strip('"'):
        headers["Cache-Control"] = "public, max-age=31536000, immutable"
    if request.headers.get(hdrs.IF_NONE_MATCH) == file.etag:
        return web.Response(status=304, headers=headers)
    body = file.content
    if file.gzipped is not None and _accepts_gzip(request):
        body = file.gzipped
        headers["Content-Encoding"] = "gzip"
    return web.Response(body=body, headers=headers)


def _accepts_gzip(request: web.Request) -> bool:
    return "gzip" in request.headers.get(hdrs.ACCEPT_ENCODING, "")


def _check_own_page(request: web.Request) -> None:
    """Only a script of our own page can send this header without the consent of this server."""
    if request.headers.get("X-Requested-With") != "pumice":
        raise LoginError("the header X-Requested-With: pumice is required")


def _error(code: int, reason: str, message: str) -> web.Response:
    body = msgspec.json.encode({"error": {"code": code, "reason": reason, "message": message}})
    return web.Response(
        status=code, body=body, headers={**SECURITY_HEADERS, "Content-Type": "application/json; charset=utf-8"}
    )
