"""What a viewer of a large cluster feels: the page in a real browser while the cluster changes.

``python -m benchmarks.ui_browser`` starts the cluster of ``benchmarks.ui`` (1,000 nodes, 500 queues, 20,000 pods) and
its client that changes pods and queues all the time, and opens pages in Chromium: how long the first page takes, the
longest moment in which the page does not answer, and how long a change of a queue takes to the screen.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from playwright.sync_api import Browser, Page

from benchmarks.ui import await_page, churn, fill, memory_mib, queue_name, started_cluster, started_page
from pumice.kube.client.kubeconfig import read_kubeconfig
from pumice.kube.client.sync_client import Client
from pumice.kube.resources import QUEUES
from tests.support.browser import chromium

OBSERVE = """
  window.frozen = [];
  new PerformanceObserver((list) => {
    for (const entry of list.getEntries()) frozen.push(entry.duration);
  }).observe({ type: "longtask", buffered: true });
"""
"""Long tasks are what keeps a page from answering: the browser reports those over 50 ms."""

SCROLL = """async (seconds) => {
  const box = document.querySelector(".tree") ?? document.scrollingElement;
  const end = performance.now() + seconds * 1000;
  let last = performance.now(), gap = 0;
  while (performance.now() < end) {
    box.scrollTop = (box.scrollTop + 90) % Math.max(1, box.scrollHeight - box.clientHeight);
    await new Promise(requestAnimationFrame);
    gap = Math.max(gap, performance.now() - last);
    last = performance.now();
  }
  box.scrollTop = 0;
  return gap;
}"""

PAGES = {
    "tree": ("/", "[data-path='root']"),
    "jobs": ("/jobs", ".jobs tbody tr"),
    "nodes": ("/nodes", ".map a"),
    "queue": (f"/queues/{queue_name(3)}", "main h1"),
    "job": ("/jobs/default/job-7", ".verdict"),
}


@contextmanager
def churning(kubeconfig: Path, queues: int, jobs: int) -> Iterator[None]:
    command = [sys.executable, "-m", "benchmarks.ui_browser", "--churn", str(kubeconfig), str(queues), str(jobs)]
    process = subprocess.Popen(command)
    try:
        time.sleep(3)
        yield
    finally:
        process.kill()
        process.wait()


def opened(browser: Browser, url: str, path: str, shown: str) -> tuple[Page, float]:
    """A page in a fresh profile, and the seconds until it shows something."""
    page = browser.new_context(viewport={"width": 1280, "height": 800}).new_page()
    page.set_default_timeout(120_000)
    page.add_init_script(OBSERVE)
    began = time.monotonic()
    page.goto(url + path)
    page.locator(shown).first.wait_for()
    return page, time.monotonic() - began


def longest_work(trace: bytes) -> float:
    """The most milliseconds of CPU that one task of the page's main thread took.

    Unlike the time on the clock, it does not depend on what else the machine does.
    """
    events = json.loads(trace)["traceEvents"]
    main = {
        (event["pid"], event["tid"])
        for event in events
        if event["name"] == "thread_name" and event["args"]["name"] == "CrRendererMain"
    }
    tasks = (event for event in events if (event["pid"], event["tid"]) in main and "tdur" in event)
    return max((event["tdur"] for event in tasks), default=0) / 1000


def change_to_screen(page: Page, kubeconfig: Path, times: int) -> list[float]:
    """Seconds from the request that changes a weight until the row shows it."""
    client, found = Client(read_kubeconfig(kubeconfig)), []
    cell = f"[data-path='root/{queue_name(0)}'] .c-weight"
    for weight in range(40, 40 + times):
        began = time.monotonic()
        client.merge(QUEUES.path(name=queue_name(0)), {"spec": {"weight": weight}})
        page.locator(cell).filter(has_text=re.compile(rf"^{weight}\b")).wait_for()
        found.append(time.monotonic() - began)
    return sorted(found)


def measure(home: Path, queues: int, jobs: int, nodes: int, seconds: float) -> None:
    with started_cluster(home, nodes) as kubeconfig:
        asyncio.run(fill(kubeconfig, queues, jobs, nodes))
        print(json.dumps({"nodes": nodes, "queues": queues, "pods": jobs * 10}), flush=True)
        with started_page(home, kubeconfig) as (pid, url), chromium() as browser:
            await_page(url)
            with churning(kubeconfig, queues, jobs):
                for name, (path, shown) in PAGES.items():
                    browser.start_tracing(categories=["toplevel"])
                    page, first = opened(browser, url, path, shown)
                    gap = page.evaluate(SCROLL, seconds)
                    work = round(longest_work(browser.stop_tracing()))
                    frozen = max(page.evaluate("frozen"), default=0)
                    figures = {"page": name, "first_seconds": round(first, 2), "longest_task_ms": round(frozen)}
                    figures |= {"longest_task_cpu_ms": work, "longest_frame_ms": round(gap)}
                    print(json.dumps(figures | memory_mib(pid)), flush=True)
                    if name == "tree":
                        found = change_to_screen(page, kubeconfig, 20)
                        middle, most = round(found[len(found) // 2], 2), round(found[-1], 2)
                        print(json.dumps({"change_to_screen_median": middle, "change_to_screen_max": most}), flush=True)
                    page.context.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--queues", type=int, default=500)
    parser.add_argument("--jobs", type=int, default=2_000)
    parser.add_argument("--nodes", type=int, default=1_000)
    parser.add_argument("--seconds", type=float, default=15.0, help="how long each page is watched")
    parser.add_argument("--churn", nargs=3, metavar=("KUBECONFIG", "QUEUES", "JOBS"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.churn:
        kubeconfig, queues, jobs = options.churn
        asyncio.run(churn(Path(kubeconfig), int(queues), int(jobs)))
        return
    with tempfile.TemporaryDirectory(prefix="pumice-ui-", dir=os.environ.get("TMPDIR")) as folder:
        measure(Path(folder), options.queues, options.jobs, options.nodes, options.seconds)


if __name__ == "__main__":
    main()
