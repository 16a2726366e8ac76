"""A replica's part in an election: what it says of itself, how it goes on while it is busy, and how it ends."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import pytest

from pumice.cli.daemons import daemon
from pumice.cli.daemons.leader_election import Election, Leadership
from pumice.kube.client.api import Api
from pumice.kube.client.kubeconfig import Access
from pumice.kube.client.loop_thread import LoopThread
from pumice.kube.client.transport import Limits, Session
from pumice.kube.leader_election import Lease, Timing
from pumice.kube.resources import LEASES
from pumice.observability.process_probes import Probes
from tests.support.apiserver import memory_api
from tests.support.served_api import served

TIMING = Timing(duration=6, deadline=2, retry=0.1)
LONGER = 3.0
"""Seconds: more than one leads without a renewal."""


@contextlib.asynccontextmanager
async def elsewhere() -> AsyncIterator[Access]:
    """An API that answers while this thread is busy."""
    async with LoopThread("api") as aside:
        api = await aside.enter(memory_api())
        yield Access(f"http://127.0.0.1:{await aside.enter(served(api))}")


def taking_part(test: Callable[[Leadership, Lease, Api], Awaitable[None]]) -> None:
    async def run() -> None:
        async with elsewhere() as access, Session(access) as session, LoopThread("lease") as aside:
            lease = Lease(Api(await aside.enter(Session(access))), "l", "default", identity="a", timing=TIMING)
            await asyncio.wait_for(test(Leadership(lease, aside), lease, Api(session)), 30)

    asyncio.run(run())


async def holder(api: Api) -> str:
    return (await api.get(LEASES, "l", "default"))["spec"].get("holderIdentity", "")


def test_a_cycle_that_takes_longer_than_the_lease_does_not_lose_it() -> None:
    async def test(part: Leadership, lease: Lease, api: Api) -> None:
        over = []

        async def run() -> None:
            time.sleep(LONGER)
            over.append(part.is_leader)

        await part.run_while_leading(run)
        assert over == [True]

    taking_part(test)


def test_lease_is_released_after_writes_in_progress() -> None:
    async def test(part: Leadership, lease: Lease, api: Api) -> None:
        begun = asyncio.Event()

        async def run() -> None:
            begun.set()
            await asyncio.Event().wait()

        working = asyncio.create_task(part.run_while_leading(run))
        await begun.wait()
        working.cancel()
        await asyncio.gather(working, return_exceptions=True)
        for _ in range(10):
            await asyncio.sleep(LONGER / 10)
            assert part.is_leader
        assert await holder(api) == "a"
        await part.release()
        assert not part.is_leader
        assert await holder(api) == ""

    taking_part(test)


def test_to_stop_while_waiting_takes_nothing_from_the_leader() -> None:
    async def test(part: Leadership, lease: Lease, api: Api) -> None:
        await Lease(api, "l", "default", identity="b").attempt()
        working = asyncio.create_task(part.run_while_leading(lambda: asyncio.sleep(0)))
        while lease.leader != "b":
            await asyncio.sleep(0.01)
        working.cancel()
        await asyncio.gather(working, return_exceptions=True)
        await part.release()
        assert await holder(api) == "b"

    taking_part(test)


@dataclass
class Worker:
    """One that is told to stop as soon as it works."""

    finishes: bool

    async def run(self) -> None:
        os.kill(os.getpid(), signal.SIGTERM)
        await asyncio.Event().wait()

    async def done(self) -> None:
        if not self.finishes:
            await asyncio.Event().wait()


@pytest.mark.parametrize("finishes", [True, False])
def test_lease_is_released_only_when_worker_has_finished(finishes: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(daemon, "STOP_TIMEOUT", 0.2)

    async def run() -> str:
        async with elsewhere() as access, Session(access) as session:
            probes = Probes(lambda: "", lambda: "")
            nowhere = daemon.MetricsAddress(None, explicit=False)
            election = Election("l", "default")
            await daemon._run_until_stopped(
                access, lambda _: Worker(finishes), "", nowhere, lambda _: probes, election, small=False
            )
            return await holder(Api(session))

    assert (asyncio.run(run()) == "") == finishes


# --- what it says of itself --------------------------------------------------------------------------------------


def part_of(**lease: Any) -> Leadership:
    stands_in: Any = SimpleNamespace(**({"held": False, "trouble": "", "timing": Timing()} | lease))
    return Leadership(stands_in)


def test_standby_replica_is_ready_unless_lease_is_unreachable() -> None:
    asked = Probes(alive=lambda: "stuck", ready=lambda: "knows nothing")
    assert (part_of().probes(asked).ready(), part_of().probes(asked).alive()) == ("", "")
    assert part_of(trouble="out of reach").probes(asked).ready() == "out of reach"
    leads = part_of(held=True)
    leads.started = True
    assert (leads.probes(asked).ready(), leads.probes(asked).alive()) == ("knows nothing", "stuck")


@pytest.mark.parametrize("held", [True, False])
def test_the_metrics_say_whether_it_leads(held: bool) -> None:
    metrics = part_of(held=held).probes(Probes(lambda: "", lambda: "", list)).metrics
    assert metrics is not None
    [found] = metrics()
    assert [(sample.name, sample.value) for sample in found.samples] == [("pumice_leading", float(held))]


def test_leadership_without_election_leads_and_adds_no_metric() -> None:
    probes = Probes(lambda: "", lambda: "", list)
    assert Leadership().probes(probes) is probes
    assert Leadership().is_leader


def test_connecting_takes_less_than_another_waits() -> None:
    # Another may lead 15 - 10 s after this replica does no longer; four fifths of that are 4 s.
    assert part_of().limits(Limits()).connect == pytest.approx(4.0)
    assert part_of().limits(Limits(connect=1.0)).connect == 1.0
    assert Leadership().limits(Limits()).connect == 10.0
