"""docs/metrics.md is what the processes really give."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

import aiohttp
from prometheus_client.parser import text_string_to_metric_families

from kubesim.server import RunningCluster
from pumice.observability.endpoints import Endpoints
from pumice.observability.probes import scheduler_probes
from tests.support.live_cluster import eventually, live, placed, scheduling, submit
from tests.support.processes import run_process

ROOT = Path(__file__).parent.parent
PAGE = (ROOT / "docs" / "metrics.md").read_text(encoding="utf-8")


def test_the_page_is_up_to_date() -> None:
    """If not: python tools/metrics_page.py > docs/metrics.md."""
    done = run_process(
        [sys.executable, "tools/metrics_page.py"],
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": str(ROOT / "src"), "PYTHONIOENCODING": "utf-8"},
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=True,
    )
    assert done.stdout == PAGE


def test_metrics_page_lists_every_metric_of_scheduler(tmp_path: Path) -> None:
    """The page is written without a cluster; here is one, asked over HTTP."""
    of_the_scheduler = PAGE.partition("## The scheduler")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| `(\w+)` \| \w* \| (.*?) \|", of_the_scheduler, re.MULTILINE)
    listed = {name.removesuffix("_total"): set(re.findall(r"`(\w+)`", labels)) for name, labels in rows}
    assert len(listed) == len(rows) > 50

    async def check(running: RunningCluster) -> None:
        async with (
            scheduling(running.server) as scheduler,
            Endpoints(("127.0.0.1", 0), scheduler_probes(scheduler)) as endpoints,
            aiohttp.ClientSession() as session,
        ):
            await submit(running, "one", 2)
            await submit(running, "large", 99)
            await eventually(lambda: len(placed(running)["one"]) == 2)
            await eventually(lambda: "default/large" in scheduler.engine.context.decided.conditions)
            async with session.get(f"{endpoints.url}/metrics") as answer:
                families = list(text_string_to_metric_families(await answer.text()))
        given = {family.name: family for family in families if not family.name.startswith(("process_", "python_"))}
        assert {*listed} - {*given} == {"pumice_decision_log_broken", "pumice_leading"}  # no log, and no election here
        assert {*given} - {*listed} == set()
        for name, family in given.items():
            for sample in family.samples:
                assert {*sample.labels} - {"le"} == listed[name], name

    live(tmp_path, check)
