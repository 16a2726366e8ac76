"""By how much queues were below their entitlement, over time, and the reason.

The shortfall of a queue is what it is entitled to and does not hold, as the largest part of the cluster over all
resources; added up over time it is cluster-seconds. The entitlement is the recorded one, which ``entitlement`` checks.
Every cycle counts; reasons are looked for in the first cycle of every second, because that takes a look at every job.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from kubebase.resource_vector import PODS
from pumice.audit.findings import Findings
from pumice.audit.ledger import Ledger
from pumice.audit.ledger_entries import asks
from pumice.audit.policy import SECOND, AuditedPolicy
from pumice.audit.waiting_units import WaitingUnit, fits_now, waiting_units
from pumice.model.queue_tree import Path
from pumice.model.specs import TaskStatus

NONE = "none"
REASONS = (
    "no demand",
    "not let in",
    "whole tasks",
    "does not fit",
    "room is being freed",
    "patience",
    "brakes",
    "placement rules",
    "first come first served",
    "limits",
    "kept for others",
    NONE,
)
"""Why a queue is below its entitlement, the last of those that apply to what waits below it.

no demand: nothing waits. not let in: jobs wait to be admitted, or their queue is closed. whole tasks: less is missing
than the smallest unit that waits. does not fit: no node has the room. room is being freed: victims are leaving.
patience: it has not been short for long enough to evict. brakes: tasks that started a short time ago are protected.
kept for others: somebody who waits longer may have room reserved. none: it could start, and did not.
"""
SMALLEST = 1e-6
"""Parts of the cluster below this are rounding."""
LOOKS, LASTS = 5, 5 * SECOND
"""A shortfall without a reason that is seen so often in a row, over so much time, is a finding."""


@dataclass(slots=True)
class QueueShortfall:
    """The shortfall of a queue; amounts are parts of the cluster times seconds."""

    path: Path
    seconds: float = 0.0
    entitled: float = 0.0
    held: float = 0.0
    short: dict[str, float] = field(default_factory=dict)  # by reason
    worst: float = 0.0  # the largest part of the cluster that was missing at a time

    @property
    def total(self) -> float:
        """With and without a reason."""
        return sum(self.short.values())


@dataclass(slots=True)
class _Unexplained:
    """A shortfall for which no reason was found, look after look."""

    since: int
    looks: int = 0
    reported: bool = False


@dataclass(slots=True)
class _Now:
    """A queue as it stands."""

    entitled: float
    held: float
    short: float
    reason: str


class Shortfall:
    """Adds up the shortfall of every queue."""

    def __init__(self, findings: Findings) -> None:
        self._findings = findings
        self._ledger: Ledger | None = None
        self._policy: AuditedPolicy | None = None
        self._entitled: dict[Path, list[int]] = {}
        self._now: dict[Path, _Now] = {}
        self._last = 0
        self._seen: tuple[int, int, int] | None = None
        self._looked = 0
        self._short_since: dict[Path, int] = {}
        self._unexplained: dict[Path, _Unexplained] = {}
        self._waits_since: dict[str, int] = {}  # by job
        self._version = 0
        self._brake = ""
        self._longest_wait: list[int] = []  # since when the two jobs wait that have waited longest
        self._reasons: dict[Path, str] = {}
        self.queues: dict[str, QueueShortfall] = {}

    def begin(self, ledger: Ledger, policy: AuditedPolicy) -> None:
        """A new file."""
        self._ledger, self._policy, self._seen = ledger, policy, None

    def solved(self, entitled: dict[str, list[int]]) -> None:
        """Entitlements were recorded."""
        self._entitled |= {tuple(path.split("/")): amounts for path, amounts in entitled.items()}
        self._version += 1

    def pass_time(self, now: int) -> None:
        """Until now everything stood as it was."""
        seconds, self._last = (now - self._last) / SECOND if self._last else 0.0, now
        if seconds <= 0:
            return
        for path, stands in self._now.items():
            queue = self.queues.setdefault("/".join(path), QueueShortfall(path))
            queue.seconds += seconds
            queue.entitled += stands.entitled * seconds
            queue.held += stands.held * seconds
            queue.worst = max(queue.worst, stands.short)
            if stands.short:
                queue.short[stands.reason] = queue.short.get(stands.reason, 0.0) + stands.short * seconds

    def look(self, now: int) -> None:
        """After a cycle: how every queue stands."""
        ledger = self._ledger
        if ledger is None or not self._entitled:
            return
        seen = (ledger.moves, ledger.world, self._version)
        again = bool(self._short_since) and now - self._looked >= SECOND
        if seen == self._seen and not again:
            return
        self._seen = seen
        accounts = ledger.accounts
        capacity = accounts.capacity
        counted = [j for j, amount in enumerate(capacity) if amount > 0 and j != PODS]
        self._now, short = {}, {}
        for path in accounts.paths:
            due = self._entitled.get(path)
            if due is None:
                continue
            held = accounts.held(path)
            lacks = {j: due[j] - _at(held, j) for j in counted if j < len(due)}
            parts = {j: lack / capacity[j] for j, lack in lacks.items() if lack > SMALLEST * capacity[j]}
            entitled = max((due[j] / capacity[j] for j in lacks), default=0.0)
            holds = max((_at(held, j) / capacity[j] for j in counted), default=0.0)
            self._now[path] = _Now(entitled, holds, max(parts.values(), default=0.0), "")
            if parts:
                short[path] = lacks
        self._short_since = {path: self._short_since.get(path, now) for path in short}
        if not short:
            self._unexplained = {}
            return
        if again or any(path not in self._reasons for path in short):
            self._explain(short, now)
        for path in short:
            self._now[path].reason = self._reasons.get(path, "no demand")

    def _explain(self, short: dict[Path, dict[int, int]], now: int) -> None:
        assert self._ledger is not None and self._policy is not None
        self._looked = now
        units = waiting_units(self._ledger, self._policy)
        self._waits_since = {unit.job: self._waits_since.get(unit.job, now) for unit in units}
        self._longest_wait = sorted(self._waits_since.values())[:2]
        self._brake = self._no_room_for_all(now)
        answers: dict[object, str] = {}
        self._reasons = {}
        for path, lacks in short.items():
            found = [self._reason(unit, path, lacks, now, answers) for unit in units if unit.path[: len(path)] == path]
            self._reasons[path] = max(found, key=REASONS.index, default="no demand")
        before = self._unexplained
        self._unexplained = {
            path: before.get(path) or _Unexplained(now) for path, reason in self._reasons.items() if reason == NONE
        }
        for path, unexplained in self._unexplained.items():
            unexplained.looks += 1
            if unexplained.looks >= LOOKS and now - unexplained.since >= LASTS and not unexplained.reported:
                unexplained.reported = True
                self._report(path, unexplained.since, now)

    def _report(self, path: Path, since: int, now: int) -> None:
        part = self._now[path].short
        self._findings.add(
            "shortfall",
            None,
            f"queue {path[-1]} ({'/'.join(path)}) has been {part:.1%} of the cluster below its entitlement for "
            f"{(now - since) / SECOND:g} s, although a job below it could start on idle nodes",
        )

    def _reason(
        self, unit: WaitingUnit, path: Path, lacks: dict[int, int], now: int, answers: dict[object, str]
    ) -> str:
        """Why a unit that waits below a queue does not start."""
        if unit.barred:
            return unit.barred
        if any(unit.total[j] > lacks.get(j, 0) for j in asks(unit.total)):
            return "whole tasks"
        key = (unit.path, unit.tasks)
        if key not in answers:
            answers[key] = self._obstacle(unit)
        reason = answers[key]
        if reason == "does not fit":
            return self._why_no_room(path, now)
        if reason == NONE and self._is_kept(unit, now):
            return "kept for others"
        return reason

    def _obstacle(self, unit: WaitingUnit) -> str:
        assert self._ledger is not None and self._policy is not None
        ledger, asked = self._ledger, asks(unit.total)
        if not asked:
            return "whole tasks"  # it asks for nothing that is shared
        queue = ledger.queues.get(ledger.accounts.queue_at(unit.path) or "")
        if queue is not None and (queue.user_limit_factor, queue.min_user_limit_percent) != (None, None):
            return "limits"
        extra = {unit.path: {j: unit.total[j] for j in asked}}
        if self._policy.limited and ledger.accounts.beyond_limit(unit.path, asked, extra) is not None:
            return "limits"
        if unit.coupled:
            return "placement rules"
        return NONE if fits_now(unit, ledger.nodes.values()) else "does not fit"

    def _no_room_for_all(self, now: int) -> str:
        """What keeps everybody from evicting now, whoever it is."""
        assert self._ledger is not None and self._policy is not None
        tasks = self._ledger.tasks.values()
        if "reclaim" not in self._policy.actions:
            return "does not fit"
        if any(task.status is TaskStatus.RELEASING for task in tasks):
            return "room is being freed"
        newest = self._policy.min_runtime
        if newest and any(task.holds and task.started > 0 and now - task.started < newest for task in tasks):
            return "brakes"
        return ""

    def _why_no_room(self, path: Path, now: int) -> str:
        assert self._policy is not None
        if self._brake in ("does not fit", "room is being freed"):
            return self._brake
        if now - self._short_since.get(path, now) < self._policy.patience:
            return "patience"
        return self._brake or "does not fit"

    def _is_kept(self, unit: WaitingUnit, now: int) -> bool:
        """Whether somebody else has waited long enough that room may be reserved for it."""
        assert self._policy is not None
        patience = self._policy.hold_patience
        own = self._waits_since.get(unit.job, now)
        others = list(self._longest_wait)
        if own in others:
            others.remove(own)
        return self._policy.order == "steer" and patience >= 0 and any(now - since >= patience for since in others)


def _at(vector: list[int], j: int) -> int:
    return vector[j] if j < len(vector) else 0
