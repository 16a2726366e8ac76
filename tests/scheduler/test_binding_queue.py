"""What waits behind bindings: for those that were decided before it, and not for ever."""

from __future__ import annotations

import asyncio

import pytest

from pumice.scheduler import binding_queue as module
from pumice.scheduler.binding_queue import Binding, BindingQueue
from pumice.scheduler.cluster_cache import Assumption


def binding(number: int) -> Binding:
    return Binding(f"ns/{number}", "n1", Assumption("u", "n1"), ())


def queue_of(count: int) -> BindingQueue:
    queue = BindingQueue()
    for number in range(count):
        queue.add(binding(number))
    return queue


def test_bindings_are_taken_in_the_order_in_which_they_came() -> None:
    queue = queue_of(3)
    taken = [queue.take() for _ in range(4)]
    assert [one and one.key for one in taken] == ["ns/0", "ns/1", "ns/2", None]


def test_nothing_is_held_while_no_binding_waits() -> None:
    async def run() -> None:
        queue, over = BindingQueue(), asyncio.Event()
        queue.hold(over)
        assert over.is_set()
        async with asyncio.timeout(20):
            await queue.let_pass()

    asyncio.run(run())


def test_a_write_waits_for_the_bindings_before_it_and_for_no_others() -> None:
    async def run() -> None:
        queue, first, second = queue_of(2), asyncio.Event(), asyncio.Event()
        queue.hold(first)
        queue.add(binding(2))
        queue.hold(second)
        states = []
        for _ in range(3):
            queue.take()
            states.append((first.is_set(), second.is_set()))
        assert states == [(False, False), (True, False), (True, True)]

    asyncio.run(run())


def test_a_write_does_not_wait_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "HOLD_SECONDS", 0.01)

    async def run() -> None:
        queue = queue_of(1)
        async with asyncio.timeout(20):
            await queue.let_pass()
            await queue.let_pass()  # the alarm is set again
        assert len(queue) == 1

    asyncio.run(run())
