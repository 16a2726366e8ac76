"""Where the page reads the history: the scheduler's file, or its endpoint."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from pumice.observability.history.recorder import HistoryRecorder
from pumice.ui.history import QueueHistories, history_source
from pumice.ui.http_errors import UnavailableError


async def read(place: str) -> bytes:
    return (await QueueHistories(history_source(place)).of("root", "hour", "x")).plain


def test_history_is_empty_before_the_first_point(tmp_path: Path) -> None:
    said = asyncio.run(read(str(tmp_path / "history.db")))
    assert b'"times":[]' in said and b'"step":10' in said and b'"used":{}' in said


def test_history_of_an_endpoint_is_empty_while_no_replica_has_any(tmp_path: Path) -> None:
    asked: list[str] = []

    async def answer(request: web.Request) -> web.Response:
        asked.append(request.path_qs)
        code, body = HistoryRecorder(tmp_path / "history.db").answer(request.query)
        return web.Response(status=code, body=body)

    async def check() -> bytes:
        application = web.Application()
        application.router.add_get("/history", answer)
        async with TestServer(application) as server:
            return await read(str(server.make_url("/history")))

    assert b'"times":[]' in asyncio.run(check())
    assert asked == ["/history?queue=root&range=hour"] * 4, "another replica may lead"


def test_file_of_something_else_is_an_error(tmp_path: Path) -> None:
    place = tmp_path / "history.db"
    place.write_text("not a database, but long enough to be looked at as one " * 100)
    with pytest.raises(UnavailableError, match=r"no history: .*history\.db"):
        asyncio.run(read(str(place)))
