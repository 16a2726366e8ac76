"""The HTTP server: files, deep links, headers, and requests that it does not answer."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from kubesim.server import RunningCluster
from pumice.ui.access import SharedToken
from pumice.ui.request_guard import LOOPBACK_NAMES, RequestGuard, is_loopback
from pumice.ui.static_files import StaticFiles
from tests.support.live_cluster import live
from tests.support.pages import open_page

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; font-src 'self'; "
    "connect-src 'self'; manifest-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)


def test_files_links_and_refusals(tmp_path: Path) -> None:
    async def check(running: RunningCluster) -> None:
        async with open_page(running.server) as page:
            index = (await page.answer("/"))[2]
            for link in ("/queues/research", "/jobs/default/train.v2", "/nodes", "/then?time=2026-11-16T19:00:00Z"):
                status, headers, body = await page.answer(link)
                assert (status, body) == (200, index), link
                assert headers["Content-Security-Policy"] == POLICY
                assert headers["X-Content-Type-Options"] == "nosniff"
                assert "Access-Control-Allow-Origin" not in headers
            status, headers, body = await page.answer("/static/index.html")
            assert (status, headers["Content-Type"], body) == (200, "text/html; charset=utf-8", index)
            assert (await page.answer("/static/index.html", **{"If-None-Match": headers["ETag"]}))[0] == 304
            version = headers["ETag"].strip('"')
            immutable = (await page.answer(f"/static/index.html?v={version}"))[1]
            assert immutable["Cache-Control"] == "public, max-age=31536000, immutable"
            for missing in ("/static/none.js", "/static/../__init__.py", "/static/%2e%2e/server.py", "/favicon.ico"):
                status, headers, body = await page.answer(missing)
                assert status == 404, missing
                assert json.loads(body)["error"]["reason"] == "NotFound"

            status, headers, body = await page.answer("/api/tree")
            assert (await page.answer("/api/tree", **{"If-None-Match": headers["ETag"]}))[0] == 304
            assert headers["Cache-Control"] == "no-cache"
            for path, reason in (
                ("/api/none", "NotFound"),
                ("/api/jobs?limit=0", "BadRequest"),
                (f"/api/jobs?limit={'9' * 5000}", "BadRequest"),
                ("/static/a%00b", "NotFound"),
                ("/api/jobs?continue=x", "BadRequest"),
                ("/api/jobs?sort=up", "BadRequest"),
                ("/api/decisions?after=-1", "BadRequest"),
                ("/api/queues/none", "NotFound"),
                ("/api/nodes/none", "NotFound"),
                ("/api/jobs/default/none/why", "NotFound"),
                ("/api/then", "Unavailable"),
                ("/api/queues/root/history", "Unavailable"),
            ):
                status, headers, body = await page.answer(path)
                assert json.loads(body)["error"]["reason"] == reason, path
                assert headers["Content-Type"] == "application/json; charset=utf-8"

            by_path = await page.get("/api/queues/root%2Fdefault")
            assert by_path["queue"]["path"] == "root/default"
            assert (await page.answer("/api/queues/root%252Fdefault"))[0] == 404

            assert (await page.answer("/api/tree", Host="evil.example"))[0] == 403
            assert (await page.answer("/", Host="evil.example:80"))[0] == 403
            assert (await page.answer("/api/tree", **{"Sec-Fetch-Site": "cross-site"}))[0] == 403
            assert (await page.answer("/api/tree", **{"Sec-Fetch-Site": "same-origin"}))[0] == 200
            async with page.session.post(f"{page.url}/api/tree") as response:
                assert response.status == 405

    live(tmp_path, check)


def test_token_guards_documents_but_not_the_page(tmp_path: Path) -> None:
    async def check(running: RunningCluster) -> None:
        async with open_page(running.server, authenticator=lambda api, picture: SharedToken("secret")) as page:
            assert (await page.answer("/"))[0] == 200
            for path in ("/api/about", "/api/tree", "/api/stream", "/api/decisions"):
                assert (await page.answer(path))[0] == 401, path
                assert (await page.answer(path, Authorization="Bearer wrong"))[0] == 401
            assert (await page.get("/api/about", Authorization="Bearer secret"))["viewer"]["authentication"] == "token"

            login, own = f"{page.url}/api/login", {"X-Requested-With": "pumice"}
            for body, headers, status in (
                ({"token": "secret"}, {}, 403),  # a form of another site cannot send the header
                ({"token": "wrong"}, own, 401),
                (["secret"], own, 400),
                ({"token": "secret"}, own, 204),
            ):
                async with page.session.post(login, json=body, headers=headers) as response:
                    assert response.status == status, body
            cookie = response.headers["Set-Cookie"]
            assert "HttpOnly" in cookie and "SameSite=Strict" in cookie
            page.session.cookie_jar.clear()
            assert (await page.answer("/api/tree", Cookie="pumice_ui=secret"))[0] == 200
            async with page.session.post(f"{page.url}/api/logout", headers=own) as response:
                assert response.status == 204 and "Max-Age=0" in response.headers["Set-Cookie"]

    live(tmp_path, check)


@pytest.mark.parametrize("host", ["127.0.0.1:6441", "localhost:6441", "localhost", "[::1]:6441", "LOCALHOST:1"])
def test_own_names_are_answered(host: str) -> None:
    assert RequestGuard(LOOPBACK_NAMES).refusal({"Host": host}, data=True) == ""


@pytest.mark.parametrize("host", ["", "evil.example", "127.0.0.1.evil.example:6441", "localhost.", "[::1]x"])
def test_other_names_are_refused(host: str) -> None:
    assert "Host" in RequestGuard(LOOPBACK_NAMES).refusal({"Host": host}, data=False)


def test_loopback_addresses() -> None:
    assert [is_loopback(host) for host in ("127.0.0.1", "127.8.0.1", "::1", "localhost")] == [True] * 4
    assert [is_loopback(host) for host in ("", "0.0.0.0", "::", "10.0.0.1", "example.org")] == [False] * 5


def test_file_is_read_again_when_it_changed(tmp_path: Path) -> None:
    file = tmp_path / "page.js"
    file.write_text("1;" * 1000)
    files = StaticFiles(tmp_path)
    first = files.get("page.js")
    assert first is not None and first.gzipped is not None
    assert (first.type, gzip.decompress(first.gzipped)) == ("text/javascript; charset=utf-8", first.content)
    file.write_text("2;")
    import os

    os.utime(file, ns=(1, 1))
    second = files.get("page.js")
    assert second is not None and second.content == b"2;" and second.etag != first.etag
    assert files.get("../outside.js") is None
