"""What waits: for every job the unit that it could start next, and whether idle room on the nodes could take it.

A unit is all that a gang lacks, or one task of a job that has started (docs/fairness.md, section 1.2). Only constraints
that a node fulfils by itself are judged here: labels, taints, readiness. Constraints between pods are not.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from kubebase.label_selector import meets
from pumice.audit.ledger import Ledger
from pumice.audit.ledger_entries import LedgerJob, LedgerNode, LedgerTask, add_to
from pumice.audit.policy import AuditedPolicy
from pumice.model.queue_tree import Path
from pumice.model.specs import Constraints, JobPhase, QueueState, Taint, Toleration, Vector


@dataclass(frozen=True, slots=True)
class WaitingUnit:
    """What a job could start next."""

    job: str
    path: Path
    total: tuple[int, ...]
    tasks: tuple[tuple[Vector, Constraints], ...]
    barred: str = ""  # why it may not start whatever room there is

    @property
    def coupled(self) -> bool:
        """Whether the place of other pods decides where it fits."""
        return any(each.coupled or each.volumes is not None for _, each in self.tasks)


def waiting_units(ledger: Ledger, policy: AuditedPolicy) -> list[WaitingUnit]:
    """The next unit of every job that has waiting tasks."""
    found = []
    for job in ledger.jobs.values():
        waiting = job.waiting
        path = ledger.path_of(job.key) if waiting else None
        if path is None or job.spec is None:
            continue
        tasks = _unit(job, waiting) if policy.gangs else waiting[:1]
        total: list[int] = []
        for task in tasks:
            add_to(total, task.spec.request, 1)
        needs = tuple((task.spec.request, task.spec.constraints) for task in tasks)
        found.append(WaitingUnit(job.key, path, tuple(total), needs, _barred(ledger, policy, job, path)))
    return found


def _unit(job: LedgerJob, waiting: Sequence[LedgerTask]) -> list[LedgerTask]:
    """The smallest tasks that are still missing to its gang, the roles' first; one task of a job that has started."""
    assert job.spec is not None
    small = sorted(waiting, key=lambda task: (sum(task.spec.request), task.spec.key))
    held = [task for task in job.tasks.values() if task.status.held]
    chosen: list[LedgerTask] = []
    for role, least in job.spec.min_task_member.items():
        there = sum(task.spec.role == role for task in (*held, *job.succeeded))
        chosen += [task for task in small if task.spec.role == role][: max(0, least - there)]
    rest = (task for task in small if task not in chosen)
    while len(held) + len(chosen) < max(job.gang, 1) and (task := next(rest, None)) is not None:
        chosen.append(task)
    return chosen or small[:1]


def _barred(ledger: Ledger, policy: AuditedPolicy, job: LedgerJob, path: Path) -> str:
    """Why a job may not start now: it was not let in, its pods are missing, or its queue is not open."""
    assert job.spec is not None
    if job.phase is JobPhase.PENDING and "enqueue" in policy.actions:
        return "not let in"
    if policy.gangs and len(job.succeeded) + sum(t.status.unfinished for t in job.tasks.values()) < job.spec.minimum:
        return "not let in"
    for depth in range(1, len(path) + 1):
        queue = ledger.queues.get(ledger.accounts.queue_at(path[:depth]) or "")
        if queue is not None and queue.state is not QueueState.OPEN:
            return "not let in"
        if queue is not None and (queue.affinity is not None or job.spec.topology is not None):
            return "placement rules"
        if queue is not None and queue.fifo:
            return "first come first served"
    return ""


def fits_now(unit: WaitingUnit, nodes: Iterable[LedgerNode]) -> bool:
    """Whether every task of a unit finds idle room, first fit with the largest first."""
    return _fits(unit, [(node, node.free()) for node in nodes if node.schedulable], labels=True)


def fits_empty(unit: WaitingUnit, nodes: Iterable[LedgerNode], *, labels: bool) -> bool:
    """Whether every task of a unit would find room on empty nodes."""
    usable = [(node, node.spec.allocatable) for node in nodes if node.schedulable and node.spec is not None]
    return _fits(unit, usable, labels=labels)


def _fits(unit: WaitingUnit, nodes: Sequence[tuple[LedgerNode, Sequence[int]]], *, labels: bool) -> bool:
    left: dict[str, list[int]] = {}
    for request, constraints in sorted(unit.tasks, key=lambda need: need[0], reverse=True):
        for node, offers in nodes:
            room = left.get(node.name) or offers
            has_room = all(j < len(room) and room[j] >= amount for j, amount in enumerate(request) if amount)
            if has_room and (not labels or _admits(node, constraints)):
                left[node.name] = list(room)
                add_to(left[node.name], request, -1)
                break
        else:
            return False
    return True


def _admits(node: LedgerNode, constraints: Constraints) -> bool:
    """Whether labels and taints of a node let a pod in."""
    spec = node.spec
    if spec is None or any(spec.labels.get(key) != value for key, value in constraints.node_selector):
        return False
    terms = constraints.node_required
    if terms is not None and not any(
        meets(term.labels, spec.labels) and meets(term.fields, {"metadata.name": spec.name}) for term in terms
    ):
        return False
    hard = [taint for taint in spec.taints if taint.effect in ("NoSchedule", "NoExecute")]
    return all(any(_tolerates(each, taint) for each in constraints.tolerations) for taint in hard)


def _tolerates(toleration: Toleration, taint: Taint) -> bool:
    if toleration.effect and toleration.effect != taint.effect:
        return False
    if toleration.operator == "Exists":
        return not toleration.key or toleration.key == taint.key
    return toleration.key == taint.key and toleration.value == taint.value
