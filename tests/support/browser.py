"""Chromium for tests and pictures: Debian's, driven by Playwright; no browser is downloaded."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager

from playwright.sync_api import Browser, Page, sync_playwright

CHROMIUM = os.environ.get("CHROMIUM") or shutil.which("chromium")
MISSING = "chromium is not on PATH (on Debian: apt-get install chromium); CHROMIUM may name it"


@contextmanager
def chromium() -> Iterator[Browser]:
    """The browser, without a window; without its sandbox, which needs rights that containers do not give."""
    with sync_playwright() as playwright:
        arguments = ["--no-sandbox", "--disable-dev-shm-usage"]
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=arguments)
        try:
            yield browser
        finally:
            browser.close()


class PageErrors:
    """What a page complains about: exceptions, and errors in its console."""

    def __init__(self, page: Page) -> None:
        self.found: list[str] = []
        self._expected: list[str] = []
        page.on("pageerror", lambda error: self.found.append(f"exception: {error}"))
        page.on("console", lambda line: self.found.append(f"console: {line.text}") if line.type == "error" else None)

    def expect(self, part: str) -> None:
        """Leave out lines with this part, whenever they come: a page repeats its requests, and lines arrive late."""
        self._expected.append(part)

    def expect_lost_connections(self) -> None:
        """Leave out the lines that the browser itself prints when the server is gone."""
        self.expect("net::ERR_")

    def unexpected(self) -> list[str]:
        return [line for line in self.found if not any(part in line for part in self._expected)]
