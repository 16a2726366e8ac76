"""Reservations: capacity kept idle for an owed job that fits nowhere (docs/fairness.md, section 3.4).

A large task or a gang may be owed its share and still never start, because each piece of capacity that is freed is too
small for it and is lent at once to a smaller job. A job that has waited long enough gets a reservation: on the nodes
where it lacks least, jobs that are not owed may not use what its unit needs. That costs some utilization, so there is
at most one reservation per child of the root, and one that makes no progress ends; the job's next wait is twice as
long.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from pumice.engine.candidates.units import AllocationUnit
from pumice.engine.checkpoint.engine_checkpoint import Parts, ReservationsCheckpoint, SavedReservation
from pumice.engine.fairness.share_tree.share_node import JobNode, ShareNode, latest_start
from pumice.engine.placement.domain_placement import domain_to_reserve, inside
from pumice.model.specs import Items

if TYPE_CHECKING:
    from pumice.engine.context import SchedulingContext
    from pumice.engine.placement.node_table import NodeTable


NO_EPOCH = -1  # of a reservation whose nodes are not known: the next update finds them


@dataclass(slots=True)
class Reservation:
    """Capacity reserved for a job: what its unit needs on which nodes, and how much of that is still in use."""

    parts: Parts  # requests of the tasks of its unit, and how many of each
    needs: dict[int, Items]  # node index -> amounts that must stay idle
    lack: float  # fraction of the cluster that is still missing
    since: int
    progress: int  # when the lack last shrank
    epoch: int  # the epoch of the node table that the indices refer to


class Reservations:
    """The active reservations, and how long each owed job has waited for one."""

    def __init__(self, patience: int, limit: int) -> None:
        self.patience = patience  # microseconds; negative: never
        self.limit = limit
        self.active: dict[JobNode, Reservation] = {}
        self._told: dict[JobNode, list[str]] = {}  # the nodes last reported in the job's condition
        self._waiting: dict[JobNode, int] = {}  # since when an owed job has fitted nowhere
        self._doubled: dict[JobNode, int] = {}  # how often its wait was doubled

    def update(self, context: SchedulingContext) -> dict[int, list[Items]]:
        """After the owed jobs were served: end and start reservations; returns what must stay idle on which nodes."""
        now = context.now
        stuck = _waits_in_vain(context)
        self._waiting = {leaf: self._waiting.get(leaf, now) for leaf in stuck}
        self._doubled = {leaf: n for leaf, n in self._doubled.items() if leaf.name in context.tree.jobs}
        for leaf, hold in list(self.active.items()):
            if leaf not in stuck or _parts(leaf.unit) != hold.parts:
                del self.active[leaf]
            elif not self._renew(context, leaf, hold):
                del self.active[leaf]
                self._doubled[leaf] = self._doubled.get(leaf, 0) + 1
                self._waiting[leaf] = now
        held_below = {_branch(leaf) for leaf in self.active}
        for leaf in sorted(self._due(now), key=lambda leaf: (leaf.before, self._since(leaf, now), leaf.rank)):
            branch = _branch(leaf)
            if branch in held_below:
                continue
            needs, lack = find_reservation(context.nodes, leaf.unit, context.state.capacity)
            if needs:
                self.active[leaf] = Reservation(_parts(leaf.unit), needs, lack, now, now, context.nodes.epoch)
                held_below.add(branch)
        self._tell(context)
        return self._reserved()

    def stay_idle(self, context: SchedulingContext, indices: Iterable[int]) -> bool:
        """Whether the tasks pipelined to these nodes use nothing that is reserved and idle there."""
        kept = [hold for hold in self.active.values() if hold.epoch == context.nodes.epoch]
        for node, needs in ((context.nodes.nodes[i], hold.needs.get(i, ())) for i in indices for hold in kept):
            if any(node.future(j) < min(amount, node.free(j)) for j, amount in needs):
                return False
        return True

    def starts_at(self, leaf: JobNode, now: int) -> int | None:
        """When a job's reservation would start, unless another job below the same child of the root comes first.

        None if it was not owed, or its unit was placeable, at the last update.
        """
        return self._since(leaf, now) + self._patience(leaf) if leaf in self._waiting else None

    def next_change_at(self, now: int) -> int | None:
        """The first time later than now at which a waiting job is due a reservation."""
        ends = (self._since(leaf, now) + self._patience(leaf) for leaf in self._waiting)
        return min((end for end in ends if end > now), default=None)

    def checkpoint(self, nodes: NodeTable) -> ReservationsCheckpoint:
        """The state that a checkpoint keeps.

        A job keeps its reservation even if it has no unit or another one at this moment: the next update judges, and
        by then an eviction may have given the job its unit back. Only the nodes of an earlier node table are left
        out, because the next update looks for others anyway.
        """
        kept = [
            SavedReservation(
                leaf.name,
                hold.parts,
                {nodes.nodes[index].name: items for index, items in hold.needs.items()}
                if hold.epoch == nodes.epoch
                else {},
                hold.lack,
                hold.since,
                hold.progress,
            )
            for leaf, hold in self.active.items()
        ]
        return ReservationsCheckpoint(
            tuple(kept),
            {leaf.name: names for leaf, names in self._told.items()},
            {leaf.name: since for leaf, since in self._waiting.items()},
            {leaf.name: times for leaf, times in self._doubled.items()},
        )

    def restore(self, memory: ReservationsCheckpoint, context: SchedulingContext) -> None:
        """Continue from a checkpoint. A reservation on a node that is gone is moved by the next update."""
        leaves = context.tree.jobs
        self._waiting = {leaves[job]: since for job, since in memory.waiting.items() if job in leaves}
        self._doubled = {leaves[job]: times for job, times in memory.doubled.items() if job in leaves}
        self._told = {leaves[job]: names for job, names in memory.told.items() if job in leaves}
        for kept in memory.kept:
            leaf, index = leaves.get(kept.job), context.nodes.index
            if leaf is None:
                continue
            stays = bool(kept.needs) and all(name in index for name in kept.needs)
            needs = {index[name]: items for name, items in kept.needs.items()} if stays else {}
            epoch = context.nodes.epoch if stays else NO_EPOCH
            self.active[leaf] = Reservation(kept.parts, needs, kept.lack, kept.since, kept.progress, epoch)

    def _tell(self, context: SchedulingContext) -> None:
        """Report new and ended reservations in the conditions of their jobs."""
        for leaf in [leaf for leaf in self._told if leaf not in self.active]:
            del self._told[leaf]
            if leaf.name in context.tree.jobs:
                message = "the reservation has ended"
                context.decided.condition(leaf.job.key, "Unschedulable", "HoldEnded", message)
        for leaf, hold in self.active.items():
            names = sorted(context.nodes.nodes[index].name for index in hold.needs)
            if self._told.get(leaf) != names:
                self._told[leaf] = names
                where = ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")
                message = (
                    f"capacity is reserved on {where}; {hold.lack:.1%} of the cluster still has to become idle there"
                )
                context.decided.condition(leaf.job.key, "Unschedulable", "HoldsRoom", message)

    def _renew(self, context: SchedulingContext, leaf: JobNode, hold: Reservation) -> bool:
        """Move a reservation to where it lacks least now; False if it has made no progress for too long."""
        now, nodes = context.now, context.nodes
        needs, lack = find_reservation(nodes, leaf.unit, context.state.capacity)
        # Its indices may refer to an earlier node table, or the same requests now come with other node selectors.
        stays = hold.epoch == nodes.epoch and _eligible_on(nodes, leaf.unit, hold.needs)
        if not stays and not needs:
            return False
        here = missing_on(nodes, hold.needs, context.state.capacity) if stays else 1.0
        if needs and (lack < here or not stays):
            hold.needs, here, hold.epoch = needs, lack, nodes.epoch
        if here < hold.lack:
            hold.progress = now
        hold.lack = here
        return self.limit < 0 or now - hold.progress <= self.limit  # negative: never too long

    def _due(self, now: int) -> list[JobNode]:
        """The jobs that have waited long enough for a reservation: of many that wait, most often none."""
        long_ago = now - self.patience
        waited = [leaf for leaf, since in self._waiting.items() if since <= long_ago]
        return [leaf for leaf in waited if now - self._since(leaf, now) >= self._patience(leaf)]

    def _since(self, leaf: JobNode, now: int) -> int:
        # A task started in this cycle may be stamped later than now, so that no two stamps are equal.
        return min(now, max(self._waiting[leaf], latest_start(leaf)))

    def _patience(self, leaf: JobNode) -> int:
        times = self._doubled.get(leaf, 0)
        if not self.patience and times:  # doubling zero has no effect: wait as long as the failed reservation lasted
            return self.limit << (times - 1)
        return self.patience << times

    def _reserved(self) -> dict[int, list[Items]]:
        room: dict[int, list[Items]] = {}
        for hold in self.active.values():
            for index, needs in hold.needs.items():
                room.setdefault(index, []).append(needs)
        return room


def _waits_in_vain(context: SchedulingContext) -> dict[JobNode, None]:
    """Owed jobs whose unit fits nowhere."""
    order, candidates = context.order, context.candidates
    may_be_owed, gated, fifo_queues = order.may_be_owed(), candidates.gated_jobs, candidates.fifo_queues
    found: dict[JobNode, None] = {}
    for unit in candidates.units:
        if candidates.is_open(unit):
            continue
        ask = unit.ask
        for leaf in unit.waiting:
            if leaf.able or leaf in gated or (may_be_owed is not None and leaf not in may_be_owed):
                continue
            if order.is_owed(leaf, ask) and fifo_queues.is_head(leaf):
                found[leaf] = None
    return found


def _parts(unit: AllocationUnit) -> Parts:
    """What a unit consists of, regardless of the order of its tasks."""
    return tuple(sorted((shape.items, count) for shape, count in unit.parts))


def _eligible_on(nodes: NodeTable, unit: AllocationUnit, needs: dict[int, Items]) -> bool:
    """Whether some task of the unit may run on each of the nodes."""
    masks = [nodes.eligible(shape) for shape, _ in unit.parts]
    return all(any(mask[index] for mask in masks) for index in needs)


def _branch(leaf: JobNode) -> ShareNode:
    """The child of the root that a job is below."""
    node: ShareNode = leaf
    while node.parent is not None and node.parent.parent is not None:
        node = node.parent
    return node


def find_reservation(nodes: NodeTable, unit: AllocationUnit, capacity: list[int]) -> tuple[dict[int, Items], float]:
    """The nodes where a unit lacks least, task by task: what it needs on each, and what it lacks in all."""
    if unit.topology is not None and unit.topology.hard:
        domain = domain_to_reserve(nodes, unit.parts, unit.topology)
        if domain is None:
            return {}, 0.0
        with inside(nodes, domain):
            return _find_reservation(nodes, unit, capacity)
    return _find_reservation(nodes, unit, capacity)


def _find_reservation(nodes: NodeTable, unit: AllocationUnit, capacity: list[int]) -> tuple[dict[int, Items], float]:
    nodes.sync_idle()
    idle, room = nodes.idle.copy(), nodes.allocatable.copy()
    scale = [float(total) if total > 0 else 1.0 for total in capacity]
    needs: dict[int, dict[int, int]] = {}
    # Largest first: the reserved nodes must not depend on the order in which shapes were first seen.
    for shape, count in sorted(unit.parts, key=lambda part: part[0].items, reverse=True):
        may = nodes.eligible(shape)
        for _ in range(count):
            lack = np.zeros(len(nodes.nodes))
            can = may.copy()
            for j, amount in shape.items:
                can &= room[j] >= amount
                lack = np.maximum(lack, (amount - idle[j]) / scale[j])
            if not can.any():
                return {}, 0.0
            best = int(np.where(can, lack, np.inf).argmin())
            need = needs.setdefault(best, {})
            for j, amount in shape.items:
                idle[j, best] -= amount
                room[j, best] -= amount
                need[j] = need.get(j, 0) + amount
    items = {index: tuple(sorted(need.items())) for index, need in needs.items()}
    return items, missing_on(nodes, items, capacity)


def missing_on(nodes: NodeTable, needs: dict[int, Items], capacity: list[int]) -> float:
    """What a reservation lacks on its nodes: the dominant fraction of the cluster, summed over the nodes."""
    total = 0.0
    for index, items in needs.items():
        idle = nodes.nodes[index].idle
        total += max(max(0, amount - idle[j]) / max(1, capacity[j]) for j, amount in items)
    return total
