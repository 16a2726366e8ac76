from __future__ import annotations

import asyncio
import logging

import pytest

from kubebase.work_queue import RetryPolicy, WorkQueue


class ConflictError(Exception):
    """An error that is part of normal operation."""


def run(scenario):
    return asyncio.run(asyncio.wait_for(scenario, 20))


async def finished(queue: WorkQueue) -> None:
    task = asyncio.create_task(queue.run())
    while not queue.idle:
        await asyncio.sleep(0)
    task.cancel()


def test_key_added_several_times_is_reconciled_once():
    async def scenario():
        seen: list[str] = []

        async def reconcile(key: str) -> None:
            seen.append(key)

        queue = WorkQueue(reconcile)
        for key in "abaab":
            queue.add(key)
        await finished(queue)
        return seen

    assert run(scenario()) == ["a", "b"]


def test_key_added_while_it_is_reconciled_is_reconciled_again_afterwards():
    async def scenario():
        seen, busy = 0, False

        async def reconcile(key: str) -> None:
            nonlocal seen, busy
            assert not busy
            busy = True
            if seen == 0:
                queue.add(key)
                queue.add(key)
            seen += 1
            await asyncio.sleep(0)
            busy = False

        queue = WorkQueue(reconcile)
        queue.add("a")
        await finished(queue)
        return seen

    assert run(scenario()) == 2


def test_number_of_workers_limits_parallel_keys():
    async def scenario():
        now = most = 0

        async def reconcile(_: str) -> None:
            nonlocal now, most
            now += 1
            most = max(most, now)
            await asyncio.sleep(0)
            now -= 1

        queue = WorkQueue(reconcile, workers=3)
        for number in range(20):
            queue.add(str(number))
        await finished(queue)
        return most

    assert run(scenario()) == 3


POLICY = RetryPolicy(first_delay=0.001, expected_errors=(ConflictError,), expected_level=logging.INFO)


@pytest.mark.parametrize(
    ("error", "level"), [(ConflictError("a write came first"), "INFO"), (KeyError("a bug"), "ERROR")]
)
def test_failed_key_is_retried_and_does_not_block_other_keys(error, level, caplog):
    async def scenario():
        seen: list[str] = []
        done = asyncio.Event()

        async def reconcile(key: str) -> None:
            seen.append(key)
            if seen.count("bad") < 3 and key == "bad":
                raise error
            if key == "bad":
                done.set()

        queue = WorkQueue(reconcile, retries=POLICY)
        queue.add("bad")
        queue.add("good")
        task = asyncio.create_task(queue.run())
        await done.wait()
        task.cancel()
        return seen

    with caplog.at_level(logging.INFO, "kubebase.work_queue"):
        assert run(scenario()) == ["bad", "good", "bad", "bad"]
    assert [record.levelname for record in caplog.records] == [level] * 2
    assert all(record.message.startswith("Failed to reconcile, retrying: key=bad ") for record in caplog.records)


def test_failures_in_a_row_are_forgotten_after_a_success():
    async def scenario():
        seen: list[int] = []
        done = asyncio.Event()

        class Recorder(RetryPolicy):
            def delay(self, failures: int, error: Exception) -> float:
                seen.append(failures)
                return 0.0

        attempts = iter([True, True, False, True, False])

        async def reconcile(_: str) -> float | None:
            if next(attempts):
                raise ConflictError
            if len(seen) == 3:
                done.set()
                return None
            return 0.0

        queue = WorkQueue(reconcile, retries=Recorder(expected_errors=(ConflictError,)))
        queue.add("a")
        task = asyncio.create_task(queue.run())
        await done.wait()
        task.cancel()
        return seen

    assert run(scenario()) == [1, 2, 1]


def test_reconciler_asks_for_its_key_again_and_a_longer_delay_does_not_postpone_it():
    async def scenario():
        seen = 0
        done = asyncio.Event()

        async def reconcile(_: str) -> float | None:
            nonlocal seen
            seen += 1
            if seen == 3:
                done.set()
                return None
            return 0.001

        queue = WorkQueue(reconcile)
        queue.add("a")
        task = asyncio.create_task(queue.run())
        queue.add_later("a", 1000)
        await done.wait()
        task.cancel()
        return seen

    assert run(scenario()) == 3


def test_shorter_delay_replaces_a_longer_one():
    async def scenario():
        seen: list[str] = []

        async def reconcile(key: str) -> None:
            seen.append(key)

        queue = WorkQueue(reconcile)
        task = asyncio.create_task(queue.run())
        queue.add_later("a", 1000)
        await asyncio.sleep(0)  # the queue waits for the longer delay now
        queue.add_later("a", 0.001)
        while not seen:
            await asyncio.sleep(0.001)
        task.cancel()
        return seen

    assert run(scenario()) == ["a"]


def test_added_key_is_not_reconciled_again_when_its_delay_ends():
    async def scenario():
        seen: list[str] = []

        async def reconcile(key: str) -> None:
            seen.append(key)

        queue = WorkQueue(reconcile)
        queue.add_later("a", 0.001)
        queue.add("a")
        task = asyncio.create_task(queue.run())
        await asyncio.sleep(0.02)
        task.cancel()
        return seen

    assert run(scenario()) == ["a"]


def test_stopped_queue_cancels_what_is_being_reconciled_before_it_returns():
    async def scenario():
        started, ended = asyncio.Event(), []

        async def reconcile(key: str) -> None:
            started.set()
            try:
                await asyncio.sleep(1000)
            finally:
                ended.append(key)

        queue = WorkQueue(reconcile)
        queue.add("a")
        task = asyncio.create_task(queue.run())
        await started.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return ended

    assert run(scenario()) == ["a"]


@pytest.mark.parametrize(("failures", "delay"), [(1, 0.05), (2, 0.1), (5, 0.8), (11, 30.0), (5000, 30.0)])
def test_retry_delay_doubles_up_to_the_longest(failures, delay):
    assert RetryPolicy().delay(failures, ConflictError()) == pytest.approx(delay)


def test_retry_delay_is_shortened_at_random_by_at_most_the_jitter():
    policy = RetryPolicy(first_delay=8.0, longest_delay=8.0, jitter=0.5)
    delays = {policy.delay(1, ConflictError()) for _ in range(200)}
    assert len(delays) > 100
    assert min(delays) >= 4.0
    assert max(delays) <= 8.0


@pytest.mark.parametrize(("requested", "delay"), [(0.0, 2.0), (1.0, 2.0), (60.0, 60.0)])
def test_retry_delay_is_at_least_what_the_server_requested(requested, delay):
    policy = RetryPolicy(first_delay=2.0, longest_delay=10.0, requested_delay=lambda _: requested)
    assert policy.delay(1, ConflictError()) == delay
