"""The token bucket and the pauses, on a clock that moves only when told."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pumice.kube.client.rate_limit import Backoff, SharedPauses, TokenBucket


class Clock:
    def __init__(self) -> None:
        self.time = 0.0
        self.pauses: list[float] = []

    def now(self) -> float:
        return self.time

    async def pause(self, seconds: float) -> None:
        self.pauses.append(seconds)


def taken(bucket: TokenBucket, count: int) -> None:
    async def take() -> None:
        for _ in range(count):
            await bucket.take()

    asyncio.run(take())


def test_a_burst_goes_at_once_and_the_rest_at_the_rate() -> None:
    clock = Clock()
    taken(TokenBucket(10, 3, now=clock.now, pause=clock.pause), 6)
    # All six come at time 0: three at once, then one every tenth of a second.
    assert clock.pauses == pytest.approx([0.1, 0.2, 0.3])


def test_tokens_come_back_but_never_more_than_a_burst() -> None:
    clock = Clock()
    bucket = TokenBucket(10, 3, now=clock.now, pause=clock.pause)
    taken(bucket, 3)
    clock.time = 0.2  # two tokens are back
    taken(bucket, 3)
    assert clock.pauses == pytest.approx([0.1])
    clock.time = 100.0
    taken(bucket, 4)
    assert clock.pauses == pytest.approx([0.1, 0.1])


@given(st.lists(st.floats(0, 2), max_size=40), st.floats(0.5, 20), st.integers(1, 5))
def test_in_no_stretch_of_time_does_more_than_burst_and_rate_go_through(
    gaps: list[float], rate: float, burst: int
) -> None:
    clock = Clock()
    bucket = TokenBucket(rate, burst, now=clock.now, pause=clock.pause)
    went = []
    for gap in gaps:
        clock.time += gap
        before = len(clock.pauses)
        taken(bucket, 1)
        went.append(clock.time + (clock.pauses[-1] if len(clock.pauses) > before else 0.0))
    assert went == sorted(went)
    for i, first in enumerate(went):
        for j in range(i, len(went)):
            assert j - i + 1 <= burst + (went[j] - first) * rate + 1e-6


def test_a_bucket_that_would_let_nothing_through_is_refused() -> None:
    with pytest.raises(ValueError, match="the rate must be greater than 0"):
        TokenBucket(0, 1)


def test_pauses_double_up_to_the_longest_and_begin_anew() -> None:
    backoff = Backoff(1.0, 8.0)
    for whole in (1.0, 2.0, 4.0, 8.0, 8.0):
        assert whole / 2 <= backoff.next() <= whole
    backoff.reset()
    assert 0.5 <= backoff.next() <= 1.0
    assert backoff.next(least=30.0) == 30.0


def test_shared_pauses_are_never_shorter_and_one_that_is_given_up_ends_no_other() -> None:
    async def run() -> None:
        loop, pauses = asyncio.get_running_loop(), SharedPauses()
        began = loop.time()
        timers = 0
        call_at = loop.call_at

        def counted(*arguments: Any, **more: Any) -> asyncio.TimerHandle:
            nonlocal timers
            timers += 1
            return call_at(*arguments, **more)

        async def pause(seconds: float) -> float:
            await pauses(seconds)
            return loop.time() - began - seconds

        loop.call_at = counted  # type: ignore[method-assign]  # the loop of this test alone
        waits = [asyncio.create_task(pause(0.02 + number * 1e-6)) for number in range(100)]
        given_up = asyncio.create_task(pause(0.02))
        await asyncio.sleep(0)
        made = timers
        given_up.cancel()
        assert all(late >= 0 for late in await asyncio.gather(*waits))
        assert given_up.cancelled()
        assert made <= 3, "pauses that end together have one timer"

    asyncio.run(run())
