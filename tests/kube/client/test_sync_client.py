"""The small client against the embedded API, and against servers that answer otherwise."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from pumice.kube.client.api_errors import ApiError, UnreachableError
from pumice.kube.client.kubeconfig import Access
from pumice.kube.client.sync_client import Client
from pumice.kube.resources import CONFIG_MAPS
from tests.support.bare_cluster import bare_cluster

MAPS = CONFIG_MAPS.path("default")


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    """Over TLS, with a token."""
    with bare_cluster(tmp_path_factory.mktemp("client"), token="secret") as (client, _):
        assert client.access.server.startswith("https://") and client.access.token == "secret"
        yield client


def a_map(name: str, **content: str) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "labels": {"of": "test"}},
        "data": content,
    }


def test_the_life_of_an_object(client: Client) -> None:
    path = CONFIG_MAPS.path("default", "life")
    made = client.create(MAPS, a_map("life", a="1"))
    assert client.get(path)["metadata"]["uid"] == made["metadata"]["uid"]
    assert client.merge(path, {"data": {"b": "2"}})["data"] == {"a": "1", "b": "2"}
    with pytest.raises(ApiError) as refused:
        client.create(MAPS, a_map("life"))
    assert refused.value.already_exists
    with pytest.raises(ApiError) as refused:
        client.delete(path, uid="another")
    assert refused.value.conflict
    client.delete(path, uid=made["metadata"]["uid"], propagation="Background")
    with pytest.raises(ApiError) as refused:
        client.get(path)
    assert refused.value.not_found


def test_lists_come_whole_however_small_the_pages(client: Client) -> None:
    for i in range(5):
        client.create(MAPS, a_map(f"page-{i}"))
    names = [f"page-{i}" for i in range(5)]
    for page in (1, 2, 500):
        listing = client.list(MAPS, {"labelSelector": "of=test"}, page=page)
        assert [item["metadata"]["name"] for item in listing.items] == names
        assert listing.revision.isdecimal()
    assert [name for _, name in client.names(MAPS) if name.startswith("page-")] == names


def test_a_watch_tells_what_happens_after_a_revision(client: Client) -> None:
    listing = client.list(MAPS)
    client.create(MAPS, a_map("watched"))
    client.delete(CONFIG_MAPS.path("default", "watched"))
    seen = []
    for kind, changed in client.watch(MAPS, listing.revision):
        seen.append((kind, changed["metadata"].get("name")))
        if kind == "DELETED":
            break
    assert [event for event in seen if event[0] != "BOOKMARK"] == [("ADDED", "watched"), ("DELETED", "watched")]


def test_wrong_token_is_refused_as_unauthorized(client: Client) -> None:
    stranger = Client(Access(client.access.server, token="wrong", authority=client.access.authority))
    with closing(stranger), pytest.raises(ApiError) as refused:
        stranger.get(MAPS)
    assert refused.value.code == 401


def test_a_certificate_is_checked_against_the_name_that_is_asked_for(client: Client) -> None:
    known = {"token": "secret", "authority": client.access.authority}
    with closing(Client(Access(client.access.server, **known, server_name="localhost"))) as other:
        assert other.list(MAPS)
    with pytest.raises(UnreachableError, match="certificate"):
        Client(Access(client.access.server, **known, server_name="elsewhere.example")).list(MAPS)
    with pytest.raises(UnreachableError, match="certificate"):
        Client(Access(client.access.server, token="secret")).list(MAPS)


# ---- other servers -------------------------------------------------------------------------------------------------


@contextmanager
def answering(answer: Callable[[BaseHTTPRequestHandler, int], None]) -> Iterator[Client]:
    """A server whose n-th answer a test gives."""
    asked: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_: object) -> None:
            pass

        def do_GET(self) -> None:
            asked.append(self.path)
            answer(self, len(asked) - 1)

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    client = Client(Access(f"http://127.0.0.1:{server.server_port}"), timeout=5)
    try:
        yield client
    finally:
        client.close()
        server.shutdown()
        thread.join()
        server.server_close()


def say(handler: BaseHTTPRequestHandler, content: bytes, status: int = 200) -> None:
    handler.send_response(status)
    handler.send_header("Content-Length", str(len(content)))
    handler.end_headers()
    handler.wfile.write(content)


def test_a_list_that_expires_on_the_way_is_read_in_one_piece() -> None:
    asked = []

    def answer(handler: BaseHTTPRequestHandler, turn: int) -> None:
        asked.append(handler.path)
        if turn == 1:
            return say(handler, json.dumps({"kind": "Status", "code": 410, "reason": "Expired"}).encode(), 410)
        about = {"resourceVersion": str(turn), **({"continue": "more"} if turn == 0 else {})}
        return say(handler, json.dumps({"metadata": about, "items": [{"metadata": {"name": f"o{turn}"}}]}).encode())

    with answering(answer) as client:
        listing = client.list("/things", page=7)
    assert [item["metadata"]["name"] for item in listing.items] == ["o2"] and listing.revision == "2"
    assert asked == ["/things?limit=7", "/things?limit=7&continue=more", "/things"]


def test_a_connection_that_was_closed_meanwhile_is_opened_again() -> None:
    def answer(handler: BaseHTTPRequestHandler, turn: int) -> None:
        say(handler, b"{}")
        handler.close_connection = True  # without having said so

    with answering(answer) as client:
        assert [client.get("/x") for _ in range(3)] == [{}, {}, {}]


@pytest.mark.parametrize("content", [b"<html>", b"[]", b"\xff"])
def test_response_other_than_json_object_raises_unreachable_error(content: bytes) -> None:
    with answering(lambda handler, _: say(handler, content)) as client, pytest.raises(UnreachableError):
        client.get("/x")


def test_a_watch_that_breaks_off_within_an_event() -> None:
    event = json.dumps({"type": "ADDED", "object": {"metadata": {"name": "a"}}}).encode() + b"\n"

    def answer(handler: BaseHTTPRequestHandler, turn: int) -> None:
        handler.send_response(200)
        handler.send_header("Transfer-Encoding", "chunked")
        handler.end_headers()
        handler.wfile.write(b"%x\r\n%s\r\n" % (len(event), event) + b'20\r\n{"type": "ADD')
        handler.close_connection = True

    with answering(answer) as client:
        watch = client.watch("/x", "1")
        assert next(watch)[0] == "ADDED"
        with pytest.raises(UnreachableError):
            next(watch)


def test_refused_connection_raises_unreachable_error(tmp_path: Path) -> None:
    with pytest.raises(UnreachableError, match=r"http://127\.0\.0\.1:1: Connection refused"):
        Client(Access("http://127.0.0.1:1")).get("/x")
