"""Candidates: which jobs have something they could start, and whether it can be placed now.

For every job in the share tree this keeps its demand and its next unit and tells the order (``offer``). A job is a
candidate while its unit is open: every shape in it fits on some node now, it was not tried in vain since room last
grew, and no gate refused it in this cycle. For single tasks that is exact at every moment; whether a gang, or a task
that other pods keep away or attract, can be placed is only known once it is tried.
"""

from __future__ import annotations

from collections.abc import Container, Iterable
from itertools import zip_longest

from pumice.engine.candidates.fifo_queues import FifoQueues
from pumice.engine.candidates.job_demand import asks_beyond, barred_shapes, demand_of, slots_on_empty_nodes
from pumice.engine.candidates.units import (
    AllocationUnit,
    GangCapacity,
    Parts,
    UnitTable,
    gang_tasks,
    missing_to_start,
    runs_of,
)
from pumice.engine.fairness.orders.serving_order import ServingOrder
from pumice.engine.fairness.share_tree.tree import JobNode
from pumice.engine.placement.node_table import NodeTable
from pumice.engine.plugins.plugin_chain import JobSortKeys, PluginChain
from pumice.engine.state.cluster_state import ClusterState
from pumice.engine.state.job import Job
from pumice.engine.state.task_shapes import TaskShape
from pumice.model.specs import JobPhase


class Candidates:
    """What every job would start next."""

    def __init__(self, state: ClusterState, order: ServingOrder, nodes: NodeTable, policy: PluginChain) -> None:
        self.state = state
        self.order = order
        self.nodes = nodes
        self.policy = policy
        self.units = UnitTable()
        self.infeasible_shapes: dict[TaskShape, None] = {}  # shapes that are known to fit nowhere now
        self.heterogeneous_jobs: dict[JobNode, None] = {}  # jobs with waiting tasks of several shapes
        self.gated_jobs: dict[JobNode, str] = {}  # refused by a gate in this cycle, and why
        self._kept_out: list[AllocationUnit] = []  # tried in vain while room was kept for others
        self.fifo_queues = FifoQueues(state)
        self.blocked_jobs: dict[JobNode, str] = {}  # could not start anything since the last cycle ended, and why

    # --- a job changed ------------------------------------------------------------------------------------------

    def refresh_job(self, leaf: JobNode, *, open_queue: bool) -> bool:
        """Take in that a job changed; returns whether its demand did."""
        job = leaf.job
        assert job.spec is not None
        job.sort_pending()
        start = self.policy.start_size(job)
        leaf.started = missing_to_start(job, start) <= 0 and job.running > 0
        keys = self._keys(leaf)
        demand, gang = demand_of(leaf, self.nodes, self.state.capacity, open_queue=open_queue, start=start)
        moved = (demand, gang, keys.rank_class) != (leaf.demand, leaf.gang, leaf.rank_class)
        leaf.demand, leaf.gang, leaf.rank_class = demand, gang, keys.rank_class
        if moved or len(demand.parts) > 1:
            self.order.tree.moved[leaf], leaf.integer_line = None, None
        self._set_keys(leaf, keys)
        can_start = (
            open_queue
            and (job.phase is not JobPhase.PENDING or not self.policy.enqueues)
            and self.policy.job_valid(job) is None
        )
        if not can_start:
            self.heterogeneous_jobs.pop(leaf, None)
        self._offer(leaf, self._unit(leaf, start) if can_start else None)
        return moved

    def affected_by_capacity(self, before: list[int]) -> dict[Job, None]:
        """Jobs whose demand may differ because capacity is no longer what it was."""
        now = self.state.capacity
        if before == now:
            return {}
        least = [min(amounts) for amounts in zip_longest(before, now, fillvalue=0)]
        return {job: None for job in self.state.jobs.values() if asks_beyond(job, least)}

    def remove_job(self, leaf: JobNode) -> None:
        """A job leaves the tree."""
        self.heterogeneous_jobs.pop(leaf, None)
        self._offer(leaf, None)
        self.gated_jobs.pop(leaf, None)
        self.blocked_jobs.pop(leaf, None)

    def choose_next_unit(self, leaf: JobNode) -> None:
        """A job's unit was placed: what does it start next?"""
        if leaf.started and leaf not in self.heterogeneous_jobs and leaf.unit.parts[0][0] in leaf.job.pending:
            return
        job = leaf.job
        assert job.spec is not None
        start = self.policy.start_size(job)
        leaf.started = missing_to_start(job, start) <= 0 and job.running > 0
        if job.spec.min_resources or leaf.path_tasks:
            self.state.changed_jobs[job] = None  # what runs has a say in such a demand: it is looked at again
        self._set_keys(leaf, self._keys(leaf))
        self._offer(leaf, self._unit(leaf, start))

    def _set_keys(self, leaf: JobNode, keys: JobSortKeys) -> None:
        if (keys.before, keys.after) != (leaf.before, leaf.after):
            leaf.before, leaf.after = keys.before, keys.after
            self.order.tree.mark(leaf)
            self.order.tree.moved[leaf] = None

    def _keys(self, leaf: JobNode) -> JobSortKeys:
        """A job's place among its siblings; first come first served where its queue says so, or nobody else does."""
        job = leaf.job
        keys = self.policy.job_keys(job, self.state.job_priority(job), leaf.started)
        if not self.fifo_queues.is_fifo(leaf) and (self.policy.jobs_by_share or not self.order.has_targets):
            return keys
        class_ = (*keys.rank_class, leaf.rank[0])
        return JobSortKeys(class_, (), class_)

    # --- units ------------------------------------------------------------------------------------------------

    def _unit(self, leaf: JobNode, start: int) -> AllocationUnit | None:
        job = leaf.job
        missing = missing_to_start(job, start)
        shapes = [shape for shape in job.pending if shape.ask]
        if missing > 1 or (missing > 0 and job.spec is not None and job.spec.min_task_member):
            if len(job.pending) > 1:
                self.heterogeneous_jobs[leaf] = None
            else:
                self.heterogeneous_jobs.pop(leaf, None)
            runs = self._gang(job, missing)
            # Tasks that ask for nothing never enter the walk by themselves: backfill serves them.
            return self._get(runs) if any(shape.ask for shape, _ in runs) else None
        if not shapes:
            self.heterogeneous_jobs.pop(leaf, None)
            return None
        if len(shapes) == 1:
            self.heterogeneous_jobs.pop(leaf, None)
            return self._get(((shapes[0], 1),))
        self.heterogeneous_jobs[leaf] = None
        return self._first_of(leaf, shapes)

    def _gang(self, job: Job, missing: int) -> Parts:
        """What a job would start together: tasks in task order, but for those that find no place now; (): too few."""
        assert job.spec is not None
        if len(job.pending) == 1 and not job.spec.min_task_member:
            shape, waiting = next(iter(job.pending.items()))
            return ((shape, missing),) if len(waiting) >= missing else ()
        barred = barred_shapes(job, self.nodes)
        most = slots_on_empty_nodes(job, self.nodes) if len(job.pending) > 1 else {}
        tasks = gang_tasks(job, missing, barred, GangCapacity(most, self.state.capacity)) or gang_tasks(
            job, missing, barred
        )
        if not tasks:
            return ()
        first = runs = runs_of(tasks)
        while not self._can_place(runs):
            tried = self.units.find(runs)
            if tried is not None and tried.short is not None:
                shape, placed = tried.short
                most[shape] = placed
            most |= {shape: 0 for shape, _ in runs if shape in self.infeasible_shapes}
            tasks = gang_tasks(job, missing, barred, GangCapacity(most, self.state.capacity))
            other = runs_of(tasks) if tasks else runs
            if other == runs:
                return first  # it waits for those that come first
            runs = other
        return runs

    def _first_of(self, leaf: JobNode, shapes: list[TaskShape]) -> AllocationUnit:
        """Of unlike tasks: the first in task order that is owed and fits, else the first that fits.

        If none fits, the first that is owed: others may have to make way for it.
        """
        shapes.sort(key=lambda shape: leaf.job.pending[shape][-1].order)
        choice = [shape for shape in shapes if self._can_place(((shape, 1),))] or shapes
        owed = (shape for shape in choice if self.order.is_owed(leaf, shape.ask))
        return self._get(((next(owed, choice[0]), 1),))

    def _can_place(self, runs: Parts) -> bool:
        """Whether a unit of these tasks could be placed now, as far as is known; makes none, so that none is left."""
        self._look_at(runs)
        unit = self.units.find(runs)
        return self.is_open(unit) if unit is not None else not any(shape in self.infeasible_shapes for shape, _ in runs)

    def _get(self, runs: Parts) -> AllocationUnit:
        self._look_at(runs)
        return self.units.unit(runs)[0]

    def _look_at(self, runs: Parts) -> None:
        """Find out which of these shapes fit nowhere. Of those that some unit is made of it is known at any time."""
        for shape, _ in runs:
            if shape not in self.infeasible_shapes and shape not in self.units.of_shape and not self._may_fit(shape):
                self.mark_infeasible(shape)

    def _may_fit(self, shape: TaskShape) -> bool:
        """Whether a task may find a place now. Where other pods have a say, only a try tells, if any node would do."""
        return self.nodes.possible(shape) if shape.coupled else self.nodes.fits_somewhere(shape)

    def is_open(self, unit: AllocationUnit) -> bool:
        """Whether a unit can be placed now, as far as is known."""
        return not unit.tried and not any(shape in self.infeasible_shapes for shape, _ in unit.parts)

    def _offer(self, leaf: JobNode, unit: AllocationUnit | None) -> None:
        old: AllocationUnit | None = leaf.unit
        if old is not unit:
            if old is not None:
                del old.waiting[leaf]
                if not old.waiting and not old.tried:  # that it was tried in vain must not be forgotten
                    self.units.drop(old)
            leaf.unit = unit
            if unit is not None:
                unit.waiting[leaf] = None
        for changed in self.fifo_queues.update_heads(leaf):
            self._offer(changed, changed.unit)
        if unit is None:
            self.order.set_candidate(leaf, None, False)
            return
        is_open = self.is_open(unit)
        self.order.set_candidate(
            leaf, unit.ask, is_open and leaf not in self.gated_jobs and self.fifo_queues.is_head(leaf)
        )
        if not is_open and leaf not in self.gated_jobs:
            self.blocked_jobs[leaf] = unit.reason or self._reason(unit)

    def _reason(self, unit: AllocationUnit) -> str:
        """Why a unit can't be placed, in words that do not change while nothing does."""
        ask = [0] * len(self.state.registry)
        for j, amount in unit.ask:
            ask[j] = amount
        what = ", ".join(f"{name} {amount}" for name, amount in self.state.registry.format(tuple(ask)).items())
        who = "one task" if unit.size == 1 else f"{unit.size} tasks together"
        unit.reason = f"no node has a place now for {who} ({what})"
        return unit.reason

    # --- room changed ---------------------------------------------------------------------------------------------

    def mark_infeasible(self, shape: TaskShape) -> None:
        """A shape fits nowhere any more."""
        if shape not in self.infeasible_shapes:
            self.infeasible_shapes[shape] = None
            for unit in list(self.units.of_shape.get(shape, ())):
                self._reoffer(unit)

    def mark_feasible(self, shape: TaskShape) -> None:
        """A shape that fitted nowhere fits again."""
        del self.infeasible_shapes[shape]
        for unit in list(self.units.of_shape.get(shape, ())):
            self._reoffer(unit)
        for leaf in [leaf for leaf in self.heterogeneous_jobs if shape in leaf.job.pending]:
            self._rechoose(leaf)

    def mark_failed(self, unit: AllocationUnit, short: tuple[TaskShape, int] | None = None) -> None:
        """A unit was tried in vain; short: the shape of which only so many tasks found a place."""
        unit.tried, unit.short = True, short
        if self.nodes.reserved:
            self._kept_out.append(unit)
        self._reoffer(unit)

    def capacity_on(self, indices: Iterable[int]) -> None:
        """These nodes have room that was not to be had before."""
        indices = list(indices)
        if indices:
            for shape in [s for s in self.infeasible_shapes if self.nodes.fits_on(s, indices)]:
                self.mark_feasible(shape)

    def gate_job(self, leaf: JobNode, reason: str) -> None:
        """A gate refuses the job: it is no candidate for the rest of the cycle."""
        self.gated_jobs[leaf] = reason
        self.blocked_jobs[leaf] = reason
        self._offer(leaf, leaf.unit)

    def ungate_job(self, leaf: JobNode) -> None:
        """A gate gives way to a job that it had refused: it is a candidate again."""
        del self.gated_jobs[leaf]
        self.blocked_jobs.pop(leaf, None)
        self._offer(leaf, leaf.unit)

    def offer_again(self, leaf: JobNode) -> None:
        """Tell the order what a job would start next, as it is."""
        self._offer(leaf, leaf.unit)

    def begin_cycle(self, grown: Iterable[int], *, changed: bool, gates_moved: bool) -> None:
        """Before the actions: room grew on these nodes; ``changed``: some pod came to a node or left one.

        ``gates_moved``: what a gate refused it might let pass now.
        """
        for leaf in list(self.gated_jobs) if gates_moved else ():
            del self.gated_jobs[leaf]
            self._offer(leaf, leaf.unit)
        grown = list(grown)
        self.capacity_on(grown)
        again = [u for u in self.units if u.tried and (grown or (changed and u.coupled) or u in self._kept_out)]
        self._kept_out.clear()
        for unit in again:
            unit.tried, unit.short = False, None
            if unit.waiting:
                self._reoffer(unit)
            else:
                self.units.drop(unit)
        if again:
            self.recheck_heterogeneous(
                list(self.heterogeneous_jobs)
            )  # a job of unlike tasks may have given one of them up

    def keep_shapes(self, used: Container[TaskShape]) -> None:
        """Forget what is known of all shapes but these."""
        self.infeasible_shapes = {shape: None for shape in self.infeasible_shapes if shape in used}

    def nodes_rebuilt(self) -> None:
        """Nodes came, went or changed: ask again for every shape. Every job is refreshed after this."""
        self.infeasible_shapes.clear()
        for unit in list(self.units):
            unit.tried, unit.short = False, None
            if not unit.waiting:
                self.units.drop(unit)
        for shape in list(self.units.of_shape):
            if not self._may_fit(shape):
                self.infeasible_shapes[shape] = None

    def recheck_heterogeneous(self, leaves: Iterable[JobNode]) -> None:
        """Something moved: a job of unlike tasks may now offer another of its shapes."""
        for leaf in leaves:
            if leaf in self.heterogeneous_jobs:
                self._rechoose(leaf)

    def _rechoose(self, leaf: JobNode) -> None:
        self._offer(leaf, self._unit(leaf, self.policy.start_size(leaf.job)))

    def _reoffer(self, unit: AllocationUnit) -> None:
        for leaf in list(unit.waiting):
            if leaf in self.heterogeneous_jobs:
                self._rechoose(leaf)
            else:
                self._offer(leaf, unit)
