"""What the queues of a tree hold, are guaranteed and may hold, at every level (docs/fairness.md, sections 6.1 to 6.5).

Recounted from the tasks when the tree, a job's queue or a node has changed, and kept up between.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import TYPE_CHECKING

from pumice.model.queue_tree import Path, QueueTree, build_queue_tree

if TYPE_CHECKING:
    from pumice.audit.ledger import Ledger
from pumice.audit.ledger_entries import LedgerTask


class Accounts:
    """The accounts of all queues."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self.outdated = True
        self._tree = QueueTree()
        self._held: dict[Path, list[int]] = {}
        self._reserved: dict[Path, list[int]] = {}
        self._most: dict[Path, list[int]] = {}
        self._capacity: list[int] = []
        self._children: dict[Path, list[Path]] = {}

    # ---- upkeep ----------------------------------------------------------------------------------------------------

    def charge(self, task: LedgerTask, sign: int) -> None:
        """A task holds something now, or no longer."""
        if self.outdated:
            return
        spec = self._ledger.jobs[task.spec.job].spec if task.spec.job in self._ledger.jobs else None
        path = self._tree.path_of.get(spec.queue) if spec is not None else None
        if path is None:
            return
        for depth in range(1, len(path) + 1):
            held = self._held[path[:depth]]
            for j, amount in enumerate(task.spec.request):
                if amount:
                    if j >= len(held):
                        held.extend([0] * (j + 1 - len(held)))
                    held[j] += sign * amount

    def capacity_changed(self) -> None:
        """The capacity has to be counted again."""
        self._capacity = []

    def _recount(self) -> None:
        if not self.outdated:
            return
        self.outdated = False
        ledger, width = self._ledger, len(self._ledger.names)
        self._tree = build_queue_tree(ledger.queues)
        self._held = {path: [0] * width for path in self._tree.placements}
        self._reserved, self._most, self._capacity = {}, {}, []
        self._children = {path: [] for path in self._tree.placements}
        for path in self._tree.placements:
            if len(path) > 1:
                self._children[path[:-1]].append(path)
        for job in ledger.jobs.values():
            for task in job.tasks.values():
                if task.holds:
                    self.charge(task, 1)

    # ---- questions -------------------------------------------------------------------------------------------------

    @property
    def paths(self) -> list[Path]:
        """All queues, parents before their children."""
        self._recount()
        return list(self._tree.placements)

    def path_of(self, queue: str) -> Path | None:
        """The place of a queue in the tree; None without one."""
        self._recount()
        return self._tree.path_of.get(queue)

    def exact_weight(self, path: Path) -> Fraction:
        """The weight of a queue among its siblings."""
        self._recount()
        return self._tree.placements[path].weight

    def queue_at(self, path: Path) -> str | None:
        """The name of the Queue object at a place; None for an inner node without one."""
        self._recount()
        return self._tree.placements[path].queue if path in self._tree.placements else None

    def held(self, path: Path) -> list[int]:
        """What the jobs of a queue and below hold."""
        self._recount()
        return self._held.get(path, [])

    @property
    def capacity(self) -> list[int]:
        """What all jobs share."""
        self._recount()
        if not self._capacity:
            self._capacity = self._ledger.capacity()
            self._most = {}
        return self._capacity

    def children(self, path: Path) -> list[Path]:
        """The queues directly below."""
        self._recount()
        return self._children[path]

    def reserved(self, path: Path) -> list[int]:
        """The guarantee of a queue, or the sum of those below it where that is more."""
        self._recount()
        if not self._reserved:
            width = len(self._ledger.names)
            found: dict[Path, list[int]] = {each: [0] * width for each in self._tree.placements}
            for each in reversed(list(self._tree.placements)):
                name = self._tree.placements[each].queue
                for j, amount in self._ledger.queues[name].guarantee if name in self._ledger.queues else ():
                    found[each][j] = max(found[each][j], amount)
                if len(each) > 1:
                    for j, amount in enumerate(found[each]):
                        found[each[:-1]][j] += amount
            self._reserved = found
        return self._reserved[path]

    def most(self, path: Path) -> list[int]:
        """The real capability: its capability, and at most that of its parent less what other children reserve."""
        capacity = self.capacity
        if not self._most:
            found: dict[Path, list[int]] = {}
            for each in self._tree.placements:
                if len(each) == 1:
                    found[each] = capacity
                    continue
                above, own = found[each[:-1]], self.reserved(each)
                siblings = [self.reserved(sibling) for sibling in self.children(each[:-1])]
                total = [sum(amounts) for amounts in zip(*siblings, strict=True)]
                real = [
                    max(offers - (all_ - mine), min(mine, offers))
                    for offers, mine, all_ in zip(above, own, total, strict=True)
                ]
                name = self._tree.placements[each].queue
                for j, amount in self._ledger.queues[name].capability if name in self._ledger.queues else ():
                    real[j] = min(real[j], amount)
                found[each] = real
            self._most = found
        return self._most[path]

    def claim(self, path: Path, j: int, extra: Mapping[Path, int]) -> int:
        """What a queue claims of a resource: its guarantee, or what its children claim, whichever is more."""
        below = list(self.children(path))
        own = _at(self.held(path), j) - sum(_at(self.held(each), j) for each in below) + extra.get(path, 0)
        return max(_at(self.reserved(path), j), own + sum(self.claim(each, j, extra) for each in below))

    def beyond_limit(
        self, path: Path, resources: list[int], extra: Mapping[Path, dict[int, int]] | None = None
    ) -> tuple[Path, int, int, int] | None:
        """The queue above ``path``, or it, that holds or claims more than it may: queue, resource, amount, limit.

        ``extra`` are amounts that leaf queues would hold in addition. A queue within its own guarantee adds nothing to
        the claims above it.
        """
        more = extra or {}
        for j in resources:
            added = {leaf: amounts.get(j, 0) for leaf, amounts in more.items()}
            found = self._holds_too_much(path, j, added) or self._claims_too_much(path, j, added)
            if found is not None:
                return found
        return None

    def _holds_too_much(self, path: Path, j: int, added: Mapping[Path, int]) -> tuple[Path, int, int, int] | None:
        for depth in range(2, len(path) + 1):  # root has what the nodes have, which are judged one by one
            here = path[:depth]
            limit = _at(self.most(here), j)
            held = _at(self.held(here), j) + sum(n for leaf, n in added.items() if leaf[:depth] == here)
            if held > limit:
                return here, j, held, limit
        return None

    def _claims_too_much(self, path: Path, j: int, added: Mapping[Path, int]) -> tuple[Path, int, int, int] | None:
        if not any(_at(self.reserved(each), j) for each in self._children[path[:1]]):
            return None  # nobody is guaranteed anything
        for depth in range(len(path), 0, -1):
            here = path[:depth]
            claimed, own, limit = self.claim(here, j, added), _at(self.reserved(here), j), _at(self.most(here), j)
            if claimed <= own:
                return None
            if claimed > max(limit, own):
                return here, j, claimed, limit
        return None


def _at(vector: list[int], j: int) -> int:
    return vector[j] if j < len(vector) else 0


def lowest_common(one: Path, other: Path) -> Path:
    """The lowest queue that both are in or below."""
    depth = 0
    for a, b in zip(one, other, strict=False):
        if a != b:
            break
        depth += 1
    return one[:depth]
