"""Who leads: whatever is slow, frozen or lost, never two at a time; and in the end somebody."""

from __future__ import annotations

import asyncio
import copy
import random
from collections.abc import Coroutine, Generator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pumice.kube.api import Api
from pumice.kube.kubeconfig import Access
from pumice.kube.lease import Lease, LostError, Timing
from pumice.kube.refusals import RefusedError, UnreachableError
from pumice.kube.resources import LEASES
from pumice.kube.session import Session
from tests.support.apiserver import memory_api
from tests.support.served_api import served


class Pause:
    """A place where anything may happen before things go on."""

    def __await__(self) -> Generator[None, None, None]:
        yield


class Server:
    """One Lease, with optimistic concurrency; every call takes as long as it likes, before and after."""

    def __init__(self, chance: random.Random) -> None:
        self.lease: dict[str, Any] | None = None
        self.revision = 0
        self._chance = chance

    async def _answer(self, act: Any) -> Any:
        await Pause()
        if self._chance.random() < 0.1:
            raise UnreachableError("it never came")
        found = act()
        await Pause()
        if self._chance.random() < 0.1:
            raise UnreachableError("the answer never came")
        return found

    async def get(self, *_: Any) -> Any:
        def act() -> Any:
            if self.lease is None:
                raise RefusedError(404, "NotFound", "")
            return copy.deepcopy(self.lease)

        return await self._answer(act)

    async def create(self, resource: Any, new: Any, *_: Any) -> Any:
        def act() -> Any:
            if self.lease is not None:
                raise RefusedError(409, "AlreadyExists", "")
            return self._store(new)

        return await self._answer(act)

    async def update(self, resource: Any, new: Any) -> Any:
        def act() -> Any:
            assert self.lease is not None
            if new["metadata"]["resourceVersion"] != self.lease["metadata"]["resourceVersion"]:
                raise RefusedError(409, "Conflict", "")
            return self._store(new)

        return await self._answer(act)

    def _store(self, new: Any) -> Any:
        self.revision += 1
        self.lease = copy.deepcopy(new)
        assert self.lease is not None
        self.lease["metadata"]["resourceVersion"] = str(self.revision)
        return copy.deepcopy(self.lease)


@given(st.integers(0, 2**32), st.integers(2, 4))
def test_never_do_two_lead_at_a_time(seed: int, replicas: int) -> None:
    # Steps of the replicas in any order, with anything from nothing to half a minute between any two of them.
    chance = random.Random(seed)
    clock = 0.0
    server: Any = Server(chance)
    leases = [Lease(server, "l", "n", identity=str(i), now=lambda: clock) for i in range(replicas)]
    at_work: dict[int, Coroutine[Any, Any, None]] = {}
    frozen: dict[int, float] = {}
    led = set()
    for _ in range(400):
        clock += chance.choice([0.0, 0.1, 0.5, 2.0])
        who = chance.randrange(replicas)
        if frozen.get(who, 0.0) > clock:
            continue
        if chance.random() < 0.02:
            frozen[who] = clock + chance.uniform(5, 40)
            continue
        work = at_work.pop(who, None) or leases[who].attempt()
        try:
            work.send(None)
            at_work[who] = work
        except (StopIteration, UnreachableError):
            pass
        holding = [lease.identity for lease in leases if lease.held]
        assert len(holding) <= 1, f"{holding} lead at {clock}"
        led.update(holding)
    for work in at_work.values():
        work.close()
    assert led, "in all that time nobody led"


def live(test: Any) -> None:
    async def run() -> None:
        async with (
            memory_api() as behind,
            served(behind) as port,
            Session(Access(f"http://127.0.0.1:{port}")) as session,
        ):
            await asyncio.wait_for(test(Api(session)), 30)

    asyncio.run(run())


QUICK = Timing(duration=3.0, deadline=1.0, retry=0.05)


def replica(api: Api, name: str) -> Lease:
    return Lease(api, "leader", "default", identity=name, timing=QUICK)


def test_the_second_takes_over_when_the_first_gives_back() -> None:
    async def test(api: Api) -> None:
        first, second = replica(api, "a"), replica(api, "b")
        await first.acquire()
        keeping = asyncio.create_task(first.keep())
        waiting = asyncio.create_task(second.acquire())
        await asyncio.sleep(0.3)
        assert first.held and not second.held and second.leader == "a"
        keeping.cancel()
        await first.release()
        assert not first.held
        await waiting
        assert second.held
        spec = (await api.get(LEASES, "leader", "default"))["spec"]
        assert (spec["holderIdentity"], spec["leaseTransitions"], spec["leaseDurationSeconds"]) == ("b", 1, 3)

    live(test)


def test_the_second_takes_over_when_the_first_is_gone_without_a_word() -> None:
    async def test(api: Api) -> None:
        first, second = replica(api, "a"), replica(api, "b")
        await first.acquire()
        began = asyncio.get_running_loop().time()
        await second.acquire()
        assert asyncio.get_running_loop().time() - began >= 2.9  # it has waited for as long as the Lease says
        assert not first.held
        with pytest.raises(LostError, match="is with"):
            await first.keep()

    live(test)


def test_who_cannot_renew_has_lost_it() -> None:
    async def test(api: Api) -> None:
        first = replica(api, "a")
        await first.acquire()
        await api.session.__aexit__(None, None, None)  # no way to the server any more

        async def unreachable(*_: Any) -> None:
            raise UnreachableError("cut off")

        first._api = type("Cut", (), {"get": staticmethod(unreachable)})()  # type: ignore[assignment]  # stands in for the client
        with pytest.raises(LostError):
            await first.keep()
        assert not first.held

    live(test)


def test_who_sees_another_name_leads_no_longer() -> None:
    async def test(api: Api) -> None:
        lease = Lease(api, "pumice", "default", identity="a")
        await lease.attempt()
        assert lease.held
        found = await api.get(LEASES, "pumice", "default")
        await api.update(LEASES, {**found, "spec": {**found["spec"], "holderIdentity": "by hand"}})
        await lease.attempt()
        assert not lease.held and lease.leader == "by hand"

    live(test)


def test_times_that_leave_no_room_are_refused() -> None:
    with pytest.raises(ValueError, match="longer than the next"):
        Timing(duration=10, deadline=15, retry=2)
