"""Asked from outside whether a loop is alive and sees the cluster."""

from __future__ import annotations

import asyncio
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path

import pytest

from kubesim.server import RunningCluster
from pumice.observability.endpoints import Endpoints
from pumice.observability.liveness import STUCK, LoopHeartbeat
from pumice.observability.probes import scheduler_probes
from pumice.observability.process_probes import AddressError, Probes, parse_address
from pumice.scheduler.loop import STALLED
from tests.support.live_cluster import eventually, live, scheduling

ANYWHERE = ("127.0.0.1", 0)


def get(url: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(url, timeout=10) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


async def ask(url: str) -> tuple[int, str]:
    return await asyncio.to_thread(get, url)


def probes(alive: Callable[[], str] = str, ready: Callable[[], str] = str) -> Probes:
    return Probes(alive, ready)


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("127.0.0.1:8080", ("127.0.0.1", 8080)),
        ("localhost:0", ("localhost", 0)),
        (":9090", ("", 9090)),
        ("[::1]:1", ("::1", 1)),
    ],
)
def test_addresses(text: str, address: tuple[str, int]) -> None:
    assert parse_address(text) == address


@pytest.mark.parametrize("text", ["8080", "127.0.0.1", "127.0.0.1:", "::1:8080", "host:65536", "host:-1", "host:٣"])
def test_invalid_address_is_quoted_in_error(text: str) -> None:
    with pytest.raises(AddressError, match=r"127\.0\.0\.1:8080") as refused:
        parse_address(text)
    assert repr(text) in str(refused.value)


def test_failed_probes_answer_with_error_code_and_reason() -> None:
    wrong = {"alive": "", "ready": ""}

    async def run() -> None:
        asked = probes(lambda: wrong["alive"], lambda: wrong["ready"])
        async with Endpoints(ANYWHERE, asked) as endpoints:
            assert await ask(f"{endpoints.url}/healthz") == (200, "ok\n")
            assert await ask(f"{endpoints.url}/readyz") == (200, "ok\n")
            wrong.update(alive="stuck", ready="pods: nobody answers")
            assert await ask(f"{endpoints.url}/healthz") == (500, "stuck\n")
            assert await ask(f"{endpoints.url}/readyz") == (503, "pods: nobody answers\n")
            assert (await ask(f"{endpoints.url}/metrics"))[0] == 404  # nobody gave any
            assert (await ask(f"{endpoints.url}/elsewhere"))[0] == 404

    asyncio.run(run())


def test_a_loop_that_is_stuck_is_told_from_one_that_works() -> None:
    """The loop itself can't answer while it is stuck: somebody else must."""
    ahead = 0.0
    answers: list[tuple[int, str]] = []

    async def run() -> None:
        nonlocal ahead
        pulse = LoopHeartbeat(lambda: time.monotonic() + ahead)
        async with Endpoints(ANYWHERE, probes(), pulse) as endpoints:
            asker = threading.Thread(target=lambda: answers.append(get(f"{endpoints.url}/healthz")))
            ahead = STUCK + 1
            asker.start()
            asker.join()  # the loop stands still meanwhile
            await asyncio.sleep(1.5)  # and comes round again
            answers.append(await ask(f"{endpoints.url}/healthz"))

    asyncio.run(run())
    (stuck, why), fine = answers
    assert stuck == 500 and why.startswith("stuck: the event loop has not run for 3")
    assert fine == (200, "ok\n")


def test_endpoints_stop_answering_after_exit() -> None:
    async def run() -> str:
        async with Endpoints(ANYWHERE, probes()) as endpoints:
            return endpoints.url

    url = asyncio.run(run())
    with pytest.raises(urllib.error.URLError):
        get(f"{url}/healthz")
    assert "endpoints" not in {thread.name for thread in threading.enumerate()}


def test_an_address_that_is_taken_is_an_error_and_leaves_nothing_behind() -> None:
    async def run() -> None:
        async with Endpoints(ANYWHERE, probes()) as first:
            port = int(first.url.rpartition(":")[2])
            with pytest.raises(OSError, match="address already in use"):
                await Endpoints(("127.0.0.1", port), probes()).__aenter__()

    asyncio.run(run())


def test_a_scheduler_without_its_cluster_is_alive_and_not_ready(tmp_path: Path) -> None:
    async def check(running: RunningCluster) -> None:
        async with scheduling("http://127.0.0.1:1") as lost, Endpoints(ANYWHERE, scheduler_probes(lost)) as endpoints:
            await eventually(lambda: lost.informers[0].last_error is not None)
            code, why = await ask(f"{endpoints.url}/readyz")
            assert code == 503 and "nodes: " in why
            assert (await ask(f"{endpoints.url}/healthz"))[0] == 200
        async with scheduling(running.server) as found, Endpoints(ANYWHERE, scheduler_probes(found)) as endpoints:
            await eventually(lambda: found.cycles > 0)
            assert await ask(f"{endpoints.url}/readyz") == (200, "ok\n")
            assert await ask(f"{endpoints.url}/healthz") == (200, "ok\n")

    live(tmp_path, check)


def test_a_scheduler_whose_cycles_do_not_end_is_not_alive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def check(running: RunningCluster) -> None:
        async with (
            scheduling(running.server) as scheduler,
            Endpoints(ANYWHERE, scheduler_probes(scheduler)) as endpoints,
        ):
            await eventually(lambda: scheduler.cycles > 0)
            monkeypatch.setattr(scheduler, "_last", time.monotonic() - STALLED - 1)
            code, why = get(f"{endpoints.url}/healthz")  # in this thread: no cycle comes in between
            assert code == 500 and why.startswith("stuck: no cycle has completed")

    live(tmp_path, check)
