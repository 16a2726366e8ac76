"""The rules about evictions: the victim may be evicted, its job and queue keep their minimum, and it is needed.

The decisions of a cycle tell a transaction as its evictions, then the places that the preemptors get for them.
docs/fairness.md, sections 9.7 to 9.9 and 10.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product

from pumice.audit.findings import Findings
from pumice.audit.ledger import Ledger
from pumice.audit.ledger_entries import LedgerTask, add_to, asks
from pumice.audit.log_lines import Decision
from pumice.audit.policy import AuditedPolicy
from pumice.audit.queue_accounts import lowest_common
from pumice.model.queue_tree import Path
from pumice.model.specs import FREE, TaskStatus, Vector

SYSTEM_NAMESPACE = "kube-system"
CRITICAL_CLASSES = ("system-cluster-critical", "system-node-critical")
FOR_OTHERS = ("reclaim", "preempt")
"""The actions that evict for a preemptor; others repair a gang or relieve a node."""
SLACK = 1000
"""Microseconds by which times of the log may be off."""
MOST_WAYS = 5000


@dataclass(slots=True)
class Taking:
    """One transaction: its evictions, and where those start for whom they are made.

    ``others`` get places right after it, before the next eviction. They may be placed in room that nobody waits for; or
    several jobs share the room of a gang that goes whole. The log does not tell which.
    """

    evictions: list[Decision] = field(default_factory=list)
    claims: list[Decision] = field(default_factory=list)
    others: list[Decision] = field(default_factory=list)
    end: int = 0  # the place of its last decision in the cycle

    @property
    def preemptor(self) -> str:
        """The job for which the tasks are evicted."""
        return self.evictions[0].preemptor


def takings_of(decisions: Iterable[Decision], ledger: Ledger, *, gangs: bool = True) -> list[Taking]:
    """The transactions of a cycle that evict somebody for somebody else; the ledger is that of before the cycle.

    A transaction ends when the preemptor has places for what it starts next: what its gang lacks, or a single task.
    """
    found: list[Taking] = []
    started: dict[str, dict[str, LedgerTask]] = {}  # by job, the tasks that hold a place
    wanted = 0
    for place, decision in enumerate(decisions):
        if decision.does == "evict":
            if decision.action in FOR_OTHERS:
                if not found or wanted < 0 or found[-1].claims or found[-1].preemptor != decision.preemptor:
                    found.append(Taking())
                    wanted = _next_start(ledger, _holding(ledger, started, decision.preemptor), decision, gangs=gangs)
                found[-1].evictions.append(decision)
                found[-1].end = place
            else:
                wanted = -1  # what follows has nothing to do with the transaction before
            _holding(ledger, started, decision.job).pop(decision.task, None)
        elif decision.does in ("pipeline", "bind"):
            if wanted > 0 and decision.job == found[-1].preemptor:
                found[-1].claims.append(decision)
                found[-1].end = place
                wanted -= 1
            elif found and wanted == 0:
                found[-1].others.append(decision)
            task = ledger.tasks.get(decision.task)
            if task is not None:
                _holding(ledger, started, decision.job)[decision.task] = task
    return found


def _holding(ledger: Ledger, known: dict[str, dict[str, LedgerTask]], key: str) -> dict[str, LedgerTask]:
    """The tasks of a job that hold a place, by the decisions of a cycle so far."""
    if key not in known:
        job = ledger.jobs.get(key)
        known[key] = {name: task for name, task in job.tasks.items() if task.status.held} if job is not None else {}
    return known[key]


def _next_start(ledger: Ledger, holding: Mapping[str, LedgerTask], eviction: Decision, *, gangs: bool) -> int:
    """How many tasks a job has to start together next, beside those that hold a place."""
    job = ledger.jobs.get(eviction.preemptor)
    return max(1, job.missing(list(holding.values()))) if job is not None and gangs else 1


class EvictionRules:
    """Checks the evictions of a cycle. ``checked`` counts them."""

    def __init__(self, ledger: Ledger, policy: AuditedPolicy, findings: Findings) -> None:
        self._ledger = ledger
        self._policy = policy
        self._findings = findings
        self.checked: Counter[str] = Counter()  # by action
        self.weighed = 0  # victims whose need was judged
        self._before: dict[str, Counter[str]] = {}  # jobs that lose tasks: how many of each role ran
        self._doubted: list[tuple[Taking, list[Decision], list[LedgerTask]]] = []  # victims that seem not to be needed

    # ---- before the decisions of a cycle are entered ---------------------------------------------------------------

    def before(self, decisions: Sequence[Decision]) -> dict[int, Taking]:
        """Check what the victims are when the cycle begins; returns the transactions by the place where they end."""
        self._before, self._doubted = {}, []
        for decision in decisions:
            if decision.does == "evict":
                self.checked[decision.action] += 1
                self._before.setdefault(decision.job, self._running(decision.job))
                if decision.action in FOR_OTHERS:
                    self._victim(decision)
        found = takings_of(decisions, self._ledger, gangs=self._policy.gangs)
        return {taking.end: taking for taking in found}

    def _victim(self, decision: Decision) -> None:
        task = self._ledger.tasks.get(decision.task)
        if task is None or not task.status.has_node or task.status is TaskStatus.PIPELINED:
            self._findings.add("legal evictions", decision, "the task does not run")
            return
        if task.status is TaskStatus.RELEASING:
            self._findings.add("legal evictions", decision, "the task is being deleted already")
        spec = task.spec
        if spec.namespace == SYSTEM_NAMESPACE or spec.priority_class in CRITICAL_CLASSES:
            self._findings.add("legal evictions", decision, "the task is critical for the system, and never a victim")
        if not self._ledger.preemptable(task):
            self._findings.add("legal evictions", decision, "the task is protected: preemptable is false")
        ran = self._findings.now - task.started
        if decision.action == "reclaim" and task.started and ran < self._policy.min_runtime - SLACK:
            least = self._policy.min_runtime / 1e6
            self._findings.add(
                "legal evictions",
                decision,
                f"the task has run for {ran / 1e6:g} s, and is protected for {least:g} s (reclaim.minRuntime)",
            )
        self._queues(decision)

    def _queues(self, decision: Decision) -> None:
        ours, theirs = (self._queue(job) for job in (decision.preemptor, decision.job))
        if ours is None or theirs is None:
            return
        if decision.action == "preempt" and ours != theirs:
            self._findings.add("legal evictions", decision, f"preempt stays in queue {ours}, the victim is in {theirs}")
        path, from_ = self._ledger.path_of(decision.preemptor), self._ledger.path_of(decision.job)
        if decision.action != "reclaim" or path is None or from_ is None:
            return
        for depth in range(len(from_), len(lowest_common(path, from_)), -1):
            queue = self._ledger.queues.get(self._ledger.accounts.queue_at(from_[:depth]) or "")
            if queue is not None and not queue.reclaimable:
                self._findings.add("legal evictions", decision, f"queue {queue.name} is not reclaimable")

    # ---- when a transaction is entered, and when all decisions of a cycle are --------------------------------------

    def took(self, taking: Taking) -> None:
        """Check that a transaction has a start, and needed all of its victims; later ones are not entered yet."""
        if not taking.claims:
            message = f"no task of {taking.preemptor} gets a place after it in this cycle"
            self._findings.add("evictions for a start", taking.evictions[0], message)
        else:
            self._all_needed(taking)

    def after(self, decisions: Sequence[Decision]) -> None:
        """Check what the victims' jobs and queues are left with, and who was not needed when all is decided."""
        for taking, claims, group in self._doubted:
            self._judge_need(taking, claims, group)
        evictions = [each for each in decisions if each.does == "evict" and each.action in FOR_OTHERS]
        for job, eviction in {each.job: each for each in evictions}.items():
            own = any(each.job == job == each.preemptor for each in evictions)
            starting = {each.task for each in decisions if own and each.does == "pipeline" and each.job == job}
            self._minimum_kept(job, eviction, starting)
        for eviction in evictions if self._policy.limited else ():
            if eviction.action == "reclaim":
                self._guarantee_kept(eviction)

    def _minimum_kept(self, key: str, eviction: Decision, starting: Container[str]) -> None:
        """``starting``: tasks of the job itself that start in place of evicted ones."""
        job = self._ledger.jobs.get(key)
        if job is None or job.spec is None or not self._policy.gangs:
            return
        left, before = self._running(key, starting), self._before[key]
        if not any(task.status.held and task.status is not TaskStatus.PIPELINED for task in job.tasks.values()):
            return  # it goes whole; in the same cycle it may have been given places again
        if before.total() >= job.spec.min_member > left.total():
            message = f"job {key} is left with {left.total()} of at least {job.spec.min_member} tasks"
            self._findings.add("whole gangs", eviction, message)
        for role, least in job.spec.min_task_member.items():
            if before[role] >= least > left[role]:
                message = f"job {key} is left with {left[role]} of at least {least} tasks of role {role}"
                self._findings.add("whole gangs", eviction, message)

    def _guarantee_kept(self, eviction: Decision) -> None:
        task = self._ledger.tasks.get(eviction.task)
        ours, theirs = self._ledger.path_of(eviction.preemptor), self._ledger.path_of(eviction.job)
        if task is None or ours is None or theirs is None:
            return
        accounts = self._ledger.accounts
        for depth in range(len(theirs), len(lowest_common(ours, theirs)), -1):
            path = theirs[:depth]
            queue = self._ledger.queues.get(accounts.queue_at(path) or "")
            for j, least in queue.guarantee if queue is not None else ():
                left = accounts.held(path)[j]
                if j in asks(task.spec.request) and left < least:
                    had, kept = self._ledger.amount_text(j, least), self._ledger.amount_text(j, left)
                    message = f"queue {path[-1]} is guaranteed {had}, and is left with {kept}"
                    self._findings.add("guarantees", eviction, message)

    # ---- minimal ---------------------------------------------------------------------------------------------------

    def _all_needed(self, taking: Taking) -> None:
        """Whether the units would not have their places with a victim back (of a gang that went whole: all of it).

        Who seems not to be needed is judged again at the end of the cycle: a task may have been bound when it was
        decided, and its room given to another one later, while the log tells nothing of that bind.
        """
        own = [claim for claim in taking.claims if claim.job == taking.preemptor]
        tasks = [self._ledger.tasks.get(claim.task) for claim in own]
        if not own or any(task is None or task.spec.constraints.coupled for task in tasks):
            return  # pods that depend on other pods: room is not all that counts
        if "proportion" in self._policy.plugins:
            return  # a queue stays within what it deserves: its victims may make way for that, not for room
        job = self._ledger.jobs.get(taking.preemptor)
        if job is None or job.spec is None or job.spec.topology is not None or self._limits_users(job.spec.queue):
            return
        for group in self._groups(taking):
            self.weighed += 1
            if self._is_spare(taking.preemptor, own, group):
                self._doubted.append((taking, own, group))

    def _is_spare(self, preemptor: str, own: Sequence[Decision], group: Sequence[LedgerTask]) -> bool:
        return self._fits_beside(own, group) and self._allowed_beside(preemptor, own, group)

    def _judge_need(self, taking: Taking, own: Sequence[Decision], group: Sequence[LedgerTask]) -> None:
        if self._is_spare(taking.preemptor, own, group):
            names = ", ".join(task.spec.key for task in group)
            eviction = next(each for each in taking.evictions if each.task == group[0].spec.key)
            message = f"{taking.preemptor} would have its places if {names} had stayed"
            self._findings.add("minimal evictions", eviction, message)

    def _groups(self, taking: Taking) -> list[list[LedgerTask]]:
        """Victims that go or stay together: tasks one by one, jobs that went whole as one."""
        by_job: dict[str, list[LedgerTask]] = {}
        for eviction in taking.evictions:
            if eviction.task in self._ledger.tasks:
                by_job.setdefault(eviction.job, []).append(self._ledger.tasks[eviction.task])
        found: list[list[LedgerTask]] = []
        for key, tasks in by_job.items():
            job = self._ledger.jobs[key]
            whole = not any(task.status.held for task in job.tasks.values())
            together = whole and job.spec is not None and job.spec.minimum > 1
            if together and job.spec is not None and self._before[key].total() < job.spec.minimum:
                continue  # other tasks of it started and were withdrawn in this cycle, which the log does not tell
            found += [tasks] if together else [[task] for task in tasks]
        return found

    def _fits_beside(self, own: Sequence[Decision], group: Sequence[LedgerTask]) -> bool:
        rooms = {claim.node: self._ledger.nodes[claim.node].room(leaving=True, claims=True) for claim in own}
        for task in group:
            if task.node in rooms:
                add_to(rooms[task.node], task.spec.request, -1)
        if all(amount >= 0 for room in rooms.values() for amount in room):
            return True
        claims = [self._ledger.tasks[claim.task] for claim in own]
        others = self._ledger.tasks.values()
        if any(task.spec.constraints != FREE for task in claims) or any(t.spec.constraints.coupled for t in others):
            return False  # they may not be exchanged between nodes, or pods that run keep them from some
        for claim, task in zip(own, claims, strict=True):
            add_to(rooms[claim.node], task.spec.request, 1)
        return fits([task.spec.request for task in claims], rooms)

    def _allowed_beside(self, preemptor: str, own: Sequence[Decision], group: Sequence[LedgerTask]) -> bool:
        """Whether no limit of a queue needs these victims to go."""
        path = self._ledger.path_of(preemptor)
        if not self._policy.limited or path is None:
            return True
        extra: dict[Path, dict[int, int]] = {}
        for task in group:
            theirs = self._ledger.path_of(task.spec.job or "")
            for j in asks(task.spec.request) if theirs is not None else ():
                here = extra.setdefault(theirs or (), {})
                here[j] = here.get(j, 0) + task.spec.request[j]
        asked = sorted({j for claim in own for j in asks(self._ledger.tasks[claim.task].spec.request)})
        return self._ledger.accounts.beyond_limit(path, asked, extra) is None

    def _limits_users(self, name: str) -> bool:
        queue = self._ledger.queues.get(name)
        return queue is not None and (queue.user_limit_factor, queue.min_user_limit_percent) != (None, None)

    def _queue(self, key: str) -> str | None:
        job = self._ledger.jobs.get(key)
        return job.spec.queue if job is not None and job.spec is not None else None

    def _running(self, key: str, starting: Container[str] = ()) -> Counter[str]:
        """How many tasks of a job, by role, run or have succeeded; of those that wait on a node, only ``starting``."""
        job = self._ledger.jobs.get(key)
        tasks = job.tasks.values() if job is not None else ()
        counted = (TaskStatus.BINDING, TaskStatus.BOUND, TaskStatus.RUNNING, TaskStatus.SUCCEEDED)
        return Counter(task.spec.role for task in tasks if task.status in counted or task.spec.key in starting)


def fits(requests: Sequence[Vector], rooms: Mapping[str, Sequence[int]]) -> bool:
    """Whether these find places in this room, tried in every way (if these are too many: first fit, largest first)."""
    if len(rooms) ** len(requests) > MOST_WAYS:
        left = {name: list(room) for name, room in rooms.items()}
        return all(_place(request, left) for request in sorted(requests, reverse=True))
    for way in product(rooms, repeat=len(requests)):
        left = {name: list(room) for name, room in rooms.items()}
        for name, request in zip(way, requests, strict=True):
            add_to(left[name], request, -1)
        if all(amount >= 0 for name in set(way) for amount in left[name]):
            return True
    return False


def _place(request: Vector, rooms: Mapping[str, list[int]]) -> bool:
    for room in rooms.values():
        if all(j < len(room) and room[j] >= amount for j, amount in enumerate(request) if amount):
            add_to(room, request, -1)
            return True
    return False
