"""Faults on a real Kubernetes API: what is at work there, and what must hold whatever is done to it.

Pumice is installed, and its components are processes that have the rights it ships and nothing else. There are nodes,
more gangs than fit on them, and a witness that follows every pod from the beginning. A test starts what it wants to
torment, does so while all are busy, and then asks for the verdict (``settle``)::

    with cluster(folder) as installed, at_work(installed) as trial:
        scheduler = trial.part(SCHEDULER, server=trial.wire(0.3).url)
        scheduler.start_ready()
        trial.part(CONTROLLERS).start_ready()
        trial.begin()
        trial.until_busy()
        ...                      # the fault
        trial.settle()

No pod has ever changed its node, and no node has ever held more than it has. No later than 60 s after the fault no gang
has less than its minimum, and then that is how it stays. And work goes on: all gangs get their turn, also one that
comes after the fault.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import signal
import time
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from benchmarks.kubernetes import free_ports
from kubebase.quantity import parse
from kubebase.timestamps import micro_stamp
from kubesim.kubelet.node_template import make_nodes as described
from kubesim.kubelet.node_template import parse_capacity
from pumice.install.rbac import CONTROLLERS, SCHEDULER, WEBHOOKS
from pumice.kube.client.api_errors import ApiError
from pumice.kube.client.kubeconfig import Access
from pumice.kube.client.sync_client import Client
from tests.support.gang_load import CLASSES, QUEUES, Load, Pace
from tests.support.installed import Real, pumice, real_server
from tests.support.killable import Program, Wire
from tests.support.real_cluster import RealCluster
from tests.support.simulated_nodes import simulated_nodes
from tests.support.witness import PODS, Witness, seen

__all__ = ["CONTROLLERS", "SCHEDULER", "WEBHOOKS", "Cluster", "Part", "SlowWire", "Trial", "at_work", "cluster"]

LIMIT = 60.0
"""Seconds after a fault within which no gang has less than its minimum any more."""
SILENCE = 3.0
"""Seconds without any change of a pod after which nothing is going on."""
PATIENCE = 120.0
"""Seconds after which whatever else is waited for will not come."""
SPEED = 100.0
"""Pods that are stopped use up their grace in no time."""


READS = frozenset({"get", "list", "watch"})
CREDENTIAL = "authentication.kubernetes.io/credential-id"


class Part(Program):
    """A component of ours as one process after another, with a token of its own.

    ``server``: where its kubeconfig says that the API is, if that is not where it is.
    """

    def __init__(self, real: Real, component: str, *arguments: str, alias: str = "", server: str = "") -> None:
        self.name = alias or component
        (self._port,) = free_ports(1)
        token = real.token(component)
        self._credential = f"JTI={_claims(token)['jti']}"
        self._real = real
        kubeconfig = real.write_kubeconfig(self.name, token, server=server)
        where = ["--kubeconfig", str(kubeconfig), "--metrics-address", f"127.0.0.1:{self._port}"]
        super().__init__(real.folder, component, *where, *arguments)
        self._log = real.folder / f"{self.name}.log"
        self._log.unlink(missing_ok=True)  # of another test

    def start_ready(self) -> None:
        """Start, and wait until it says that it is ready."""
        self.start()
        self.await_ready()

    def await_ready(self) -> None:
        end = time.monotonic() + PATIENCE
        while not self.is_ready():
            assert self.lives, f"{self.name} has ended:\n{self.said()}"
            assert time.monotonic() < end, f"{self.name} is not ready:\n{self.said()}"
            time.sleep(0.1)

    def is_ready(self) -> bool:
        with contextlib.suppress(OSError):
            return bool(urllib.request.urlopen(f"http://127.0.0.1:{self._port}/readyz", timeout=5).status == 200)
        return False

    def metrics(self) -> str:
        """What it counts."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self._port}/metrics", timeout=10) as answer:
            return str(answer.read().decode())

    def freeze(self) -> None:
        """Stop the process where it stands."""
        self._signal(signal.SIGSTOP)

    def thaw(self) -> None:
        """Let it go on."""
        self._signal(signal.SIGCONT)

    def _signal(self, how: signal.Signals) -> None:
        assert self._process is not None
        self._process.send_signal(how)

    def await_end(self, seconds: float = PATIENCE) -> int:
        """Wait until it ends by itself; its status."""
        assert self._process is not None
        return self._process.wait(seconds)

    def wrote(self, since: float = 0.0) -> list[str]:
        """What it has asked the API to change since a time (of the clock), as the audit log has it."""
        after = micro_stamp(since)
        return [
            f"{event['requestReceivedTimestamp']} {event['verb']} {event['requestURI']}"
            for event in self._real.asked()
            if event["verb"] not in READS
            and self._credential in event["user"].get("extra", {}).get(CREDENTIAL, ())
            and event["requestReceivedTimestamp"] >= after
        ]


def _claims(token: str) -> dict[str, str]:
    part = token.split(".")[1]
    found: dict[str, str] = json.loads(base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)))
    return found


class SlowWire(Wire):
    """A wire to the API that can be slow, hold what is sent, or be cut (``proxy`` has all of it)."""

    def __init__(self, server: str, delay: float) -> None:
        super().__init__(urlsplit(server).port or 443, delay)

    @property
    def url(self) -> str:
        """Where components find the API at this end."""
        return f"https://127.0.0.1:{self.port}"


# ---- what is there --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Cluster:
    """A real API on which Pumice is installed, and its webhooks."""

    real: Real
    webhooks: Part

    @property
    def access(self) -> Access:
        """An administrator's."""
        return Access(self.real.endpoint.url, token=self.real.endpoint.token, verify=False)


@contextlib.contextmanager
def cluster(folder: Path) -> Iterator[Cluster]:
    """A fresh one, for as many tests as like to share it."""
    with real_server(folder) as real:
        (port,) = free_ports(1)
        status, _, said = pumice(real.admin, "install", "--webhook-url", f"https://127.0.0.1:{port}")
        assert status == 0, said
        webhooks = Part(real, WEBHOOKS, "--listen", f"127.0.0.1:{port}", "--host", "127.0.0.1")
        try:
            webhooks.start_ready()
            yield Cluster(real, webhooks)
        finally:
            webhooks.end(signal.SIGTERM)


@contextlib.contextmanager
def at_work(
    installed: Cluster, *, nodes: int = 6, cpu: int = 4, queues: int = 2, work: float = 3.0, surplus: float = 2.0
) -> Iterator[Trial]:
    """Nodes for one test, and what they are to do: ``surplus`` times as many pods as fit, for ``work`` seconds each."""
    with ExitStack() as stack:
        stack.callback(lambda: asyncio.run(RealCluster(installed.real, installed.real.admin).clean()))
        wanted = described(nodes, parse_capacity(f"cpu={cpu},memory=64Gi"))
        stack.enter_context(simulated_nodes(installed.access, wanted, speed=SPEED))
        yield Trial(installed, stack, nodes * cpu, cpu, queues, work, surplus)


class Trial:
    """A cluster at work."""

    def __init__(
        self, installed: Cluster, stack: ExitStack, room: int, cpu: int, queues: int, work: float, surplus: float
    ) -> None:
        self.installed = installed
        self.real = installed.real
        self.room = room  # cpus, and so pods, that fit
        self.client = Client(installed.access)
        self.parts: list[Part] = []
        self._stack = stack
        self._minimum: dict[str, int] = {}
        self.queues = queues  # q0, q1 ...
        self._queues = [f"q{number}" for number in range(queues)]
        self.witness = Witness(installed.access, cpu, self._minimum)
        self.load = Load(installed.access, int(room * surplus), self._queues, self._minimum, work)
        self.load.witness = self.witness
        stack.callback(self.client.close)

    # ---- beginning -----------------------------------------------------------------------------------------

    def part(self, component: str, *arguments: str, alias: str = "", server: str = "") -> Part:
        """A component; it ends with the trial. A second one of a kind needs another name."""
        made = Part(self.real, component, *arguments, alias=alias, server=server)
        self.parts.append(made)
        self._stack.callback(made.end)
        return made

    def wire(self, delay: float = 0.0) -> SlowWire:
        """A wire to the API on which whatever a component asks takes up to so many seconds (TLS: twice at first)."""
        wire = SlowWire(self.real.endpoint.url, delay)
        wire.begin()
        self._stack.callback(wire.end)
        return wire

    def begin(self) -> None:
        """Let the gangs come."""
        important = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "rival"}}
        with contextlib.suppress(ApiError):  # left by another test
            self.client.create(CLASSES, {**important, "value": 1000, "preemptionPolicy": "Never"})
        for name in self._queues:
            about = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue", "metadata": {"name": name}}
            self.client.create(QUEUES, {**about, "spec": {"weight": 1, "parent": "root"}})
        self.eventually(lambda: all(map(self._is_open, self._queues)), "the queues are open")
        for thread in (self.witness, self.load):
            thread.start()
            self._stack.callback(_end, thread)

    def _is_open(self, queue: str) -> bool:
        return bool(self.client.get(f"{QUEUES}/{queue}").get("status", {}).get("state") == "Open")

    # ---- waiting -------------------------------------------------------------------------------------------

    def eventually(self, holds: Callable[[], bool], what: str, seconds: float = PATIENCE) -> None:
        """Wait for something, as long as all that must hold always does hold."""
        end = time.monotonic() + seconds
        while not holds():
            self.witness.check()
            self.load.check()
            assert time.monotonic() < end, f"not within {seconds:.0f} s: {what}\n{self._said()}"
            time.sleep(0.02)

    def until_busy(self) -> None:
        """Wait until the cluster is full, some gangs have had their turn, and others wait for theirs."""
        self.eventually(lambda: len(self.witness.finished) >= 3, "some gangs have run")
        full = self.room - max(gang.size for gang in self.load.gangs.values())
        self.eventually(lambda: sum(self.witness.used.values()) > full, "the cluster is full")

    def until_part(self) -> str:
        """Wait for a moment in which a gang has a part of its minimum bound: its name."""
        found: list[str] = []

        def some() -> bool:
            found[:] = list(self.witness.parts)
            return bool(found)

        self.eventually(some, "some gang is being bound")
        return found[0]

    def _said(self) -> str:
        witness, load = self.witness, self.load
        parts = {gang: f"{witness.bound_of[gang]} of {self._minimum[gang]}" for gang in list(witness.parts)}
        seen = f"incomplete: {parts}; too full: {list(witness.over)}; waiting: {sorted(load.gangs.keys() - load.ran)}"
        return "\n".join([seen, *list(load.troubles)[-3:], *(f"--- {part.name}\n{part.said()}" for part in self.parts)])

    # ---- the verdict ---------------------------------------------------------------------------------------

    def settle(self, *, since: float = 0.0) -> None:
        """What must hold when a fault is over: it ended at ``since`` (monotonic), or just now."""
        ended, witness, load = since or time.monotonic(), self.witness, self.load
        load.pace = Pace.STILL
        self.eventually(lambda: not witness.parts, "every gang has its minimum, or nothing", LIMIT - _past(ended))
        self.eventually(lambda: load.is_made and witness.silence > SILENCE, "nothing happens any more")
        assert not witness.parts, self._said()
        assert not witness.over, self._said()
        assert not load.refused, f"nodes had no room for {len(load.refused)} pods\n{self._said()}"
        self._recount()
        late = load.submit()
        load.pace = Pace.DRAINING
        self.eventually(lambda: late in load.ran, "a gang that came after the fault runs")
        self.eventually(lambda: load.ran >= load.gangs.keys(), "every gang has had its turn")
        witness.check()
        load.check()
        for part in self.parts:
            assert "Traceback" not in part.said(), part.said()

    def report(self) -> str:
        """What was seen, in a line."""
        witness, load = self.witness, self.load
        return (
            f"{len(load.gangs)} gangs, {witness.binds} pods bound, {load.recreated} made again; "
            f"the longest incomplete for {witness.longest_part:.1f} s; "
            f"{witness.overs} times a node too full, at most for {witness.longest_over:.1f} s; {witness.lists} lists"
        )

    def _recount(self) -> None:
        """The same, from what the API shows: the witness may err."""
        used: Counter[str] = Counter()
        bound: Counter[str] = Counter()
        for pod in map(seen, self.client.list(PODS).items):
            used[pod.node] += pod.cpu * pod.holds
            bound[pod.gang] += pod.counts
        for node in self.client.list("/api/v1/nodes").items:
            name, has = node["metadata"]["name"], parse(node["status"]["allocatable"]["cpu"]).value()
            assert used[name] <= has, f"{name} holds {used[name]} of {has} cpu"
        for gang, least in self._minimum.items():
            count = bound[gang] if gang not in self.witness.finished else 0
            assert count == 0 or count >= least, f"{gang} has {count} of {least}\n{self._said()}"
            assert count == self.witness.bound_of[gang] or gang in self.witness.finished, f"{gang}: the witness errs"


def _past(moment: float) -> float:
    return time.monotonic() - moment


def _end(thread: Witness | Load) -> None:
    thread.stopping = True
    if isinstance(thread, Load):  # a witness may wait long for the next thing to happen
        thread.join(PATIENCE)
