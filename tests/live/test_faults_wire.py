"""A wire to a real Kubernetes API on which things go wrong: watches break, history is forgotten, writes are refused.

The scheduler has more work than room all the time. When the wire is whole again, what the scheduler believes is what
the API has, and all that ``settle`` asks for holds.
"""

from __future__ import annotations

import base64
import json
import re
import time
import urllib.request
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import pytest

from kubebase.quantity import parse
from pumice.kube.client.sync_client import Document
from pumice.scheduler.loop import WATCHED
from tests.support.faults import CONTROLLERS, SCHEDULER, Cluster, Part, Trial, at_work, cluster
from tests.support.faulty_wire import CUT, Asked, FaultyWire, faulty_wire
from tests.support.gang_load import GROUPS, QUEUES, Pace
from tests.support.witness import PODS, seen

pytestmark = pytest.mark.kube

NODES = "/api/v1/nodes"
BIND = "create pods/binding"
BLACKOUT = 8.0
"""Seconds in which everything is refused."""
MOST_REFUSALS = 30
"""Of one thing, in that time and before: pauses double from 0.1 s on, and begin anew after five attempts."""
IDENTITY = "get namespaces"
"""What is asked before each watch, by all who follow something."""
PHASES = ("pending", "inqueue", "running", "unknown")


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with cluster(tmp_path_factory.mktemp("wire")) as installed:
        yield installed


@dataclass
class Wired:
    """A cluster at work, whose scheduler has a wire to the API that is not to be relied on."""

    trial: Trial
    wire: FaultyWire
    scheduler: Part
    closed: list[str]
    """Nodes that the scheduler puts nothing on."""

    def wait(self, seconds: float) -> None:
        """Let time pass in which all that must hold always does."""
        end = time.monotonic() + seconds
        self.trial.eventually(lambda: time.monotonic() >= end, "time passes")

    @contextmanager
    def late(self) -> Iterator[None]:
        """Let the scheduler see what becomes of pods a second later."""
        with self.wire.fault("watch pods", late=1.0):
            self.wire.cut_watches()
            yield
        self.wire.cut_watches()

    def settle(self) -> None:
        """The fault is over: what must hold now."""
        ended, trial = time.monotonic(), self.trial
        trial.load.pace = Pace.STILL
        try:
            trial.eventually(lambda: not self._differences(), "the scheduler believes what the API has")
        except AssertionError as error:
            error.add_note("\n".join(self._differences()))
            raise
        trial.settle(since=ended)
        self.check_binds()
        print(trial.report())

    def metric(self, name: str) -> dict[str, float]:
        """What the scheduler says, by label."""
        found = re.findall(rf'^{name}(?:{{\w+="([^"]*)"}})? (\S+)$', self.scheduler.metrics(), re.MULTILINE)
        return {label: float(value) for label, value in found}

    def _differences(self) -> list[str]:
        """Where the scheduler, by what it says and writes of queues, is wrong about what a list shows."""
        held: Counter[str] = Counter()
        phases: dict[str, Counter[str]] = {}
        groups = {group["metadata"]["name"]: group for group in self.trial.client.list(GROUPS).items}
        for group in groups.values():
            phase = group.get("status", {}).get("phase", "Pending").lower()
            phases.setdefault(group["spec"]["queue"], Counter())[phase] += 1
        for pod in map(seen, self.trial.client.list(PODS).items):
            held[groups[pod.gang]["spec"]["queue"] if pod.gang in groups else "?"] += pod.cpu * pod.counts
        believed = self.metric("volcano_queue_allocated_milli_cpu")
        found = []
        for queue in self.trial.client.list(QUEUES).items:
            name, status = queue["metadata"]["name"], queue.get("status", {})
            if not name.startswith("q"):
                continue
            said = parse(status.get("allocated", {}).get("cpu", "0")).value()
            counts = {phase: status.get(phase, 0) for phase in PHASES}
            recount = {phase: phases.get(name, Counter())[phase] for phase in PHASES}
            if not said == believed.get(name, 0) / 1000 == held[name] or counts != recount:
                found.append(f"{name}: {said}, {believed.get(name)}, {counts}; there are {held[name]}, {recount}")
        for gauge in ("pumice_assumptions_open", "pumice_writes_in_flight", "pumice_changes_waiting"):
            found += [f"{gauge} is {value}" for value in self.metric(gauge).values() if value]
        found += [f"{name} is not followed" for name, value in self.metric("pumice_informer_behind").items() if value]
        return found

    def check_binds(self) -> None:
        """No pod was bound twice, and nobody has even tried to put one that was bound somewhere else."""
        placed: dict[str, str] = {}
        for asked in self.wire.those(BIND):
            uid, node = binding(asked)
            assert placed.get(uid, node) == node, f"{asked.name} is on {placed[uid]} and was to be put on {node}"
            if asked.real == 201:
                assert uid not in placed, f"{asked.name} was bound twice"
                placed[uid] = node


def binding(asked: Asked) -> tuple[str, str]:
    """The uid of the pod that shall be bound, and the node."""
    wanted = json.loads(asked.body)
    return wanted["metadata"]["uid"], wanted["target"]["name"]


@contextmanager
def wired(installed: Cluster, *, nodes: int = 6, closed: int = 0) -> Iterator[Wired]:
    """One that is busy; so many of its nodes are closed."""
    with faulty_wire(installed.real.endpoint.url) as wire, at_work(installed, nodes=nodes) as trial:
        names = sorted(node["metadata"]["name"] for node in trial.client.list(NODES).items)[:closed]
        for name in names:
            trial.client.merge(f"{NODES}/{name}", {"spec": {"unschedulable": True}})
        scheduler = trial.part(SCHEDULER, server=wire.url)
        scheduler.start_ready()
        trial.part(CONTROLLERS).start_ready()
        trial.begin()
        trial.until_busy()
        yield Wired(trial, wire, scheduler, names)


# --- watches ---------------------------------------------------------------------------------------------------------


def test_watches_that_break_again_and_again_in_the_middle_of_events(installed: Cluster) -> None:
    # An event of a pod has about 3,000 bytes: two or three come, and one is lost half way.
    with wired(installed) as world:
        bound, began = world.trial.witness.binds, time.monotonic()
        with world.wire.fault("watch *", torn=10_000):
            for _ in range(20):
                world.wire.cut_watches()
                world.wait(0.5)
            with world.wire.fault("list pods", held=True):  # which is asked for before a watch goes on
                world.wire.cut_watches()
                world.wait(3.0)
        assert world.wire.count("watch pods", since=began) > 10, "watches have lived on"
        assert world.trial.witness.binds > bound + 10, "nothing was bound meanwhile"
        world.settle()


def test_watches_that_never_bring_a_whole_event(installed: Cluster) -> None:
    # What does not come by watches is found by lists.
    with wired(installed) as world:
        bound = world.trial.witness.binds
        with world.wire.fault("watch *", torn=300) as torn:
            world.wire.cut_watches()
            world.trial.eventually(lambda: world.trial.witness.binds > bound + 10, "pods are bound, blindly")
        assert torn.met
        world.settle()


# --- 410 -------------------------------------------------------------------------------------------------------------


def test_history_that_is_gone_when_the_watches_come_back(installed: Cluster) -> None:
    # While the scheduler sees nothing, etcd drops all that was; and the server, started anew, has no memory of its own.
    with wired(installed) as world:
        endpoint = installed.real.endpoint
        before = world.metric("pumice_informer_lists_total")
        with world.wire.fault("watch *", CUT):
            world.wire.cut_watches()
            world.wait(3.0)
            endpoint.end()
            endpoint.begin()
            compact(endpoint.etcd)
            world.wait(3.0)
        world.settle()
        lists = world.metric("pumice_informer_lists_total")
        assert lists["pods"] > before["pods"], "the watch went on: then this shows nothing"
        assert any(asked.real == 410 for asked in world.wire.those("watch pods")), "the server has never said so"


def compact(etcd: str) -> None:
    """Let etcd forget how it came to be as it is."""
    revision = int(_etcd(etcd, "range", {"key": base64.b64encode(b"/").decode()})["header"]["revision"])
    _etcd(etcd, "compaction", {"revision": revision, "physical": True})


def _etcd(etcd: str, what: str, wanted: Document) -> Document:
    """Ask etcd over its gateway."""
    with urllib.request.urlopen(f"{etcd}/v3/kv/{what}", json.dumps(wanted).encode(), timeout=30) as answer:
        found: Document = json.load(answer)
        return found


@pytest.mark.parametrize("event", [False, True], ids=["answer", "event"])
def test_a_server_that_says_again_and_again_that_history_is_gone(installed: Cluster, event: bool) -> None:
    with wired(installed) as world:
        before = world.metric("pumice_informer_lists_total")["pods"]
        with world.wire.fault("watch *", 410, event=event) as gone:
            world.wire.cut_watches()
            world.wait(8.0)
        lists = world.metric("pumice_informer_lists_total")["pods"] - before
        # Pauses double from 0.1 s on, by half of that at least: of 8 s there are no more than 8.
        assert 3 <= lists <= 8, "each time there is one list, and a pause"
        assert gone.met
        world.settle()


# --- 429 -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("retry_after", [1, None])
def test_a_server_that_has_no_time(installed: Cluster, retry_after: int | None) -> None:
    # First for every second request about a thing, then for all of them.
    with wired(installed) as world:
        wire, began = world.wire, time.monotonic()
        bound = world.trial.witness.binds
        with wire.fault("*", 429, retry_after=retry_after, every=2):
            wire.cut_watches()
            world.trial.eventually(lambda: world.trial.witness.binds > bound + 10, "pods are bound")
        with wire.fault(BIND, 429, retry_after=retry_after) as binds:
            world.trial.eventually(lambda: binds.met > 0, "some pod is to be bound")
            with wire.fault("*", 429, retry_after=retry_after) as never:
                wire.cut_watches()
                world.wait(BLACKOUT)
        world.settle()
        for what in (BIND, "list pods", "watch pods", "patch podgroups", "patch queues/status"):
            assert wire.those(what, 429, since=began), f"{what}: was never refused"
        check_patience(wire, retry_after or 0.0)
        print(f"{never.met} refused in {BLACKOUT:.0f} s")


def check_patience(wire: FaultyWire, retry_after: float) -> None:
    """Nobody came back sooner than was asked for, nor too often."""
    last: dict[tuple[str, str], Asked] = {}
    for asked in wire.those("*"):
        before = last.get((asked.what, asked.name))
        if before is not None and before.code == 429 and asked.what != IDENTITY:
            pause = asked.at - before.at
            assert pause >= retry_after, f"{asked.what} {asked.name}: again after {pause:.2f} s"
        last[asked.what, asked.name] = asked
    refused = Counter((asked.what, asked.name) for asked in wire.those("*", 429))
    for (what, name), count in refused.items():
        assert count <= MOST_REFUSALS * (len(WATCHED) if what == IDENTITY else 1), f"{what} {name}: {count} times"


# --- 409 -------------------------------------------------------------------------------------------------------------


def test_scheduler_recovers_when_rival_binds_pods_first(installed: Cluster) -> None:
    # One node is closed to the scheduler: there the rival puts every other pod that is about to be bound; the rest go
    # where the scheduler wants them.
    with wired(installed, nodes=7, closed=1) as world:
        wire, client = world.wire, world.trial.client
        with world.late(), wire.fault(BIND, held=True) as held:
            world.trial.eventually(lambda: held.met >= 6, "pods are about to be bound")
            taken = wire.those(BIND, code=0)[:6]
            for number, asked in enumerate(taken):
                wanted = json.loads(asked.body)
                wanted["target"]["name"] = world.closed[0] if number % 2 else wanted["target"]["name"]
                del wanted["metadata"]["annotations"]
                client.create(f"{PODS}/{asked.name.partition('/')[2]}/binding", wanted)
            held.held, world.trial.load.pace = False, Pace.STILL
            world.trial.eventually(lambda: all(asked.code for asked in taken), "all are answered")
            world.wait(3.0)
        assert [asked.code for asked in taken] == [409] * 6
        world.settle()


@pytest.mark.parametrize("code", [409, CUT])
@pytest.mark.parametrize("done", [False, True], ids=["not-done", "done"])
def test_binds_that_are_said_to_have_failed(installed: Cluster, code: int, done: bool) -> None:
    # Every pod's first attempt; if it was not done, the next one is. What the watch would tell of it comes late.
    with wired(installed) as world:
        bound = world.trial.witness.binds
        with world.wire.fault(BIND, code, done=done, every=2) as failed, world.late():
            world.wait(10.0)
        assert failed.met >= 10, failed.met
        assert world.trial.witness.binds > bound + 10, "nothing was bound meanwhile"
        world.settle()
