from __future__ import annotations

import asyncio
import logging

import pytest

from kubebase.work_queue import WorkQueue
from pumice.controllers.retry_policy import RETRY_POLICY
from pumice.kube.client.api_errors import ApiError, UnreachableError


@pytest.mark.parametrize(
    "error", [ApiError(409, "Conflict", "a write came first"), UnreachableError("connection refused")]
)
def test_errors_of_the_api_are_expected(error):
    assert isinstance(error, RETRY_POLICY.expected_errors)


def test_retry_delay_follows_retry_after():
    busy = ApiError(429, "TooManyRequests", "try again later", retry_after=42.0)
    assert RETRY_POLICY.delay(1, busy) == 42.0


def test_retry_delay_without_retry_after_is_at_most_ten_seconds():
    delays = [RETRY_POLICY.delay(1000, ApiError(500, "InternalError", "")) for _ in range(50)]
    assert all(5.0 <= delay <= 10.0 for delay in delays)


def test_a_conflict_is_one_line_that_names_the_object(caplog):
    conflict = 'Operation cannot be fulfilled on queues.scheduling.volcano.sh "team": the object has been modified'
    tried = 0

    async def scenario():
        done = asyncio.Event()

        async def reconcile(_: str) -> None:
            nonlocal tried
            tried += 1
            if tried == 1:
                raise ApiError(409, "Conflict", conflict)
            done.set()

        queue = WorkQueue(reconcile, retries=RETRY_POLICY)
        queue.add("/states-of-all-queues")
        work = asyncio.create_task(queue.run())
        await done.wait()
        work.cancel()

    with caplog.at_level(logging.DEBUG, "kubebase.work_queue"):
        asyncio.run(asyncio.wait_for(scenario(), 30))
    (record,) = caplog.records
    assert record.levelname == "INFO" and record.exc_info is None
    start = f'Failed to reconcile, retrying: key=/states-of-all-queues error="{conflict}" retryAfter='
    assert record.getMessage().startswith(start)
