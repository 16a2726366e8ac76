"""Processes that die, stop or are not there, on a real Kubernetes API with more work than room."""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Iterator
from unittest.mock import patch

import pytest

from kubesim.kubelet.node_capacity import NodeCapacity
from pumice.kube.client.api_errors import ApiError
from tests.support.faults import CONTROLLERS, SCHEDULER, Cluster, Part, Trial, at_work, cluster
from tests.support.faulty_wire import FaultyWire, faulty_wire
from tests.support.gang_load import GROUPS, QUEUES, Pace
from tests.support.installed import HOME
from tests.support.killable import Gang
from tests.support.witness import PODS

pytestmark = pytest.mark.kube

SLOW = 0.5
"""Seconds, at most, that a request is on its way: so the binds of a gang arrive one after the other."""


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with cluster(tmp_path_factory.mktemp("processes")) as installed:
        yield installed


def fill(trial: Trial) -> None:
    """Send rivals who would take all the room there is, in every queue, and wait until they are there."""
    free = trial.room - sum(trial.witness.used.values())
    for number in range(trial.queues):
        trial.load.submit(free, 1, queue=f"q{number}", rival=True)
    trial.eventually(lambda: trial.load.is_made, "the rivals are there")


# --- kill -9 ---------------------------------------------------------------------------------------------------------

KILLS, MOST_KILLS = 3, 12


def test_a_scheduler_killed_in_the_middle_of_binding_a_gang(installed: Cluster) -> None:
    # While it is dead more important gangs come, which fit into all the room there is: if the next one did not look
    # for what is half done first, they would have it.
    with at_work(installed) as trial:
        scheduler = trial.part(SCHEDULER, server=trial.wire(SLOW).url)
        for part in (scheduler, trial.part(CONTROLLERS)):
            part.start_ready()
        trial.begin()
        trial.until_busy()
        kills, left = 0, 0
        while kills < KILLS or not left:
            assert kills < MOST_KILLS, "no kill has left a gang half bound: then this shows nothing"
            trial.load.pace = Pace.BUSY
            trial.until_part()
            scheduler.end()
            trial.load.pace = Pace.STILL
            time.sleep(2 * SLOW)  # what is on the wire arrives
            left, kills = len(trial.witness.parts), kills + 1
            if kills < KILLS or not left:
                scheduler.start_ready()
        fill(trial)
        ended = time.monotonic()
        scheduler.start_ready()
        trial.settle(since=ended)
        print(f"{kills} kills, the last left {left} gangs incomplete; {trial.report()}")


# --- no API ----------------------------------------------------------------------------------------------------------

OUTAGE = 30.0
ELECTED = ("--leader-elect", "--leader-elect-namespace", HOME)


@pytest.mark.parametrize("elected", [(), ELECTED], ids=["alone", "elected"])
def test_an_api_that_is_gone_for_a_while(
    installed: Cluster, elected: tuple[str, ...], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.CRITICAL, "kubesim.kubelet")  # the nodes tell of every attempt
    # Whoever works alone sits it out. Who was elected cannot know whether it still is, so it ends; somebody who looks
    # after it, as a kubelet does, starts it again.
    with at_work(installed) as trial:
        parts = [trial.part(SCHEDULER, *elected, server=trial.wire(SLOW).url), trial.part(CONTROLLERS, *elected)]
        for part in parts:
            part.start_ready()
        trial.begin()
        trial.until_busy()
        begun, ended, starts = trial.until_part(), 0, installed.webhooks.starts
        installed.real.endpoint.end(at_once=True)
        until = time.monotonic() + OUTAGE
        while time.monotonic() < until:
            for part in parts if elected else []:
                if not part.lives:
                    ended += 1
                    part.end()
                    part.start()
            time.sleep(0.5)
        installed.real.endpoint.begin()
        trial.settle()
        assert installed.webhooks.starts == starts and installed.webhooks.lives
        assert (ended > 0) == bool(elected), [part.said() for part in parts]
        for part in parts if not elected else []:
            assert part.starts == 1 and part.lives, part.said()
        print(f"{begun} was being bound; {ended} processes ended; {trial.report()}")


# --- a leader that stands still --------------------------------------------------------------------------------------

BIND = "create pods/binding"
LATE = 4
"""Pods whose binds are to arrive late, at least."""
RELIEF = 10.0
"""Seconds: a cycle, which runs at least once in a second, an eviction and the end of a pod; and a busy machine."""


def test_a_leader_frozen_beyond_its_lease(installed: Cluster) -> None:
    # When it freezes, gangs are half bound, and the binds of others are on a wire that holds them until the next leader
    # has given the room to somebody more important. The nodes take whatever comes: only we can relieve them.
    with (
        faulty_wire(installed.real.endpoint.url) as wire,
        patch.object(NodeCapacity, "shortage", lambda self, request: None),
        at_work(installed) as trial,
    ):
        first = trial.part(SCHEDULER, *ELECTED, alias="scheduler-0", server=wire.url)
        second = trial.part(SCHEDULER, *ELECTED, alias="scheduler-1")
        first.start_ready()
        trial.eventually(lambda: leads(first), "the first leads")
        for part in (second, trial.part(CONTROLLERS)):
            part.start_ready()
        trial.begin()
        trial.until_busy()
        with wire.fault(BIND, name="*-[1-9]", held=True):  # the first pod of a gang passes, and the others do not
            trial.eventually(lambda: bool(stuck(trial, wire)), "a gang is half bound, and cannot become whole")
            with wire.fault(BIND, held=True):
                trial.eventually(lambda: len(on_the_way(wire)) >= LATE, "binds of whole gangs are on the wire")
                first.freeze()
                left, late = len(trial.witness.parts), len(on_the_way(wire))
                trial.load.pace = Pace.STILL
                trial.eventually(lambda: trial.witness.silence > 1, "what has ended is gone")
                fill(trial)
                trial.eventually(lambda: leads(second), "the other leads")
                trial.eventually(lambda: sum(trial.witness.used.values()) == trial.room, "it has filled the cluster")
                assert left, "no gang was half bound when it froze: then this shows nothing"
                trial.witness.forgives = True
        trial.eventually(lambda: trial.witness.overs > 0, "a late bind has put a node over what it has")
        trial.eventually(lambda: trial.witness.silence > 3, "nothing happens any more")
        assert not trial.witness.over, f"still too full: {list(trial.witness.over)}\n{second.said()}"
        assert trial.witness.longest_over < RELIEF
        trial.witness.forgives = False
        thawed = time.time()
        first.thaw()
        assert first.await_end() == 1, first.said()
        assert "lost the lease" in first.said(), first.said()
        assert not first.wrote(thawed), first.wrote(thawed)
        trial.settle()
        print(f"{left} gangs half bound, {late} binds arrive late; {trial.report()}")


def leads(part: Part) -> bool:
    """Whether a replica has become the leader."""
    return "became the leader" in part.said()


def stuck(trial: Trial, wire: FaultyWire) -> list[str]:
    """Gangs that have a part of their minimum, and of whose pods too many are being held for more.

    Others may have a part for a moment only: binds that passed before arrive one after the other.
    """
    held = Counter(asked.name.partition("/")[2].rpartition("-")[0] for asked in wire.those(BIND, 0))
    gangs = trial.load.gangs
    return [name for name in list(trial.witness.parts) if held[name] > gangs[name].size - gangs[name].least]


def on_the_way(wire: FaultyWire) -> list[str]:
    """Pods of gangs whose binds are all being held."""
    pods = {asked.name for asked in wire.those(BIND, 0)}
    return [pod for pod in pods if f"{pod.rpartition('-')[0]}-0" in pods]


# --- no webhooks -----------------------------------------------------------------------------------------------------

USER = "volcano.sh/user"


def test_webhooks_that_are_down(installed: Cluster) -> None:
    # As docs/install.md says: queues, jobs and podgroups cannot be made or changed; pods can, and carry no user.
    with at_work(installed) as trial:
        client, gang = trial.client, Gang("known", "q0", 2, 2)
        for part in (trial.part(SCHEDULER), trial.part(CONTROLLERS)):
            part.start_ready()
        trial.begin()
        trial.until_busy()
        trial.load.adopt(gang)
        client.create(GROUPS, gang.group())
        first = client.create(PODS, gang.pod(0))
        assert first["metadata"]["annotations"][USER] == "admin"
        installed.webhooks.end()
        try:
            queue = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue", "metadata": {"name": "new"}}
            about = {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "metadata": {"name": "new"}}
            task = {"name": "t", "replicas": 1, "template": {"spec": gang.pod(0)["spec"]}}
            for path, new in (
                (QUEUES, {**queue, "spec": {"weight": 1}}),
                (GROUPS, Gang("new", "q0", 1, 1).group()),
                ("/apis/batch.volcano.sh/v1alpha1/namespaces/default/jobs", {**about, "spec": {"tasks": [task]}}),
            ):
                with pytest.raises(ApiError, match="failed calling webhook"):
                    client.create(path, new)
            with pytest.raises(ApiError, match="failed calling webhook"):
                client.merge(f"{QUEUES}/q0", {"spec": {"weight": 2}})
            second = client.create(PODS, gang.pod(1))
            assert USER not in second["metadata"]["annotations"]
            # What is there goes on: gangs end, and others have their turn, until all that were let in have had it.
            known = {pod.gang for pod in list(trial.witness.pods.values())} | {"known"}
            trial.eventually(lambda: known <= trial.load.ran, "those that were let in run")
            waiting = trial.load.gangs.keys() - trial.load.ran
            assert waiting, "no gang waits to be let in: then this shows nothing"
        finally:
            installed.webhooks.start_ready()
        trial.settle()
        print(f"{len(known)} gangs went on, {len(waiting)} waited; {trial.report()}")
