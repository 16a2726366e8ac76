"""The live service, killed with kill -9 in the middle of its work, again and again.

There is more work than room, so that whoever comes first has it; the scheduler talks to the API through a slow wire, so
that the binds of a gang take a while, and most kills find some half done. A witness follows every pod all the time.
When all is quiet again, no gang has a part of its minimum; then what runs is taken away, and the next ones start.
"""

from __future__ import annotations

import contextlib
import os
import random
import re
import signal
import sys
import time
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import yaml

from benchmarks.kubernetes import free_ports
from kubebase.quantity import parse
from pumice.audit.certificate import audit
from pumice.kube.client.api_errors import ApiError, UnreachableError
from pumice.kube.client.kubeconfig import Access
from pumice.kube.client.sync_client import Client, Document
from tests.support.killable import PATIENCE, Gang, Orders, Program, Wire, Writer
from tests.support.processes import run_process
from tests.support.witness import PODS, Witness

VOLCANO = "/apis/scheduling.volcano.sh/v1beta1"
GROUPS = f"{VOLCANO}/namespaces/default/podgroups"
QUEUES = f"{VOLCANO}/queues"
CLASSES = "/apis/scheduling.k8s.io/v1/priorityclasses"
LIMIT = 60.0
"""Seconds within which a gang that a crash has left incomplete is complete, or gone."""
NODE_CPU = 6


@dataclass(frozen=True)
class Size:
    """How much there is of everything."""

    nodes: int
    queues: int
    gangs: int
    pods: int  # in all
    kills: int
    delay: float  # seconds, at most, that a request of the scheduler is under way
    writers: int = 2


SMALL = Size(nodes=30, queues=8, gangs=30, pods=300, kills=4, delay=0.6)
FULL = Size(nodes=1000, queues=50, gangs=500, pods=10_000, kills=20, delay=0.2, writers=4)


@dataclass
class Torment:
    """All of it: the processes, the load, the witness, and what is done to them."""

    folder: Path
    size: Size
    seed: int
    gangs: dict[str, Gang] = field(default_factory=dict)
    found_parts: int = 0  # gangs that a kill has left incomplete
    recreated: int = 0

    def __post_init__(self) -> None:
        self.chosen = random.Random(self.seed)
        port, self.probes = free_ports(2)
        self.address = f"http://127.0.0.1:{port}"
        self.wire = Wire(port, self.size.delay)
        nodes = ["--nodes", str(self.size.nodes), "--node-capacity", f"cpu={NODE_CPU},memory=64Gi,pods=110"]
        data = ["--data", str(self.folder / "data"), "--port", str(port)]
        alone = ["--no-scheduler", "--no-controllers", "--kubeconfig", str(self.folder / "kubeconfig")]
        self.server = Program(self.folder, "up", *data, *alone, *nodes)
        slow = self.folder / "slow"
        self.scheduler = Program(
            self.folder, "scheduler", "--kubeconfig", str(slow), "--metrics-address", f"127.0.0.1:{self.probes}",
            "--decision-log", str(self.folder / "decisions"), "--decision-log-files", "1000",
        )  # fmt: skip
        self.controllers = Program(
            self.folder, "controllers", "--kubeconfig", str(self.folder / "kubeconfig"), "--metrics-address", ""
        )
        self.programs = [self.server, self.scheduler, self.controllers]
        self.client = Client(Access(self.address))
        self.orders, self.urgent = Orders(), Orders()
        self.writers = [Writer(self.address, orders) for orders in (*[self.orders] * self.size.writers, self.urgent)]
        self.rivals: list[Gang] = []
        self.minimum: dict[str, int] = {}
        self.witness = Witness(Access(self.address), NODE_CPU, self.minimum)

    @property
    def _quiet(self) -> float:
        """Seconds without an event after which nothing is under way."""
        return 1.5 + 2 * self.size.delay

    # ---- processes ------------------------------------------------------------------------------------------------

    def begin(self) -> None:
        self.server.start()
        self.eventually(self._answers, "the server answers")
        self.eventually(lambda: len(self.list("/api/v1/nodes")) == self.size.nodes, "all nodes are there")
        self.wire.begin()
        known = yaml.safe_load((self.folder / "kubeconfig").read_text())
        known["clusters"][0]["cluster"]["server"] = f"http://127.0.0.1:{self.wire.port}"
        (self.folder / "slow").write_text(yaml.safe_dump(known))
        important = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "rival"}}
        self.client.create(CLASSES, {**important, "value": 1000, "preemptionPolicy": "Never"})
        for number in range(self.size.queues):
            self.client.create(QUEUES, _queue(f"q{number}", self.chosen.choice([1, 1, 2, 4])))
        self._order_gangs()
        self.witness.start()
        for writer in self.writers:
            writer.start()
        self.controllers.start()
        self.scheduler.start()

    def end(self) -> None:
        self.witness.stop()
        for writer in self.writers:
            writer.stopping = True
        for program in reversed(self.programs):
            program.end()
        if self.wire.is_alive():
            self.wire.end()
        self.client.close()

    def kill(self) -> None:
        """Kill something, and start it again."""
        victims = self.chosen.choice([[self.scheduler]] * 3 + [[self.server], self.programs])
        for program in victims:
            program.end()
        time.sleep(self.chosen.uniform(0, 0.3))
        self.found_parts += len(self.witness.parts)
        if self.server in victims:
            self.server.start()
            self.eventually(self._answers, "the server answers again")
        self._send_rivals()
        for program in victims:
            if program is not self.server:
                program.start()

    def _send_rivals(self) -> None:
        """Important gangs in the queues of those that were left incomplete: they would fill all the room there is."""
        room = self.size.nodes * NODE_CPU - sum(self.witness.used.values())
        queues = sorted({self.gangs[part].queue for part in self.witness.parts})
        while queues and self.rivals and room > 0:
            gang = self.rivals.pop()
            gang.queue = queues[len(self.rivals) % len(queues)]
            self._make(gang, self.urgent)
            room -= gang.size
        self.eventually(self.urgent.is_done, "the rivals are there")

    def _all_is_made(self) -> bool:
        return self.orders.is_done() and self.urgent.is_done()

    def _answers(self) -> bool:
        with contextlib.suppress(UnreachableError, ApiError):
            return bool(self.client.get("/version"))
        return False

    def _is_ready(self) -> bool:
        with contextlib.suppress(OSError):
            return bool(urllib.request.urlopen(f"http://127.0.0.1:{self.probes}/readyz", timeout=5).status == 200)
        return False

    # ---- load -----------------------------------------------------------------------------------------------------

    def _order_gangs(self) -> None:
        each, rest = divmod(self.size.pods, self.size.gangs)
        for number in range(self.size.gangs):
            size = each + (number < rest)
            least = size if self.chosen.random() < 0.7 else self.chosen.randint(size // 2, size)
            rival = number % 2 == 1
            least = 1 if rival else least  # they fill the last gap
            gang = Gang(f"g{number}", f"q{self.chosen.randrange(self.size.queues)}", size, least, rival)
            self.gangs[gang.name], self.minimum[gang.name] = gang, least
            if rival:
                self.rivals.append(gang)
            else:
                self._make(gang)

    def _make(self, gang: Gang, orders: Orders | None = None) -> None:
        orders = orders or self.orders
        orders.put(GROUPS, gang.group())
        for pod in range(gang.size):
            orders.put(PODS, gang.pod(pod))

    def make_anew(self) -> None:
        """What a controller would do: pods that somebody has evicted are made again."""
        for name, uids in list(self.witness.gone.items()):
            gang, _, number = name.rpartition("-")
            if uids and gang not in self.witness.finished:
                uids.clear()
                self.recreated += 1
                self.orders.put(PODS, self.gangs[gang].pod(int(number)))

    def take_away(self, gang: str) -> None:
        """A gang has done its work."""
        self.witness.finished.add(gang)
        for number in range(self.gangs[gang].size):
            self._delete(f"{PODS}/{gang}-{number}?gracePeriodSeconds=0")
        self._delete(f"{GROUPS}/{gang}")

    def _delete(self, path: str) -> None:
        with contextlib.suppress(ApiError):
            self.client.delete(path)

    # ---- what must hold -------------------------------------------------------------------------------------------

    def list(self, path: str) -> list[Document]:
        return self.client.list(path).items

    def eventually(self, holds: Callable[[], bool], what: str, patience: float = PATIENCE) -> None:
        end = time.monotonic() + patience
        while not holds():
            self.witness.check()
            for writer in self.writers:
                if writer.failure is not None:
                    raise writer.failure
            for program in self.programs:
                assert program.lives or not program.started, program.said()
            assert time.monotonic() < end, f"not within {patience:.0f} s: {what}\n{self.scheduler.said()}"
            time.sleep(0.05)

    def await_quiet(self) -> None:
        """Until the scheduler has seen everything and nothing happens any more."""
        self.eventually(self._is_ready, "the scheduler is ready")
        parts = dict(self.witness.parts)
        self.eventually(
            lambda: not self.witness.parts, f"{parts} are complete, or gone; now {self.witness.parts}", LIMIT
        )
        self.eventually(self._all_is_made, "all is made")
        self.eventually(lambda: self.witness.silence > self._quiet, "nothing happens any more")
        assert not self.witness.parts

    def check_counters(self) -> None:
        """What queues say of themselves is what a recount finds."""

        def wrong() -> list[str]:
            held: Counter[str] = Counter()
            for pod in list(self.witness.pods.values()):
                held[self.gangs[pod.gang].queue] += pod.cpu * pod.counts
            phases: dict[str, Counter[str]] = {}
            for group in self.list(GROUPS):
                phase = group.get("status", {}).get("phase", "Pending").lower()
                phases.setdefault(group["spec"]["queue"], Counter())[phase] += 1
            held["root"] = sum(held.values())
            phases["root"] = sum(phases.values(), Counter())
            found = []
            for queue in self.list(QUEUES):
                name, status = queue["metadata"]["name"], queue.get("status", {})
                if name == "default":
                    continue
                said = parse(status.get("allocated", {}).get("cpu", "0")).value()
                counts = {phase: status.get(phase, 0) for phase in ("pending", "inqueue", "running", "unknown")}
                recount = {phase: phases.get(name, Counter())[phase] for phase in counts}
                if said != held[name] or counts != recount:
                    found.append(f"{name}: {said} cpu, {counts}; there are {held[name]}, {recount}")
            return found

        self.eventually(lambda: not wrong(), f"counters equal a recount: {wrong()}")

    def check_acknowledged(self) -> None:
        """Everything whose creation was acknowledged has been there; and what nobody took away still is."""
        acknowledged = {uid: path for writer in self.writers for path, uid in list(writer.acknowledged.items())}
        pods = {uid for uid, path in acknowledged.items() if path.startswith(PODS)}
        self.eventually(lambda: pods <= self.witness.created, "every pod that was acknowledged is seen")
        there = {each["metadata"]["uid"] for path in (PODS, GROUPS) for each in self.list(path)}
        gone = {f"{GROUPS}/{name}" for name in self.witness.finished}
        for uid, path in acknowledged.items():
            if uid not in there and path not in gone:
                self.eventually(lambda uid=uid: uid in self.witness.deleted, f"{path} was acknowledged and is lost", 10)

    def replay(self) -> None:
        """What each of the schedulers has decided is decided again, the same."""
        command = [sys.executable, "-m", "pumice", "replay", str(self.folder / "decisions")]
        done = run_process(command, capture_output=True, text=True, check=False, timeout=600)
        assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]

    def audit(self) -> None:
        """The logs of all schedulers are one chain, and by them everything was right."""
        found = audit(self.folder / "decisions")
        assert found.clean, "\n".join(map(str, found.findings.kept[:5]))
        assert found.chain.lines > 0 and not found.chain.began

    # ---- from beginning to end ------------------------------------------------------------------------------------

    def run(self) -> str:
        size, room = self.size, self.size.nodes * NODE_CPU
        rounds = max(1, size.pods // room)
        kills = [size.kills * (n + 1) // rounds - size.kills * n // rounds for n in range(rounds)]
        early: set[str] = set()
        self.begin()
        while len(self.witness.finished) < size.gangs:
            for _ in range(kills.pop(0) if kills else 0):
                self._await_moment(room)
                self.kill()
            if not kills:
                self.wire.heal()  # what is left is not about crashes
            self.await_quiet()
            if self.witness.gone:
                self.make_anew()
            if not kills:
                while self.rivals:  # who was not needed
                    self._make(self.rivals.pop())
            self.check_counters()
            self.check_acknowledged()
            whole = self.witness.whole()
            assert whole, "nothing runs and work is waiting"
            full = [gang for gang in whole if self.witness.bound_of[gang] == self.gangs[gang].size]
            for gang in full or whole[:1]:  # if everybody waits for room to grow, somebody has to go
                self.take_away(gang)
            early.update(() if full else whole[:1])
        every = {f"{gang}-{number}" for gang in self.gangs.keys() - early for number in range(self.gangs[gang].size)}
        assert self.witness.ever_bound >= every, f"never bound: {sorted(every - self.witness.ever_bound)[:10]}"
        self.eventually(lambda: not self.witness.pods, "all pods are gone in the end")
        self.check_counters()
        self.witness.check()
        self.scheduler.end(signal.SIGTERM)
        self.replay()
        self.audit()
        for program in self.programs:
            assert "Traceback" not in program.said(), program.said()
        return (
            f"seed {self.seed}: {size.kills} kills found {self.found_parts} gangs incomplete; the longest was so for "
            f"{self.witness.longest_part:.1f} s; {self.recreated} pods were evicted ({self._evictions()}); "
            f"{self.witness.binds:,} bound"
        )

    def _evictions(self) -> str:
        """By action, as the logs have them."""
        text = "".join(path.read_text() for path in sorted((self.folder / "decisions").iterdir()))
        found = Counter(re.findall(r'"action":"(\w+)"', text))
        return ", ".join(f"{count} by {action}" for action, count in sorted(found.items())) or "none"

    def _await_moment(self, room: int) -> None:
        """A random moment: after some more pods were bound, or when the scheduler has nothing left to bind.

        Until a kill has found a gang half bound, it is a moment at which some gang is.
        """
        enough = self.witness.binds + self.chosen.randint(1, room // 3)
        quiet = self._quiet
        if not self.found_parts:
            self.eventually(self._is_ready, "the scheduler is ready")
            quiet *= 3
        began = time.monotonic()
        while self.witness.binds < enough if self.found_parts else not self.witness.parts:
            self.witness.check()
            if self._all_is_made() and min(self.witness.silence, time.monotonic() - began) > quiet:
                return
            time.sleep(0.005)


def _queue(name: str, weight: int) -> Document:
    about = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue", "metadata": {"name": name}}
    return {**about, "spec": {"weight": weight, "parent": "root"}}


@contextlib.contextmanager
def tormenting(folder: Path, size: Size, seed: int) -> Iterator[Torment]:
    torment = Torment(folder, size, seed)
    try:
        yield torment
    finally:
        torment.end()


@pytest.mark.timeout(900)
def test_gangs_that_a_crash_left_incomplete_are_completed_first(tmp_path: Path) -> None:
    with tormenting(tmp_path, SMALL, seed=3) as torment:
        print(torment.run())
        assert torment.found_parts, "no kill found a gang half bound: then this shows nothing"


@pytest.mark.long
def test_ten_thousand_pods_and_twenty_kills(tmp_path: Path) -> None:
    seed = int.from_bytes(os.urandom(4))
    print(f"\nseed {seed}")
    with tormenting(tmp_path, FULL, seed) as torment:
        print(torment.run())
        assert torment.found_parts
