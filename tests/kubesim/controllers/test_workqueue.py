from __future__ import annotations

import asyncio
import logging

import pytest

from kubesim.api.status import conflict
from kubesim.controllers.workqueue import WorkQueue


def run(scenario):
    return asyncio.run(asyncio.wait_for(scenario, 20))


async def finished(work: WorkQueue) -> None:
    task = asyncio.create_task(work.run())
    while not work.idle:
        await asyncio.sleep(0)
    task.cancel()


def test_a_key_is_looked_at_once_however_often_it_is_added():
    async def scenario():
        seen: list[str] = []

        async def look(key: str) -> None:
            seen.append(key)

        work = WorkQueue(look)
        for key in "abaab":
            work.add(key)
        await finished(work)
        return seen

    assert run(scenario()) == ["a", "b"]


def test_a_key_that_is_added_during_its_look_is_looked_at_again_and_never_twice_at_the_same_time():
    async def scenario():
        seen, busy = 0, False

        async def look(key: str) -> None:
            nonlocal seen, busy
            assert not busy
            busy = True
            if seen == 0:
                work.add(key)
                work.add(key)
            seen += 1
            await asyncio.sleep(0)
            busy = False

        work = WorkQueue(look)
        work.add("a")
        await finished(work)
        return seen

    assert run(scenario()) == 2


def test_no_more_than_so_many_at_once():
    async def scenario():
        now = most = 0

        async def look(_: str) -> None:
            nonlocal now, most
            now += 1
            most = max(most, now)
            await asyncio.sleep(0)
            now -= 1

        work = WorkQueue(look, at_once=3)
        for number in range(20):
            work.add(str(number))
        await finished(work)
        return most

    assert run(scenario()) == 3


@pytest.mark.parametrize("error", [conflict("pods", "", "a"), KeyError("a mistake of ours")])
def test_a_look_that_fails_is_repeated_and_holds_up_nobody(error, caplog):
    async def scenario():
        seen: list[str] = []
        done = asyncio.Event()

        async def look(key: str) -> None:
            seen.append(key)
            if seen.count("bad") < 3 and key == "bad":
                raise error
            if key == "bad":
                done.set()

        work = WorkQueue(look)
        work.add("bad")
        work.add("good")
        task = asyncio.create_task(work.run())
        await done.wait()
        task.cancel()
        return seen

    with caplog.at_level(logging.ERROR):
        assert run(scenario()) == ["bad", "good", "bad", "bad"]
    assert bool(caplog.records) == isinstance(error, KeyError)  # a refusal is life, a mistake is reported


def test_a_look_may_ask_to_be_repeated_and_is_not_delayed_by_a_later_wish():
    async def scenario():
        seen = 0
        done = asyncio.Event()

        async def look(_: str) -> float | None:
            nonlocal seen
            seen += 1
            if seen == 3:
                done.set()
                return None
            return 0.001

        work = WorkQueue(look)
        work.add("a")
        task = asyncio.create_task(work.run())
        work.add_later("a", 1000)
        await done.wait()
        task.cancel()
        return seen

    assert run(scenario()) == 3
