"""The report of a simulation in a real browser: it draws its plots, complains about nothing, and asks for nothing."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.cli.command import EXAMPLES, pumice_command
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


def require_chromium() -> None:
    if CHROMIUM is None:
        if os.environ.get("CI") == "true":
            pytest.fail(MISSING)
        pytest.skip(MISSING)


@pytest.mark.timeout(180)
def test_report_draws_its_plots_and_asks_for_nothing(tmp_path: Path) -> None:
    require_chromium()
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


@pytest.mark.timeout(180)
def test_many_queues_with_long_names_fit_a_telephone(tmp_path: Path) -> None:
    require_chromium()
    name = "a-queue-with-a-name-of-some-length-{:02d}"
    lines = "".join(f"j{n},{20 * n},lab/{name.format(n % 20)},ann,2,cpu=2,1,{300 + n},\n" for n in range(60))
    done = pumice_command(
        *("simulate", workload_file(tmp_path, lines), "--nodes", "2:cpu=8", "--policy", "steer", "--policy", "fcfs"),
        *("--repeat", "2", "--out", tmp_path / "out"),
    )
    assert done.returncode == 0, done.stderr
    with chromium() as browser:
        page = browser.new_page(viewport={"width": 400, "height": 900})
        errors = PageErrors(page)
        page.goto((tmp_path / "out" / "report.html").as_uri())
        below = page.locator("select").nth(1).input_value()
        legends = page.locator(".u-legend").all_inner_texts()
        small = page.locator(".small h3").count()
        cut = page.evaluate(
            "() => [...document.querySelectorAll('.u-legend, canvas')].filter(one => "
            "one.getBoundingClientRect().right > one.closest('section').getBoundingClientRect().right).length"
        )
        wide = page.evaluate("() => document.documentElement.scrollWidth <= window.innerWidth")
        text = page.inner_text("body")
    assert errors.unexpected() == []
    assert below == "root/lab", "a queue alone below root has no areas worth showing"
    assert "13 others" in legends[0] and legends[0].count("a-queue-with") == 7
    assert small == 20
    assert cut == 0, "plots or legends reach beyond their box"
    assert wide, "the page is wider than the window"
    for word in ("wait p95", "fcfs less steer", "95 % intervals"):
        assert word in text


@pytest.mark.timeout(180)
def test_the_report_of_a_decision_log_names_what_it_has(tmp_path: Path) -> None:
    require_chromium()
    done = pumice_command("simulate", "--log", EXAMPLES / "last-night", "--out", tmp_path / "out")
    assert done.returncode == 0, done.stderr
    with chromium() as browser:
        page = browser.new_page(viewport={"width": 1280, "height": 900})
        errors = PageErrors(page)
        page.goto((tmp_path / "out" / "report.html").as_uri())
        text = page.inner_text("body")
    assert errors.unexpected() == []
    assert "cycles" in page_summary(text) and "undefined" not in text and "NaN" not in text


def page_summary(text: str) -> str:
    """The line below the heading."""
    return text.splitlines()[1] or text.splitlines()[2]
