"""Who leads: what counts as a sign of life, how long one waits, what one does without."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any

import pytest

from pumice.kube.client.api import Api
from pumice.kube.client.api_errors import ApiError, UnreachableError
from pumice.kube.client.kubeconfig import Access
from pumice.kube.client.transport import Limits, Session
from pumice.kube.leader_election import Lease, LostError, Timing
from pumice.kube.resources import LEASES
from tests.support.apiserver import memory_api
from tests.support.lease_server import Server, Stepped, Still, done
from tests.support.served_api import served
from tests.support.unsteady_proxy import unsteady

# --- one at a time, by the clock of the test ----------------------------------------------------------------------


def test_a_renewal_is_one_call() -> None:
    server = Still()
    lease = server.replica("a")
    done(lease.attempt())
    assert server.asked == ["get", "create"]
    server.asked.clear()
    done(lease.attempt())
    assert server.asked == ["update"]
    server.touch()
    done(lease.attempt())  # which meets a conflict, and looks
    assert server.asked == ["update", "update", "get", "update"] and lease.held


def test_an_api_that_takes_its_time_does_not_cost_the_lead(monkeypatch: pytest.MonkeyPatch) -> None:
    # 4.8 of 10 s for each call: to look and to take it are 9.6 s; then the next renewal begins as soon as one is over.
    server = Still()
    server.slow = 4.8

    async def sleep(seconds: float) -> None:
        server.clock += seconds

    monkeypatch.setattr("pumice.kube.leader_election.asyncio.sleep", sleep)
    lease = server.replica("a")
    done(lease.acquire())
    assert lease.held
    server.asked.clear()
    server.refuses["update"] = UnreachableError("cut off")
    with pytest.raises(LostError, match="a lost the lease n/l: cut off"):
        done(lease.keep())
    del server.refuses["update"]
    done(lease.acquire())
    before = server.clock

    for _ in range(20):
        done(lease._rest())
        assert lease.held
        done(lease._tried())
    # 20 x 4.8, and no pauses
    assert server.clock - before == pytest.approx(96.0)


def test_foreign_write_to_lease_does_not_count_as_renewal() -> None:
    server = Still()
    dead, waiting = server.replica("a"), server.replica("b")
    done(dead.attempt())
    done(waiting.attempt())
    for _ in range(14):
        server.clock += 1
        server.touch()
        done(waiting.attempt())
        assert not waiting.held
    server.clock += 1
    server.touch()
    done(waiting.attempt())
    assert waiting.held


def seen_by_another() -> tuple[Still, Stepped, Stepped]:
    """A holder, and one that waits and has seen it."""
    server = Still()
    leader, waiting = server.replica("a"), server.replica("b")
    done(leader.attempt())
    done(waiting.attempt())
    server.clock += 2
    return server, leader, waiting


@pytest.mark.parametrize("meddle", [Server.delete, Server.empty, Server.shorten])
def test_standby_waits_full_lease_duration_after_foreign_change(meddle: Callable[[Server], None]) -> None:
    server, leader, waiting = seen_by_another()
    meddle(server)
    for _ in range(8):
        assert leader.held
        done(waiting.attempt())
        assert not waiting.held
        server.clock += 1
    for _ in range(9):  # 17 s after the renewal, 15 s after the deed
        server.clock += 1
        done(waiting.attempt())
    assert waiting.held and not leader.held


@pytest.mark.parametrize("meddle", [Server.delete, Server.empty, Server.shorten, Server.touch])
def test_and_who_leads_goes_on_leading(meddle: Callable[[Server], None]) -> None:
    server, leader, waiting = seen_by_another()
    meddle(server)
    done(leader.attempt())
    server.clock += 9
    assert leader.held  # renewed 9 s ago, at 2 s
    done(waiting.attempt())
    assert not waiting.held and waiting.leader == "a"


def test_longer_than_usual_is_waited_for_too() -> None:
    server = Still()
    done(server.replica("a", Timing(duration=60, deadline=50)).attempt())
    waiting = server.replica("b")
    done(waiting.attempt())
    server.clock += 59
    done(waiting.attempt())
    assert not waiting.held
    server.clock += 1
    done(waiting.attempt())
    assert waiting.held


def test_released_lease_can_be_acquired_at_once() -> None:
    server, leader, waiting = seen_by_another()
    leader._until = float("-inf")
    assert done(leader.give_back())
    done(waiting.attempt())
    assert waiting.held
    assert done(waiting.give_back())
    newcomer = server.replica("c")
    done(newcomer.attempt())
    assert newcomer.held


@pytest.mark.parametrize("spec", [None, {}, {"holderIdentity": None, "leaseTransitions": None}])
def test_a_lease_that_says_nothing_is_free(spec: Any) -> None:
    server = Still()
    server._store({"metadata": {}, "spec": spec})
    lease = server.replica("a")
    done(lease.attempt())
    assert lease.held


FORBIDDEN = ApiError(403, "Forbidden", "leases is forbidden")


def warnings(log: pytest.LogCaptureFixture) -> list[str]:
    return [record.message for record in log.records if record.levelno >= logging.WARNING]


@pytest.mark.parametrize("verb", ["get", "create"])
def test_replica_without_lease_access_reports_trouble_from_start(verb: str, caplog: pytest.LogCaptureFixture) -> None:
    server = Still()
    server.refuses[verb] = FORBIDDEN
    lease = server.replica("a")
    assert lease.trouble == "lease n/l has been unreachable for 0 s: no attempt yet"
    for _ in range(3):
        server.clock += 5
        assert not done(lease._tried())
    assert lease.trouble == "lease n/l has been unreachable for 15 s: leases is forbidden"
    assert warnings(caplog) == []  # for 15 s this may pass
    for _ in range(3):
        server.clock += 5
        assert not done(lease._tried())
    (warning,) = warnings(caplog)
    assert warning == ('The lease is unreachable: error="lease n/l has been unreachable for 20 s: leases is forbidden"')
    del server.refuses[verb]
    assert done(lease._tried())
    assert lease.trouble == ""


def test_disconnected_standby_reports_trouble_once_lease_would_expire(caplog: pytest.LogCaptureFixture) -> None:
    server, _, waiting = seen_by_another()
    done(waiting._tried())
    server.refuses["get"] = UnreachableError("cut off")
    for _ in range(3):
        server.clock += 5
        assert not done(waiting._tried())
        assert waiting.trouble == ""
    server.clock += 1
    assert not done(waiting._tried())
    assert waiting.trouble == "lease n/l has been unreachable for 16 s: cut off"
    assert len(warnings(caplog)) == 1


def test_to_wait_for_another_is_no_trouble() -> None:
    server = Still()
    leader, waiting = server.replica("a"), server.replica("b")
    for _ in range(30):
        server.clock += 2
        done(leader._tried())
        done(waiting._tried())
        assert leader.held and not waiting.held and waiting.trouble == ""


# --- over the wire -------------------------------------------------------------------------------------------------


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
        with pytest.raises(LostError, match="lost the lease default/leader: lease not renewed before its deadline"):
            await first.keep()

    live(test)


def test_leader_that_cannot_renew_loses_lease() -> None:
    async def test(api: Api) -> None:
        first = replica(api, "a")
        await first.acquire()
        await api.session.__aexit__(None, None, None)  # no way to the server any more

        async def unreachable(*_: Any) -> None:
            raise UnreachableError("cut off")

        first._api = type("Cut", (), {"update": staticmethod(unreachable)})()
        with pytest.raises(LostError):
            await first.keep()
        assert not first.held

    live(test)


def test_leader_steps_down_when_lease_names_another_holder() -> None:
    async def test(api: Api) -> None:
        lease = Lease(api, "pumice", "default", identity="a")
        await lease.attempt()
        assert lease.held
        found = await api.get(LEASES, "pumice", "default")
        await api.update(LEASES, {**found, "spec": {**found["spec"], "holderIdentity": "by hand"}})
        await lease.attempt()
        assert not lease.held and lease.leader == "by hand"

    live(test)


def test_a_connection_that_is_dead_does_not_cost_the_lead() -> None:
    # 2 s for one call: the next one, over a new connection, has 2 s as well.
    timing = Timing(duration=6, deadline=4, retry=0.2)

    async def run() -> None:
        async with (
            memory_api() as behind,
            served(behind) as port,
            unsteady(port) as proxy,
            Session(Access(f"http://127.0.0.1:{proxy.port}"), Limits(attempts=1)) as session,
        ):
            lease = Lease(Api(session), "leader", "default", timing=timing)
            await lease.acquire()
            proxy.stall()
            before = proxy.connections
            keeping = asyncio.create_task(lease.keep())
            await asyncio.wait({keeping}, timeout=5)
            assert not keeping.done() and lease.held and proxy.connections > before
            keeping.cancel()

    asyncio.run(run())


def test_expired_leader_releases_lease_still_in_its_name() -> None:
    async def test(api: Api) -> None:
        lease = replica(api, "a")
        await lease.acquire()
        await asyncio.sleep(1.1)
        assert not lease.held
        await lease.release()
        spec = (await api.get(LEASES, "leader", "default"))["spec"]
        assert not spec.get("holderIdentity")
        other = replica(api, "b")
        await other.attempt()
        assert other.held
        await lease.release()  # which is not ours any more
        assert (await api.get(LEASES, "leader", "default"))["spec"]["holderIdentity"] == "b"

    live(test)


def test_a_renewal_that_arrives_late_does_not_keep_it_from_being_given_back() -> None:
    server, leader, _ = seen_by_another()
    found = leader._written
    assert found is not None
    original = server.update

    async def late(resource: Any, new: Any) -> Any:
        server.update = original  # once
        server._store(leader._with(found))  # the one that nobody waited for
        return await original(resource, new)

    server.update = late
    asyncio.run(leader.release())
    assert server.lease is not None and server.lease["spec"]["holderIdentity"] == ""


def test_times_that_leave_no_room_are_refused() -> None:
    with pytest.raises(ValueError, match="longer than the next"):
        Timing(duration=10, deadline=15, retry=2)
