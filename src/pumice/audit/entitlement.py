"""Computes the entitlements of queues anew, slowly and exactly, and compares them with those that the log records.

docs/fairness.md, section 3.1. The fluid of ``exact_fluid`` takes time that grows with the square of the tree, so not
every cycle is computed: only cycles whose targets were solved, small enough, and at most one in ``APART`` after the
first few. What the computation does not model (jobs of unlike tasks, limits of users ...) is counted and said.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from kubebase.resource_vector import PODS
from pumice.audit.exact_fluid import exact_fluid
from pumice.audit.findings import Findings
from pumice.audit.ledger import Ledger
from pumice.audit.ledger_entries import LedgerJob, add_to, asks
from pumice.audit.policy import SECOND, AuditedPolicy
from pumice.audit.waiting_units import WaitingUnit, fits_empty, waiting_units
from pumice.model.queue_tree import Path
from pumice.model.specs import QueueState, TaskStatus

MOST_NODES = 40
"""Larger trees are not computed."""
BUDGET = 1000
"""The most nodes that are computed in one audit, all computations together."""
FIRST, APART = 25, 60 * SECOND
"""So many are computed one after another; after that there is some time between two."""
TOLERANCE = 1e-6
"""Parts of the cluster by which a recorded entitlement may differ, beside a unit of rounding."""


@dataclass(slots=True)
class _Fluid:
    """The arguments of ``exact_fluid``: inner nodes first, then leaves."""

    parent: list[int] = field(default_factory=list)
    weight: list[Fraction] = field(default_factory=list)
    path: list[Path] = field(default_factory=list)  # of each inner node its queue
    leaves: list[tuple[int, tuple[int, ...], int, int, int]] = field(default_factory=list)
    """The parent of each leaf, its request, its tasks, its class and how many equal jobs it stands for."""


class EntitlementCheck:
    """Compares entitlements, and counts why some were left out."""

    def __init__(self, findings: Findings) -> None:
        self._findings = findings
        self._ledger = Ledger(())
        self._policy: AuditedPolicy | None = None
        self._recorded: dict[Path, list[int]] = {}
        self._last = 0
        self._spent = 0
        self.halted = False  # whether some queue stopped for a reason that is not computed here
        self.recomputed = 0
        self.skipped: Counter[str] = Counter()

    def begin(self, ledger: Ledger, policy: AuditedPolicy) -> None:
        """A new file."""
        self._ledger, self._policy, self._recorded, self.halted = ledger, policy, {}, False

    def solved(self, entitled: dict[str, list[int]]) -> None:
        """Entitlements were recorded: compare them, if it is their turn."""
        self._recorded |= {tuple(path.split("/")): amounts for path, amounts in entitled.items()}
        now = self._findings.now
        if self.recomputed >= FIRST and now - self._last < APART:
            self.skipped["too soon after the one before"] += 1
            return
        assert self._policy is not None
        reason = self._unmodelled()
        units = waiting_units(self._ledger, self._policy) if not reason else []
        reason = reason or self._unmodelled_unit(units)
        fluid = self._tree({unit.job: unit for unit in units}) if not reason else _Fluid()
        size = len(fluid.parent) + len(fluid.leaves)
        if not reason and size > MOST_NODES:
            reason = f"more than {MOST_NODES} queues and kinds of jobs"
        if not reason and self._spent + size > BUDGET:
            reason = "enough were computed"
        if reason:
            self.skipped[reason] += 1
            return
        self._last = now
        self._spent += size
        self.recomputed += 1
        self._compare(fluid)

    # ---- what is computed ------------------------------------------------------------------------------------------

    def _unmodelled(self) -> str:
        """Why this cycle cannot be computed; "" if it can."""
        ledger, policy = self._ledger, self._policy
        assert policy is not None
        if policy.order != "steer":
            return f"the order of queues is {policy.order}"
        if policy.unmodelled:
            return policy.unmodelled
        if self.halted:
            return "a queue was halted"
        for queue in ledger.queues.values():
            if (queue.user_limit_factor, queue.min_user_limit_percent) != (None, None):
                return "a queue limits its users"
            if queue.fifo:
                return "a queue is first come first served"
        for job in ledger.jobs.values():
            if job.spec is None or ledger.path_of(job.key) is None:
                continue
            reason = self._unmodelled_job(job)
            if reason:
                return reason
        return self._contradiction()

    def _unmodelled_job(self, job: LedgerJob) -> str:
        assert job.spec is not None
        again = job.to_come_again
        if not self._ledger.awaits and (again or any(job.successors.values())):
            return "evicted pods are being replaced"
        open_tasks = [task for task in job.tasks.values() if task.status.unfinished]
        requests = [*(task.spec.request for task in open_tasks), *(spec.request for spec in again)]
        if len({tuple(request) for request in requests}) > 1:
            return "a job has unlike tasks"
        total = [sum(amounts) for amounts in zip(*requests, strict=True)]
        least = job.spec.min_resources
        if any(n > (total[j] if j < len(total) else 0) for j, n in enumerate(least) if j != PODS):
            return "pods of a job are still to be created"
        if any(task.spec.constraints.coupled or task.spec.constraints.volumes for task in open_tasks):
            return "pods depend on other pods or on volumes"
        return ""

    def _unmodelled_unit(self, units: Iterable[WaitingUnit]) -> str:
        """A gang whose pods were ever kept away by others counts as demand even where empty nodes could not hold it.

        The engine remembers who keeps whom away after the pods are gone, and judges such gangs by an attempt only.
        """
        nodes = self._ledger.nodes.values()
        gangs = [unit for unit in units if len(unit.tasks) > 1] if self._ledger.repelling else []
        if any(not fits_empty(unit, nodes, labels=False) for unit in gangs):
            return "a gang may depend on pods that are gone, and fits no empty nodes"
        return ""

    def _contradiction(self) -> str:
        """Amounts that do not fit together are cut in proportion, which is not computed here."""
        accounts = self._ledger.accounts
        capacity = accounts.capacity
        for path in accounts.paths:
            sums: Counter[int] = Counter()
            for child in accounts.children(path):
                queue = self._ledger.queues.get(accounts.queue_at(child) or "")
                for j, amount in {**dict(queue.guarantee), **dict(queue.deserved)}.items() if queue else ():
                    sums[j] += amount
            if any(j >= len(capacity) or amount > capacity[j] for j, amount in sums.items()):
                return "guarantees or deserved amounts exceed the cluster"
            if sums and len(path) > 1:
                return "guarantees or deserved amounts at several levels"
        return ""

    def _tree(self, units: Mapping[str, WaitingUnit]) -> _Fluid:
        ledger, policy = self._ledger, self._policy
        assert policy is not None
        accounts, fluid = ledger.accounts, _Fluid()
        places: dict[tuple[str, ...], int] = {}
        for path in accounts.paths:
            places[path] = len(fluid.parent)
            fluid.parent.append(places[path[:-1]] if len(path) > 1 else -1)
            fluid.weight.append(accounts.exact_weight(path))
            fluid.path.append(path)
        priorities = sorted({self._priority(job) for job in ledger.jobs.values()}, reverse=True)
        groups: Counter[tuple[int, tuple[int, ...], int, int]] = Counter()
        for job in ledger.jobs.values():
            leaf = ledger.path_of(job.key)
            if leaf is None or job.spec is None:
                continue
            request, tasks = self._demand(job, units.get(job.key))
            if not tasks or not request:
                continue
            above = places[leaf]
            if policy.namespaces:
                above = self._namespace(fluid, places, leaf, job.spec.namespace)
            rank = priorities.index(self._priority(job)) if policy.priorities else 0
            groups[(above, request, tasks, rank)] += 1
        fluid.leaves = [(above, request, tasks, rank, n) for (above, request, tasks, rank), n in groups.items()]
        return fluid

    def _namespace(self, fluid: _Fluid, places: dict[tuple[str, ...], int], path: Path, name: str) -> int:
        key = (*path, "", name)
        if key not in places:
            quotas = self._ledger.quotas.values()
            said = [quota.weight for quota in quotas if quota.namespace == name and quota.weight]
            places[key] = len(fluid.parent)
            fluid.parent.append(places[path])
            fluid.weight.append(Fraction(max(said, default=1)))
            fluid.path.append(path)
        return places[key]

    def _demand(self, job: LedgerJob, unit: WaitingUnit | None) -> tuple[tuple[int, ...], int]:
        """What a task of a job asks for, and how many tasks count: those that hold, and those that could ever start."""
        if not self._may_run_again(job):
            return (), 0
        holding = [task for task in job.tasks.values() if task.status.held]
        waiting = [task for task in job.tasks.values() if task.status is TaskStatus.PENDING]
        capacity = self._ledger.accounts.capacity
        counted = len(holding)
        if unit is not None and self._can_start(job, unit):
            counted += len(waiting) + len(job.to_come_again)
        elif unit is None and self._is_open(self._ledger.path_of(job.key) or ()):
            counted += len(job.to_come_again)
        requests = [
            *(task.spec.request for task in (*holding, *waiting)),
            *(spec.request for spec in job.to_come_again),
        ]
        request = requests[0] if requests else ()
        if not asks(request) or any(j >= len(capacity) or not capacity[j] for j in asks(request)):
            return (), 0
        return tuple(request), counted

    def _may_run_again(self, job: LedgerJob) -> bool:
        """Whether the limits of its queue and of those above would let a job start if none of its tasks ran."""
        ledger, policy = self._ledger, self._policy
        assert policy is not None and job.spec is not None
        path = ledger.path_of(job.key)
        if path is None or not policy.limited:
            return True
        tasks = [task.spec for task in job.tasks.values() if task.status.unfinished] + job.to_come_again
        together = max(1, job.spec.minimum - len(job.succeeded)) if policy.gangs else 1
        least: list[int] = []
        for spec in tasks[:together]:  # all ask alike
            add_to(least, spec.request, 1)
        accounts = ledger.accounts
        return not any(
            least[j] > most[j] < accounts.capacity[j]
            for most in (accounts.most(path[:depth]) for depth in range(2, len(path) + 1))
            for j in asks(least)
        )

    def _can_start(self, job: LedgerJob, unit: WaitingUnit) -> bool:
        ledger, policy = self._ledger, self._policy
        assert policy is not None and job.spec is not None
        if not self._is_open(unit.path):
            return False
        if policy.limited:
            for depth in range(len(unit.path), 0, -1):
                most = ledger.accounts.most(unit.path[:depth])
                if any(unit.total[j] > most[j] for j in asks(unit.total)):
                    return False
        return fits_empty(unit, ledger.nodes.values(), labels="predicates" in policy.plugins)

    def _is_open(self, path: Path) -> bool:
        """Whether the queue at a path and all above it accept work."""
        names = [self._ledger.accounts.queue_at(path[: depth + 1]) for depth in range(len(path))]
        return all(self._ledger.queues[name].state is QueueState.OPEN for name in names if name in self._ledger.queues)

    def _priority(self, job: LedgerJob) -> int:
        classes = self._ledger.classes
        default = max(((c.value, c.name) for c in classes.values() if c.default), default=(0, ""))[0]
        if job.spec is not None and job.spec.priority_class in classes:
            return classes[job.spec.priority_class].value
        unfinished = [task.spec for task in job.tasks.values() if task.status.unfinished]
        found = [
            spec.priority
            if spec.priority is not None
            else classes[spec.priority_class].value
            if spec.priority_class in classes
            else default
            for spec in unfinished or job.to_come_again
        ]
        return max(found, default=default)

    # ---- and compared ----------------------------------------------------------------------------------------------

    def _compare(self, fluid: _Fluid) -> None:
        accounts = self._ledger.accounts
        capacity = accounts.capacity
        found = self._computed(fluid, capacity)
        for path, amounts in found.items():
            recorded = self._recorded.get(path)
            if recorded is None:
                continue
            for j, exact in enumerate(amounts):
                said = recorded[j] if j < len(recorded) else 0
                if abs(said - exact) > 1 + TOLERANCE * capacity[j]:
                    text = self._ledger.amount_text
                    self._findings.add(
                        "entitlement",
                        None,
                        f"queue {path[-1]} ({'/'.join(path)}) is recorded to be entitled to {text(j, said)}, and is "
                        f"entitled to {text(j, float(exact))}",
                    )

    def _computed(self, fluid: _Fluid, capacity: list[int]) -> dict[Path, list[Fraction]]:
        used = sorted({j for _, request, *_ in fluid.leaves for j in asks(request)})
        inner = len(fluid.parent)
        tasks = (
            exact_fluid(
                [*fluid.parent, *(above for above, *_ in fluid.leaves)],
                [*fluid.weight, *(Fraction(n) for *_, n in fluid.leaves)],
                range(inner, inner + len(fluid.leaves)),
                [[_part(request, capacity, j) for j in used] for _, request, *_ in fluid.leaves],
                [Fraction(count * n) for _, _, count, _, n in fluid.leaves],
                [rank for *_, rank, _ in fluid.leaves],
                ceiling=self._bounds(fluid, used, capacity, "ceiling"),
                guarantee=self._bounds(fluid, used, capacity, "guarantee"),
                deserved=self._bounds(fluid, used, capacity, "deserved"),
            )
            if fluid.leaves
            else []
        )
        found = {path: [Fraction(0)] * len(capacity) for path in fluid.path}
        for (above, request, *_), count in zip(fluid.leaves, tasks, strict=True):
            path = fluid.path[above]
            for depth in range(1, len(path) + 1):
                for j in asks(request):
                    found[path[:depth]][j] += count * request[j]
        return found

    def _bounds(self, fluid: _Fluid, used: list[int], capacity: list[int], what: str) -> dict[int, list[Any]]:
        """The limits of queues as parts of the cluster."""
        found: dict[int, list[Any]] = {}
        assert self._policy is not None
        accounts = self._ledger.accounts
        for number, path in enumerate(fluid.path[: len(accounts.paths)]):
            queue = self._ledger.queues.get(accounts.queue_at(path) or "")
            if len(path) == 1 or not self._policy.limited:
                continue
            if what == "ceiling":
                most = accounts.most(path)
                found[number] = [Fraction(most[j], capacity[j]) if most[j] < capacity[j] else None for j in used]
            elif queue is not None:
                named = dict(queue.guarantee)
                if what == "deserved":
                    for j, amount in queue.deserved:
                        named[j] = min(max(amount, named.get(j, 0)), accounts.most(path)[j])
                absent = Fraction(0) if what == "guarantee" else None
                if any(j in named for j in used):
                    found[number] = [Fraction(named[j], capacity[j]) if j in named else absent for j in used]
        return found


def _part(request: Sequence[int], capacity: Sequence[int], j: int) -> Fraction:
    """The part of the cluster's resource that a request asks for."""
    return Fraction(request[j], capacity[j]) if j < len(request) else Fraction(0)
