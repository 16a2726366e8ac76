"""What comes of evictions: those for whom they were made start, and nobody takes back what was taken.

A preemptor waits on its node until its victims have left. It may lose that place for a reason that the log shows: its
pod or its victim's eviction failed or is gone, its node was lost or changed, its queue closed, the scheduler restarted,
or it was given another place. Without one, it has to start within ``PATIENT_CYCLES`` cycles after its victims are gone.

Two jobs that evict tasks of each other while nothing in the cluster changes would go on for ever.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from pumice.audit.eviction_rules import Taking
from pumice.audit.findings import Findings
from pumice.audit.ledger import Ledger
from pumice.audit.log_lines import Decision
from pumice.model.specs import NodeSpec, QueueState, TaskStatus

PATIENT_CYCLES = 5
"""Cycles after the last victim has left in which the preemptor has to start."""


@dataclass(slots=True)
class AwaitedStart:
    """A task that was given a place by evictions, and has not started."""

    eviction: Decision
    claim: Decision
    victims: tuple[str, ...]
    others: tuple[str, ...]  # all tasks that got places together
    cycle: int
    now: int
    line: str
    node: NodeSpec | None
    since: int = 0  # cycles since the last victim has left


class FollowUp:
    """Follows the evictions of a log until their preemptors have started."""

    def __init__(self, findings: Findings) -> None:
        self._findings = findings
        self._awaited: dict[str, AwaitedStart] = {}
        self._taken: dict[tuple[str, str], tuple[int, int]] = {}  # (preemptor, victim): the world and the cycle
        self.started = 0
        self.excused: Counter[str] = Counter()

    @property
    def waiting(self) -> int:
        """How many have not started when the log ends."""
        return len(self._awaited)

    def restarted(self) -> None:
        """Another scheduler goes on: it does not know the places that were given."""
        self.excused["the scheduler restarted"] += len(self._awaited)
        self._awaited = {}
        self._taken = {}

    def before(self, ledger: Ledger, decisions: Sequence[Decision]) -> None:
        """Follow a cycle, before its decisions are entered: who starts, and who can no longer keep its place."""
        for decision in decisions:
            if decision.does == "bind" and self._awaited.pop(decision.task, None) is not None:
                self.started += 1
        self._judge(ledger)

    def after(self, ledger: Ledger, takings: Sequence[Taking]) -> None:
        """Follow a cycle, when its decisions are entered."""
        for taking in takings:
            self._turn(ledger, taking)
            for claim in taking.claims:
                self._expect(ledger, taking, claim)

    def _expect(self, ledger: Ledger, taking: Taking, claim: Decision) -> None:
        if claim.does == "bind":
            self.started += claim.job == taking.preemptor
            return
        if claim.task in self._awaited:
            self.excused["it was given another place"] += 1
        found = self._findings
        here = [each.task for each in taking.evictions if each.node == claim.node]
        victims = tuple(here or (each.task for each in taking.evictions))
        others = tuple(each.task for each in taking.claims)
        node = ledger.nodes[claim.node].spec if claim.node in ledger.nodes else None
        self._awaited[claim.task] = AwaitedStart(
            taking.evictions[0], claim, victims, others, found.cycle, found.now, found.line, node
        )

    def _judge(self, ledger: Ledger) -> None:
        for key, awaited in list(self._awaited.items()):
            excuse = self._excuse(ledger, awaited)
            if excuse:
                self.excused[excuse] += 1
                del self._awaited[key]
                task = ledger.tasks.get(key)
                if task is not None and task.status is TaskStatus.PIPELINED:
                    ledger.move(task, TaskStatus.PENDING, None)
            elif not any(self._leaves(ledger, victim) for victim in awaited.victims):
                awaited.since += 1
                if awaited.since > PATIENT_CYCLES:
                    message = (
                        f"{awaited.claim.task} was given a place on {awaited.claim.node} in cycle {awaited.cycle}, and "
                        f"has not started {PATIENT_CYCLES} cycles after the victims had left"
                    )
                    self._findings.add("evictions for a start", awaited.eviction, message)
                    del self._awaited[key]

    def _excuse(self, ledger: Ledger, awaited: AwaitedStart) -> str:
        task, node = ledger.tasks.get(awaited.claim.task), ledger.nodes.get(awaited.claim.node)
        if task is None or not task.status.unfinished:
            return "its pod is gone"
        if task.status is TaskStatus.PENDING:
            return "its bind failed"
        if any(each not in ledger.tasks for each in awaited.others):
            return "a pod of its gang is gone"
        if node is None or not node.schedulable or node.spec != awaited.node:
            return "its node was lost or changed"
        if any(self._stays(ledger, victim) for victim in awaited.victims):
            return "the eviction failed"
        job = ledger.jobs.get(awaited.claim.job)
        if job is None or job.spec is None:
            return "its job is gone"
        path = ledger.path_of(job.key) or ()
        names = [ledger.accounts.queue_at(path[: depth + 1]) for depth in range(len(path))]
        queues = [ledger.queues[name] for name in names if name in ledger.queues]
        if not path or any(queue.state is not QueueState.OPEN for queue in queues):
            return "its queue does not start jobs"
        if any(amount < 0 for amount in node.room(leaving=True, claims=True)):
            return "another pod took the room"
        return ""

    def _leaves(self, ledger: Ledger, victim: str) -> bool:
        task = ledger.tasks.get(victim)
        return task is not None and task.status is TaskStatus.RELEASING

    def _stays(self, ledger: Ledger, victim: str) -> bool:
        task = ledger.tasks.get(victim)
        return task is not None and task.status.held and not task.evicted and task.status is not TaskStatus.BINDING

    def _turn(self, ledger: Ledger, taking: Taking) -> None:
        """Whether the victims' job took from the preemptor before, in the same world."""
        for eviction in taking.evictions:
            before = self._taken.get((eviction.job, eviction.preemptor))
            if before is not None and before[0] == ledger.world and eviction.job != eviction.preemptor:
                self._findings.add(
                    "no eviction cycles",
                    eviction,
                    f"{eviction.job} evicted a task of {eviction.preemptor} in cycle {before[1]}, and nothing in the "
                    "cluster has changed since",
                )
            self._taken[(eviction.preemptor, eviction.job)] = (ledger.world, self._findings.cycle)
