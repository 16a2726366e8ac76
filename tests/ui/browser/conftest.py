"""A browser for the tests in this folder, and pages that must not complain."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest
from playwright.sync_api import Browser, Page

from tests.support.browser import CHROMIUM, MISSING, PageErrors, chromium
from tests.ui.browser.canned_server import CannedCluster, serve

DESKTOP = {"width": 1280, "height": 800}
PHONE = {"width": 360, "height": 740}

OpenPage = Callable[..., Page]
Serving = Callable[[CannedCluster], str]


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """One for the tests of a module; required where CI=true.

    While it is open, an event loop runs in this thread, and ``asyncio.run`` of other tests would fail: so not longer.
    """
    if CHROMIUM is None:
        if os.environ.get("CI") == "true":
            pytest.fail(MISSING)
        pytest.skip(MISSING)
    with chromium() as started:
        yield started


@pytest.fixture
def errors() -> list[PageErrors]:
    """What the pages of the test complained about; a test that breaks something names the lines it expects."""
    return []


@pytest.fixture
def serving() -> Iterator[Serving]:
    """Serves made-up clusters until the pages of the test are closed."""
    with ExitStack() as servers:
        yield lambda cluster: servers.enter_context(serve(cluster))


@pytest.fixture
def open_page(browser: Browser, errors: list[PageErrors], serving: Serving) -> Iterator[OpenPage]:
    """Opens an address in a fresh profile; at the end no page may have complained."""
    contexts = []

    def opened(address: str, *, size: dict[str, int] = DESKTOP, **options: Any) -> Page:
        context = browser.new_context(viewport=size, **options)  # type: ignore[arg-type]  # a TypedDict there
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(30_000)
        errors.append(PageErrors(page))
        page.goto(address)
        return page

    yield opened
    for context in contexts:
        context.close()
    assert [line for watcher in errors for line in watcher.unexpected()] == []
