"""What comes of evictions: those for whom they were made start, and nobody takes back what was taken.

A preemptor waits on its node until its victims have left. It may lose that place for a reason that the log shows: its
pod or its victim's eviction failed or is gone, its node was lost or changed, another pod took the room, its gang is not
complete any more, its queue closed, the scheduler restarted, or it was given another place. Without one, it has to
start within ``PATIENT_CYCLES`` cycles after its victims are gone, and any others on its node whose room it needs, and
those for whom tasks of its gang wait without whom it cannot start.
Where the log leaves open whether a task waits for victims of which one stays, it may keep its place or have lost it.

Two jobs that evict tasks of each other while nothing in the cluster changes, until both hold again what they held
before, would go on for ever.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Sequence
from dataclasses import dataclass
from itertools import zip_longest

from pumice.audit.eviction_rules import Taking
from pumice.audit.findings import Findings
from pumice.audit.ledger import Ledger
from pumice.audit.ledger_entries import add_to
from pumice.audit.log_lines import Decision
from pumice.model.specs import NodeSpec, QueueState, TaskStatus

PATIENT_CYCLES = 5
"""Cycles after the last victim has left in which the preemptor has to start."""


@dataclass(slots=True)
class AwaitedStart:
    """A task that was given a place where room is being freed, and has not started."""

    eviction: Decision | None  # the first one made for it; None: it waits for room that was being freed already
    claim: Decision
    victims: tuple[str, ...]
    cycle: int
    now: int
    line: str
    node: NodeSpec | None
    is_sure: bool = True  # whether it waits for these victims; else it may have been placed in free room beside them
    since: int = 0  # cycles since the last victim has left


@dataclass(frozen=True, slots=True)
class EarlierTaking:
    """A job took from another one: when, in which world, and what both held before."""

    world: int
    cycle: int
    preemptor_held: list[int]
    victim_held: list[int]


class FollowUp:
    """Follows the evictions of a log until their preemptors have started."""

    def __init__(self, findings: Findings) -> None:
        self._findings = findings
        self._awaited: dict[str, AwaitedStart] = {}  # in the order in which they were given their places
        self._taken: dict[tuple[str, str], EarlierTaking] = {}  # by preemptor and victim
        self.started = 0
        self.excused: Counter[str] = Counter()

    @property
    def waiting(self) -> int:
        """How many of those for whom tasks were evicted have not started when the log ends."""
        return sum(awaited.eviction is not None for awaited in self._awaited.values())

    def restarted(self) -> None:
        """Another scheduler goes on: it does not know the places that were given."""
        self.excused["the scheduler restarted"] += self.waiting
        self._awaited = {}
        self._taken = {}

    def before(self, ledger: Ledger, decisions: Sequence[Decision]) -> None:
        """Follow a cycle, before its decisions are entered: who can no longer keep its place, and who starts."""
        moved: set[str] = set()  # tasks that get a place anew, so they had lost the one before
        bound: set[str] = set()
        for decision in decisions:
            awaited = self._awaited.get(decision.task)
            if awaited is not None and decision.does == "bind" and decision.node == awaited.claim.node:
                bound.add(decision.task)
            elif awaited is not None and decision.does in ("bind", "pipeline"):
                moved.add(decision.task)
        self._send_back(ledger, moved, bound)
        self._judge(ledger, bound)
        for key in bound:
            ledger.doubtful.discard(key)
            self.started += self._awaited.pop(key).eviction is not None

    def after(self, ledger: Ledger, takings: Sequence[Taking], decisions: Sequence[Decision]) -> None:
        """Follow a cycle, when its decisions are entered."""
        made_room = {claim.task: taking for taking in takings for claim in taking.claims}
        perhaps = {claim.task: taking for taking in takings if _takes_a_gang(ledger, taking) for claim in taking.others}
        for decision in decisions:
            taking = made_room.get(decision.task)
            if decision.does == "pipeline":
                self._expect(ledger, taking or perhaps.get(decision.task), decision, is_sure=decision.task in made_room)
            elif decision.does == "bind" and taking is not None:
                self.started += decision.job == taking.preemptor
        for taking in takings:
            self._turn(ledger, taking)

    def _expect(self, ledger: Ledger, taking: Taking | None, claim: Decision, *, is_sure: bool) -> None:
        evictions = taking.evictions if taking is not None else []
        victims = tuple(each.task for each in evictions)
        node = ledger.nodes[claim.node].spec if claim.node in ledger.nodes else None
        found, eviction = self._findings, evictions[0] if evictions and is_sure else None
        ledger.doubtful.discard(claim.task)
        self._awaited[claim.task] = AwaitedStart(
            eviction, claim, victims, found.cycle, found.now, found.line, node, is_sure or not evictions
        )

    def _send_back(self, ledger: Ledger, moved: Container[str], bound: Container[str]) -> None:
        """The last one first: where several were promised more room than there is, they return to pending so."""
        for key, awaited in reversed(list(self._awaited.items())):
            if key in bound:
                continue
            if excuse := self._excuse(ledger, awaited):
                self._lose(ledger, key, awaited, excuse)
            elif key in moved:
                self._lose(ledger, key, awaited, "it was given another place")

    def _judge(self, ledger: Ledger, bound: Container[str]) -> None:
        for key, awaited in list(self._awaited.items()):
            if key in bound:
                continue
            if not _makes_a_gang(ledger, awaited.claim.job):
                self._lose(ledger, key, awaited, "its gang is not complete any more")
            elif awaited.eviction is not None and not self._has_to_wait(ledger, awaited):
                awaited.since += 1
                if awaited.since > PATIENT_CYCLES:
                    message = (
                        f"{awaited.claim.task} was given a place on {awaited.claim.node} in cycle {awaited.cycle}, and "
                        f"has not started {PATIENT_CYCLES} cycles after the victims had left"
                    )
                    self._findings.add("evictions for a start", awaited.eviction, message)
                    del self._awaited[key]

    def _lose(self, ledger: Ledger, key: str, awaited: AwaitedStart, excuse: str) -> None:
        """A task lost its place for a reason that the log shows."""
        self.excused[excuse] += awaited.eviction is not None
        del self._awaited[key]
        _give_up(ledger, key)

    def _excuse(self, ledger: Ledger, awaited: AwaitedStart) -> str:
        task, node = ledger.tasks.get(awaited.claim.task), ledger.nodes.get(awaited.claim.node)
        if task is None or not task.status.unfinished:
            return "its pod is gone"
        if task.status is TaskStatus.PENDING:
            return "its bind failed"
        if node is None or not node.schedulable or node.spec != awaited.node:
            return "its node was lost or changed"
        if any(self._stays(ledger, victim) for victim in awaited.victims):
            if awaited.is_sure:
                return "the eviction failed"
            ledger.doubtful.add(awaited.claim.task)
        job = ledger.jobs.get(awaited.claim.job)
        if job is None or job.spec is None:
            return "its job is gone"
        path = ledger.path_of(job.key) or ()
        names = [ledger.accounts.queue_at(path[: depth + 1]) for depth in range(len(path))]
        queues = [ledger.queues[name] for name in names if name in ledger.queues]
        if not path or any(queue.state is not QueueState.OPEN for queue in queues):
            return "its queue does not start jobs"
        room = node.room(leaving=True, claims=True)
        if any(room[j] < 0 for j, amount in enumerate(task.spec.request) if amount):
            return "another pod took the room"
        return ""

    def _has_to_wait(self, ledger: Ledger, awaited: AwaitedStart) -> bool:
        """Whether its room is being freed, or that of another task without which its gang cannot start."""
        if self._room_is_being_freed(ledger, awaited):
            return True
        job = ledger.jobs[awaited.claim.job]
        if not job.lacks([*job.started, ledger.tasks[awaited.claim.task]]):
            return False
        mates = (other for other in self._awaited.values() if other.claim.job == job.key)
        return any(self._room_is_being_freed(ledger, mate) for mate in mates)

    def _room_is_being_freed(self, ledger: Ledger, awaited: AwaitedStart) -> bool:
        """Whether its victims still leave, or its node has no room for it while others there leave."""
        if any(self._leaves(ledger, each) for each in awaited.victims):
            return True
        task, node = ledger.tasks[awaited.claim.task], ledger.nodes[awaited.claim.node]
        if not any(self._leaves(ledger, each) for each in node.tasks):
            return False
        idle = node.room(leaving=False, claims=False)
        return any(amount > (idle[j] if j < len(idle) else 0) for j, amount in enumerate(task.spec.request))

    def _leaves(self, ledger: Ledger, victim: str) -> bool:
        task = ledger.tasks.get(victim)
        return task is not None and task.status is TaskStatus.RELEASING

    def _stays(self, ledger: Ledger, victim: str) -> bool:
        task = ledger.tasks.get(victim)
        return task is not None and task.status.held and not task.evicted and task.status is not TaskStatus.BINDING

    def _turn(self, ledger: Ledger, taking: Taking) -> None:
        """Whether the victims' job took from the preemptor in the same world, and both hold what they held before that.

        If one of them has got or lost something else in between, they took turns with others: that need not go on.
        """
        preemptor = taking.preemptor
        now = _held(ledger, preemptor)
        earlier_now = list(now)
        for claim in taking.claims:
            if claim.job == preemptor:
                add_to(earlier_now, ledger.tasks[claim.task].spec.request, -1)
        for eviction in taking.evictions:
            victim = eviction.job
            if victim == preemptor:
                continue
            left = _held(ledger, victim)
            before = self._taken.get((victim, preemptor))
            if (
                before is not None
                and before.world == ledger.world
                and _at_most(left, before.preemptor_held)
                and _at_most(before.victim_held, now)
            ):
                self._findings.add(
                    "no eviction cycles",
                    eviction,
                    f"{victim} evicted a task of {preemptor} in cycle {before.cycle}, both hold again what they held "
                    "before that, and nothing in the cluster has changed since",
                )
            had = list(left)
            for each in taking.evictions:
                if each.job == victim:
                    add_to(had, ledger.tasks[each.task].spec.request, 1)
            self._taken[preemptor, victim] = EarlierTaking(ledger.world, self._findings.cycle, earlier_now, had)


def _held(ledger: Ledger, key: str) -> list[int]:
    """What the tasks of a job ask for that hold a node or wait on one."""
    held: list[int] = []
    job = ledger.jobs.get(key)
    for task in job.tasks.values() if job is not None else ():
        if task.status.held:
            add_to(held, task.spec.request, 1)
    return held


def _at_most(amounts: Sequence[int], others: Sequence[int]) -> bool:
    return all(amount <= other for amount, other in zip_longest(amounts, others, fillvalue=0))


def _takes_a_gang(ledger: Ledger, taking: Taking) -> bool:
    """Whether a gang goes whole: several jobs may share its room (docs/fairness.md, section 9.8)."""
    jobs = [ledger.jobs[key] for key in {each.job for each in taking.evictions} if key in ledger.jobs]
    return any(
        job.spec is not None and job.spec.minimum > 1 and not any(task.status.held for task in job.tasks.values())
        for job in jobs
    )


def _give_up(ledger: Ledger, key: str) -> None:
    """Return a task that waits on a node to pending."""
    ledger.doubtful.discard(key)
    task = ledger.tasks.get(key)
    if task is not None and task.status is TaskStatus.PIPELINED:
        ledger.move(task, TaskStatus.PENDING, None)


def _makes_a_gang(ledger: Ledger, key: str) -> bool:
    """Whether the tasks of a job that run or wait on a node suffice for it to start or go on."""
    job = ledger.jobs.get(key)
    if job is None:
        return False
    waiting = [task for task in job.tasks.values() if task.status is TaskStatus.PIPELINED]
    return not job.lacks([*job.started, *waiting])
