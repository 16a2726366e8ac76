"""Make the pictures of docs/pictures/ui: each page of ``pumice ui`` on a small cluster with something to see.

python -m tools.screenshots [FOLDER]

Needs Chromium and kubectl; takes a minute.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path
from typing import Any, Literal

from playwright.sync_api import Browser

from tests.support.browser import CHROMIUM, MISSING, chromium
from tests.support.kubectl import KUBECTL
from tests.support.showcase import Showcase, moment_before_science, showcase, taken_by_science

FOLDER = Path(__file__).resolve().parent.parent / "docs/pictures/ui"
DESKTOP = (1180, 740)
PHONE = (360, 740)
SETTLING = 1500  # milliseconds after the page has loaded: charts are drawn, answers have come
HISTORY = 60.0  # seconds that a chart should show

Scheme = Literal["light", "dark"]


def take(browser: Browser, address: str, file: Path, *, size: tuple[int, int], scheme: Scheme, wait_for: str) -> None:
    """One picture of one page."""
    context = browser.new_context(viewport={"width": size[0], "height": size[1]}, color_scheme=scheme)
    page = context.new_page()
    page.goto(address)
    page.wait_for_selector(wait_for, timeout=60_000)
    page.wait_for_timeout(SETTLING)
    page.screenshot(path=file)
    context.close()


def pictures(cluster: Showcase) -> list[tuple[str, str, str, tuple[int, int], Scheme]]:
    """Name, path, what must be there, size and colours of each picture."""
    before = moment_before_science(cluster)
    return [
        ("tree", "/", ".tree-body [role=row]", DESKTOP, "light"),
        ("queue", "/queues/models", ".chart canvas", (1180, 1000), "light"),
        ("jobs", "/jobs", ".jobs tbody tr", DESKTOP, "light"),
        ("job", "/jobs/science/atlas", ".verdict", (1180, 860), "light"),
        ("nodes", "/nodes", ".map a", (1180, 420), "light"),
        ("decisions", "/decisions?kind=evict&text=science", ".decision", DESKTOP, "light"),
        ("then", f"/then?time={before}", ".tree-body [role=row]", DESKTOP, "light"),
        ("tree-dark", "/", ".tree-body [role=row]", DESKTOP, "dark"),
        ("tree-phone", "/", ".tree-body [role=row]", PHONE, "light"),
        ("job-phone", "/jobs/science/atlas", ".verdict", PHONE, "dark"),
    ]


def main() -> int:
    """Run as a command; 2 where a program is missing."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", maxsplit=1)[0] if __doc__ else None)
    parser.add_argument("folder", nargs="?", type=Path, default=FOLDER, metavar="FOLDER")
    folder: Path = parser.parse_args().folder
    if CHROMIUM is None or KUBECTL is None:
        sys.stderr.write(f"{MISSING if CHROMIUM is None else 'kubectl is not on PATH'}\n")
        return 2
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as data, showcase(Path(data)) as cluster, chromium() as browser:
        cluster.apply("owners.yaml")
        cluster.await_document("/api/decisions?kind=evict&limit=500", taken_by_science)
        cluster.await_document("/api/jobs/science/ocean", lambda job: job["job"]["phase"] == "Running")
        cluster.await_document("/api/queues/models/history?range=hour", lambda found: _recorded(found) >= HISTORY)
        for name, path, wait_for, size, scheme in pictures(cluster):
            file = folder / f"{name}.png"
            take(browser, cluster.page + path, file, size=size, scheme=scheme, wait_for=wait_for)
            sys.stdout.write(f"{file}\n")
    return 0


def _recorded(history: Any) -> float:
    """Seconds between the first and the last recorded point."""
    column = history["used"].get("cpu", [])
    times = [time for time, value in zip(history["times"], column, strict=True) if value is not None]
    return float(times[-1] - times[0]) if times else 0.0


if __name__ == "__main__":
    raise SystemExit(main())
