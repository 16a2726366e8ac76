"""Decisions, explanations and the past, on a live cluster where one queue takes back what it is owed."""

from __future__ import annotations

import asyncio
from pathlib import Path

from kubesim.server import RunningCluster
from pumice.decision_log.writer import DecisionLog
from tests.support.live_cluster import QUEUES, live, placed, scheduling, submit
from tests.support.pages import Document, OpenPage, open_page


async def take_back(running: RunningCluster) -> None:
    """Queue late gets some of its half of 12 cores although queue early had all of them."""
    for name in ("early", "late"):
        await running.api.create(QUEUES, "", {"metadata": {"name": name}, "spec": {"weight": 1, "reclaimable": True}})
    await submit(running, "first", 14, queue="early", least=1)
    await until(lambda: len(placed(running)["first"]) == 12)
    await submit(running, "second", 6, queue="late", least=1)
    await until(lambda: len(placed(running)["second"]) > 0)


async def until(holds: object) -> None:
    assert callable(holds)
    while not holds():
        await asyncio.sleep(0.02)


async def evictions(page: OpenPage) -> list[Document]:
    while len(found := (await page.get("/api/decisions?kind=evict"))["decisions"]) < 1:
        await asyncio.sleep(0.1)
    return list(found)


def test_evictions_with_their_numbers_and_the_tree_before(tmp_path: Path) -> None:
    folder = tmp_path / "log"

    async def check(running: RunningCluster) -> None:
        log = DecisionLog(folder)
        options = ("--kubeconfig", str(tmp_path / "kubeconfig"))
        async with (
            scheduling(running.server, decision_log=log, trace=True),
            open_page(running.server, decision_log=folder, options=options) as page,
        ):
            assert (await page.get("/api/about"))["features"]["decisionKeys"] is True
            events = page.events("?topics=decisions")
            await anext(events)
            await take_back(running)
            name, event = await anext(events)
            while name == "beat":
                name, event = await anext(events)
            assert name == "decisions"
            assert event["decisions"][-1]["kind"] == "bind"  # the oldest of them
            await events.aclose()  # type: ignore[attr-defined]  # an async generator
            found = await evictions(page)
            last = found[0]
            assert (last["job"], last["queuePath"]) == ("default/first", "root/early")
            assert (last["preemptor"], last["preemptorQueuePath"]) == ("default/second", "root/late")
            assert (last["action"], last["sides"]["ancestor"]) == ("reclaim", "root")
            assert (last["sides"]["preemptor"], last["sides"]["victim"]) == ("root/late", "root/early")
            assert last["sides"]["before"] != last["sides"]["after"]
            older = await page.get(f"/api/decisions?limit=2&before={last['id']}")
            assert [row["id"] for row in older["decisions"]] == [last["id"] - 1, last["id"] - 2]
            newer = (await page.get(f"/api/decisions?after={last['id']}"))["decisions"]
            assert all(row["id"] > last["id"] for row in newer)
            await compare_past(page, found)
            await compare_why(page)

    live(tmp_path, check)


async def compare_past(page: OpenPage, found: list[Document]) -> None:
    """The tree at the time of the first eviction, and at the end."""
    span = await page.get("/api/then")
    assert span["marks"] and span["from"] <= found[-1]["time"] <= span["until"]
    then = await page.get(f"/api/then?time={found[-1]['time']}")
    used = {row["name"]: row["used"].get("cpu", 0) for row in then["queues"]}
    assert used["late"] + used["early"] <= 12_000
    assert used["late"] < 6_000 or then["then"]["time"] == found[-1]["time"]
    before = await page.get(f"/api/then?time={span['from']}")
    assert {row["name"]: row["tasks"]["running"] for row in before["queues"]}["root"] == 0
    assert before["then"]["before"] is None and before["then"]["after"] is not None


async def compare_why(page: OpenPage) -> None:
    """The job that lost its tasks waits for its turn; the answer has the competitors of each level."""
    found = await page.get("/api/jobs/default/first/why")
    assert found["called"] == "default/first" and "waits" in found["verdict"]
    assert found["unit"] == {"cpu": 1_000}
    level = found["contest"]["rungs"][0]
    assert {each["name"]: each["used"] for each in level["competitors"]}.keys() >= {"early", "late"}
    assert level["competitors"][0]["ours"] is True
    job = found["contest"]["rungs"][-1]["competitors"]
    assert [each["name"] for each in job] == ["default/first"]


async def jobs_bound(page: OpenPage) -> set[str]:
    """The jobs of which the page knows binds; an Event is written some time after the bind."""
    return {row["job"] for row in (await page.get("/api/decisions?kind=bind&limit=500"))["decisions"]}


def test_decisions_come_from_events_without_a_log(tmp_path: Path) -> None:
    async def check(running: RunningCluster) -> None:
        async with scheduling(running.server), open_page(running.server) as page:
            await take_back(running)
            found = await evictions(page)
            assert {row["preemptor"] for row in found} == {"default/second"}
            assert {(row["action"], row["sides"], row["cycle"]) for row in found} == {("reclaim", None, None)}
            while await jobs_bound(page) != {"default/first", "default/second"}:
                await asyncio.sleep(0.1)
            assert (await page.get("/api/about"))["features"]["then"] is False
            while not any(
                event["reason"] == "Evict" for event in (await page.get("/api/jobs/default/first"))["events"]
            ):
                await asyncio.sleep(0.1)

    live(tmp_path, check)
