"""Replicas that crowd around a Lease: whatever is slow, frozen, lost or meddled with, never two lead at a time."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Coroutine
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from pumice.kube.client.api_errors import ApiError, UnreachableError
from pumice.kube.leader_election import Lease
from tests.support.lease_server import Server, Stepped


class Crowd:
    """Replicas that take steps in any order, with anything from nothing to half a minute between any two of them."""

    def __init__(self, seed: int, replicas: int) -> None:
        self.chance = random.Random(seed)
        self.clock = 0.0
        self.server = Server(self.chance)
        api: Any = self.server
        self.leases = [Stepped(api, "l", "n", identity=str(i), now=lambda: self.clock) for i in range(replicas)]
        self.at_work: dict[int, Coroutine[Any, Any, Any]] = {}
        self.frozen: dict[int, float] = {}
        self.led: set[str] = set()

    def step(self) -> None:
        """Somebody does something, and there are not two leaders after it."""
        chance = self.chance
        self.clock += chance.choice([0.0, 0.1, 0.5, 2.0])
        who = chance.randrange(len(self.leases))
        if self.frozen.get(who, 0.0) > self.clock:
            return
        event = chance.random()
        if event < 0.02:
            self.frozen[who] = self.clock + chance.uniform(5, 40)
            return
        if event < 0.05 and who in self.at_work:
            self.at_work.pop(who).close()  # it has taken too long
        if event > 0.97 and self.server.late:
            with contextlib.suppress(ApiError):
                self.server.late.pop(chance.randrange(len(self.server.late)))()
        work = self.at_work.pop(who, None) or self._next(self.leases[who])
        try:
            work.send(None)
            self.at_work[who] = work
        except (StopIteration, UnreachableError, ApiError):
            pass
        holding = [lease.identity for lease in self.leases if lease.held]
        assert len(holding) <= 1, f"{holding} lead at {self.clock}"
        self.led.update(holding)

    def _next(self, lease: Lease) -> Coroutine[Any, Any, Any]:
        if lease.held and self.chance.random() < 0.02:
            lease._until = float("-inf")  # as release() begins
            return lease.give_back()
        return lease.attempt()

    def part(self) -> None:
        for work in self.at_work.values():
            work.close()


@given(st.integers(0, 2**32), st.integers(2, 4))
def test_never_do_two_lead_at_a_time(seed: int, replicas: int) -> None:
    crowd = Crowd(seed, replicas)
    for _ in range(400):
        crowd.step()
    crowd.part()
    assert crowd.led, "in all that time nobody led"


@given(st.integers(0, 2**32), st.integers(2, 4))
def test_nor_when_somebody_meddles_with_the_lease(seed: int, replicas: int) -> None:
    # Deleted once, and not before everybody has seen it: who has not would not know whom to wait for.
    crowd = Crowd(seed, replicas)
    server, deleted = crowd.server, False
    for _ in range(500):
        crowd.step()
        if crowd.chance.random() < 0.05:
            crowd.chance.choice([server.touch, server.shorten, server.empty])()
        if not deleted and crowd.chance.random() < 0.02 and all(lease._sign for lease in crowd.leases):
            server.delete()
            deleted = True
    crowd.part()
    assert crowd.led, "in all that time nobody led"
