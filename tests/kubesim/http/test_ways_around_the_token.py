"""A server with a token answers nobody without it; and of many writers of one object none loses an update."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import AsyncExitStack

import pytest

from kubesim import bootstrap
from kubesim.api.client import InProcessClient
from kubesim.http.listen import bind_sockets, serve_http
from kubesim.registry.registry import ResourceRegistry
from kubesim.storage import Store
from pumice.embedded.identity import PUMICE
from tests.kubesim.http import raw_client
from tests.kubesim.http.expensive_requests import CONFIG_MAPS, Sent, config_map, post
from tests.kubesim.http.raw_client import Loop, RawClient
from tests.kubesim.http.test_pauses import ask

TOKEN = "right-token"
PATH = "/api/v1/namespaces"

HEADERS = [
    "",
    "Authorization: right-token",
    "Authorization: bearer",
    "Authorization: Bearer ",
    "Authorization: Bearer  right-token",
    "Authorization: bearer right-token",
    "Authorization: Bearer right-token,",
    "Authorization: Bearer right-toke",
    "Authorization: Bearer right-tokenx",
    "Authorization: Bearer RIGHT-TOKEN",
    "Authorization: Bearer\tright-token",
    "Authorization: Basic cmlnaHQtdG9rZW4=",
    "Authorization: Bearer \xff",
    "Proxy-Authorization: Bearer right-token",
    "X-Authorization: Bearer right-token",
    "X-Forwarded-User: admin",
    "X-Remote-User: system:admin",
    "Impersonate-User: admin",
    "Cookie: token=right-token",
    "Host: localhost:1",
    "Origin: http://localhost",
    "Sec-WebSocket-Protocol: base64url.bearer.authorization.k8s.io.cmlnaHQtdG9rZW4",
    "Connection: Upgrade\r\nUpgrade: websocket",
    "Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__",
]
TARGETS = [
    f"{PATH}?token=right-token",
    f"{PATH}?access_token=right-token",
    "/healthz/../api/v1/namespaces",
    "/healthz/%2e%2e/api/v1/namespaces",
    "/livez/x/../../api/v1/namespaces",
    "//api/v1/namespaces",
    "http://localhost/api/v1/namespaces",
    "/api/v1/namespaces/",
    "/API/v1/namespaces",
    "/openapi/v2",
]


@pytest.fixture(scope="module")
def loop() -> Iterator[Loop]:
    thread = Loop()
    yield thread
    thread.stop()


@pytest.fixture(scope="module")
def port(loop: Loop) -> Iterator[int]:
    stack = AsyncExitStack()

    async def start() -> int:
        store = await Store.open(None, PUMICE)
        stack.push_async_callback(store.close)
        api = InProcessClient(store, ResourceRegistry(raw_client._resources()), PUMICE)
        await bootstrap.create_system_classes(api)
        sockets = stack.enter_context(bind_sockets())
        found: int = await stack.enter_async_context(serve_http(api, sockets, token=TOKEN))
        return found

    yield loop.run(start())
    loop.run(stack.aclose())


def first_line(port: int, request: str) -> tuple[int, bytes]:
    client = RawClient(port)
    client.send(request.encode("latin-1"))
    said = client.read(head_only=request.startswith("HEAD"))
    client.close()
    return (said.code, said.body) if said else (0, b"")


@pytest.mark.parametrize("header", HEADERS)
def test_no_way_around_the_token(port: int, header: str) -> None:
    for method in ("GET", "HEAD", "POST"):
        host = "" if header.startswith("Host") else "Host: localhost\r\n"
        lines = f"{method} {PATH} HTTP/1.1\r\n{host}" + (f"{header}\r\n" if header else "")
        code, body = first_line(port, lines + "Connection: close\r\n\r\n")
        assert code in {0, 400, 401}
        assert b"NamespaceList" not in body


@pytest.mark.parametrize("target", TARGETS)
def test_no_path_leads_around_the_token(port: int, target: str) -> None:
    for version in ("1.0", "1.1"):
        code, body = first_line(port, f"GET {target} HTTP/{version}\r\nHost: localhost\r\n\r\n")
        assert code in {0, 400, 401, 404} or body == b"ok"  # the health of the server is for everybody
        assert b"NamespaceList" not in body and b"swagger" not in body


def test_the_token_itself_is_taken(port: int) -> None:
    code, body = first_line(port, f"GET {PATH} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {TOKEN}\r\n\r\n")
    assert code == 200 and b"NamespaceList" in body


def test_no_update_of_many_writers_is_lost(loop: Loop) -> None:
    """Eight writers read, add one, and write with the version that they have read; who comes too late reads again."""
    writers, rounds = 8, 15
    with raw_client.bare_server(loop) as server:
        assert ask(server, post(CONFIG_MAPS, config_map() | {"data": {"n": "0"}})).code == 201

        def count() -> None:
            for _ in range(rounds):
                while True:
                    found = json.loads(ask(server, Sent("GET", f"{CONFIG_MAPS}/c", 200)).body)
                    found["data"]["n"] = str(int(found["data"]["n"]) + 1)
                    if ask(server, Sent("PUT", f"{CONFIG_MAPS}/c", 200, json.dumps(found).encode())).code == 200:
                        break

        threads = [threading.Thread(target=count) for _ in range(writers)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        found = server.api.read("configmaps", "default", "c")
    assert found is not None and found["data"]["n"] == str(writers * rounds)
