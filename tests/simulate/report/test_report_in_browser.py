"""The report of a simulation in a real browser: it draws its plots, complains about nothing, and asks for nothing."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.cli.command import pumice_command
from tests.simulate.samples import workload_file
from tests.support.browser import CHROMIUM, MISSING, PageErrors, chromium

pytestmark = [pytest.mark.browser, pytest.mark.process]

LINES = "".join(f"j{n},{20 * n},{'eng' if n % 3 else 'sci'},ann,2,cpu=2,1,{300 + 40 * (n % 9)},\n" for n in range(60))

COLOURS = """() => [...document.querySelectorAll('canvas')].map(canvas => {
    const {width, height} = canvas, found = new Set();
    const pixels = new Uint32Array(canvas.getContext('2d').getImageData(0, 0, width, height).data.buffer);
    for (const pixel of pixels) found.add(pixel);
    return found.size;
})"""
"""How many colours there are on each plot: one that was not drawn has one."""


@pytest.mark.timeout(180)
def test_report_draws_its_plots_and_asks_for_nothing(tmp_path: Path) -> None:
    if CHROMIUM is None:
        if os.environ.get("CI") == "true":
            pytest.fail(MISSING)
        pytest.skip(MISSING)
    done = pumice_command(
        *("simulate", workload_file(tmp_path, LINES), "--nodes", "2:cpu=8", "--policy", "steer", "--policy", "fcfs"),
        *("--out", tmp_path / "out"),
    )
    assert done.returncode == 0, done.stderr
    asked: list[str] = []
    with chromium() as browser:
        page = browser.new_page(viewport={"width": 1280, "height": 900})
        errors = PageErrors(page)
        page.on("request", lambda request: asked.append(request.url))
        page.goto((tmp_path / "out" / "report.html").as_uri())
        text = page.inner_text("body")
        drawn = page.evaluate(COLOURS)
        wide = page.evaluate("() => document.documentElement.scrollWidth <= window.innerWidth")
    assert errors.unexpected() == []
    assert [url for url in asked if not url.startswith(("file:", "data:", "blob:"))] == []
    assert len(drawn) >= 4, "plots"
    assert min(drawn) > 3, f"colours in each plot: {drawn}"
    assert wide, "the page is wider than the window"
    for word in ("steer", "fcfs", "eng", "sci"):
        assert word in text
