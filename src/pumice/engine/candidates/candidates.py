"""Candidates: the jobs whose next unit may be placeable now.

For every job in the share tree this module keeps the demand and the next unit and passes them to the serving order
(``set_candidate``). A job is a candidate if (a) each shape in its unit fits on at least one node, (b) placing the unit
has not failed since capacity was last freed, and (c) no gate has rejected the job in this cycle. (a) is exact for
single tasks; for gangs and for tasks with inter-pod constraints only an attempt can tell.
"""

from __future__ import annotations

from collections.abc import Container, Iterable
from itertools import zip_longest

from pumice.engine.candidates.blocked_jobs import BlockedJobs
from pumice.engine.candidates.fifo_queues import FifoQueues
from pumice.engine.candidates.job_demand import asks_beyond, barred_shapes, demand_of, slots_on_empty_nodes
from pumice.engine.candidates.units import (
    AllocationUnit,
    GangCapacity,
    Parts,
    UnitTable,
    gang_runs,
    missing_to_start,
)
from pumice.engine.candidates.waiting_lines import Menu, WaitingLines
from pumice.engine.fairness.orders.serving_order import ServingOrder
from pumice.engine.fairness.share_tree.share_node import JobNode
from pumice.engine.fairness.share_tree.waiting_line import WaitingLine
from pumice.engine.placement.node_table import NodeTable
from pumice.engine.plugins.plugin_chain import JobSortKeys, PluginChain
from pumice.engine.state.cluster_state import ClusterState
from pumice.engine.state.job import Job
from pumice.engine.state.task_shapes import TaskShape
from pumice.model.specs import JobPhase


class Candidates:
    """The next unit of every job, and whether it may be placeable."""

    def __init__(self, state: ClusterState, order: ServingOrder, nodes: NodeTable, policy: PluginChain) -> None:
        self.state = state
        self.order = order
        self.nodes = nodes
        self.policy = policy
        self.units = UnitTable()
        self.infeasible_shapes: dict[TaskShape, None] = {}  # shapes known to fit on no node now
        self.heterogeneous_jobs: dict[JobNode, None] = {}  # waiting tasks of several shapes, and in no waiting line
        self.gated_jobs: dict[JobNode, str] = {}  # rejected by a gate in this cycle, and why
        self._kept_out: list[AllocationUnit] = []  # failed while capacity was reserved for others
        self.fifo_queues = FifoQueues(state)
        self.blocked_jobs = BlockedJobs()
        self._sort_keys: dict[tuple[int, ...], tuple[int, ...]] = {}
        self.lines = WaitingLines(order, self.units, self.blocked_jobs, self.heterogeneous_jobs)

    # --- job changes --------------------------------------------------------------------------------------------

    def refresh_job(self, leaf: JobNode, *, open_queue: bool) -> bool:
        """Update a job that changed; returns whether its demand did."""
        job = leaf.job
        assert job.spec is not None
        job.sort_pending()
        start = self.policy.start_size(job)
        leaf.started = missing_to_start(job, start) <= 0 and job.running > 0
        keys = self._keys(leaf)
        demand, gang = demand_of(leaf, self.nodes, self.state.capacity, open_queue=open_queue, start=start)
        moved = (demand, gang, keys.rank_class) != (leaf.demand, leaf.gang, leaf.rank_class)
        leaf.demand, leaf.gang, leaf.rank_class = demand, gang, self._shared(keys.rank_class)
        if moved:
            self.order.tree.regroup[leaf] = None
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
        """Jobs whose demand may differ because the cluster's capacity changed."""
        now = self.state.capacity
        if before == now:
            return {}
        least = [min(amounts) for amounts in zip_longest(before, now, fillvalue=0)]
        return {job: None for job in self.state.jobs.values() if asks_beyond(job, least)}

    def remove_job(self, leaf: JobNode) -> None:
        """Drop a job that leaves the share tree."""
        self.heterogeneous_jobs.pop(leaf, None)
        self._offer(leaf, None)
        self.gated_jobs.pop(leaf, None)
        self.blocked_jobs.discard(leaf)

    def choose_next_unit(self, leaf: JobNode) -> None:
        """Choose the next unit of a job whose unit was just placed."""
        job = leaf.job
        assert job.spec is not None
        if job.spec.topology is not None:
            self.state.set_rules(job, self.policy.node_rules(leaf))  # the placed tasks decide where the next may go
        if leaf.started and leaf not in self.heterogeneous_jobs and job.awaits(leaf.unit.parts[0][0]):
            return
        start = self.policy.start_size(job)
        leaf.started = missing_to_start(job, start) <= 0 and job.running > 0
        if job.spec.min_resources or leaf.path_tasks:
            self.state.changed_jobs[job] = None  # such a demand depends on what runs: recompute it
        self._set_keys(leaf, self._keys(leaf))
        self._offer(leaf, self._unit(leaf, start))

    def _set_keys(self, leaf: JobNode, keys: JobSortKeys) -> None:
        if (keys.before, keys.after) != (leaf.before, leaf.after):
            leaf.before, leaf.after = self._shared(keys.before), self._shared(keys.after)
            self.order.tree.mark(leaf)
            self.order.tree.moved[leaf] = None

    def _keys(self, leaf: JobNode) -> JobSortKeys:
        """A job's sort keys among its siblings; by age if its queue is FIFO, or if no plugin orders jobs by share."""
        job = leaf.job
        keys = self.policy.job_keys(job, self.state.job_priority(job), leaf.started)
        if not self.fifo_queues.is_fifo(leaf) and (self.policy.jobs_by_share or not self.order.has_targets):
            return keys
        class_ = (*keys.rank_class, leaf.rank[0])
        return JobSortKeys(class_, (), class_)

    def _shared(self, key: tuple[int, ...]) -> tuple[int, ...]:
        """One object for equal sort keys: many jobs have the same. Those of jobs that have ended do not pile up."""
        if len(self._sort_keys) > 2 * len(self.order.tree.jobs) + 100:
            self._sort_keys.clear()
        return self._sort_keys.setdefault(key, key)

    # --- units ------------------------------------------------------------------------------------------------

    def _unit(self, leaf: JobNode, start: int) -> AllocationUnit | None:
        job = leaf.job
        missing = missing_to_start(job, start)
        if missing > 1 or (missing > 0 and job.spec is not None and job.spec.min_task_member):
            if len(job.pending) > 1:
                self.heterogeneous_jobs[leaf] = None
            else:
                self.heterogeneous_jobs.pop(leaf, None)
            runs = self._gang(job, missing)
            # Best-effort tasks are not served through the share tree on their own: backfill places them.
            return self._get(runs) if any(shape.ask for shape, _ in runs) else None
        shapes = [task.shape for task in job.next_tasks()]
        if not shapes:
            self.heterogeneous_jobs.pop(leaf, None)
            return None
        if len(shapes) == 1:
            self.heterogeneous_jobs.pop(leaf, None)
            return self._get(((shapes[0], 1),))
        self.heterogeneous_jobs[leaf] = None
        return self._first_of(leaf, shapes)

    def _gang(self, job: Job, missing: int) -> Parts:
        """The tasks a job would start together, in task order but without those that fit nowhere now; (): too few."""
        assert job.spec is not None
        if len(job.pending) == 1 and not job.spec.min_task_member:
            shape, waiting = next(iter(job.pending.items()))
            return ((shape, missing),) if len(waiting) >= missing else ()
        barred = barred_shapes(job, self.nodes)
        most = slots_on_empty_nodes(job, self.nodes) if len(job.pending) > 1 else {}
        first = runs = gang_runs(job, missing, barred, GangCapacity(most, self.state.capacity)) or gang_runs(
            job, missing, barred
        )
        while runs and not self._can_place(runs):
            tried = self.units.find(runs)
            if tried is not None and tried.short is not None:
                shape, placed = tried.short
                most[shape] = placed
            most |= {shape: 0 for shape, _ in runs if shape in self.infeasible_shapes}
            other = gang_runs(job, missing, barred, GangCapacity(most, self.state.capacity))
            if not other or other == runs:
                return first  # no smaller selection is placeable: wait for the preferred one
            runs = other
        return runs

    def _first_of(self, leaf: JobNode, shapes: list[TaskShape]) -> AllocationUnit:
        """The next unit of a job with unlike tasks: the first of its shapes that is owed and fits, else that fits.

        If none fits, the first that is owed, since the job may preempt for it.
        """
        choice = [shape for shape in shapes if self._can_place(((shape, 1),))] or shapes
        owed = (shape for shape in choice if self.order.is_owed(leaf, shape.ask))
        return self._get(((next(owed, choice[0]), 1),))

    def _can_place(self, runs: Parts) -> bool:
        """Whether a unit of these tasks may be placeable now. Creates no unit, so that none is left over."""
        self._look_at(runs)
        unit = self.units.find(runs)
        return self.is_open(unit) if unit is not None else not any(shape in self.infeasible_shapes for shape, _ in runs)

    def _get(self, runs: Parts) -> AllocationUnit:
        self._look_at(runs)
        return self.units.unit(runs)[0]

    def _look_at(self, runs: Parts) -> None:
        """Find out which of these shapes fit nowhere. For shapes of an existing unit this is known at all times."""
        for shape, _ in runs:
            if shape not in self.infeasible_shapes and shape not in self.units.of_shape and not self._may_fit(shape):
                self.mark_infeasible(shape)

    def _may_fit(self, shape: TaskShape) -> bool:
        """Whether a task may fit now. Inter-pod constraints need an attempt; until then any suitable node will do."""
        return self.nodes.possible(shape) if shape.coupled else self.nodes.fits_somewhere(shape)

    def is_open(self, unit: AllocationUnit) -> bool:
        """Whether a unit may be placeable now."""
        if unit.tried:
            return False
        infeasible = self.infeasible_shapes
        for shape, _ in unit.parts:
            if shape in infeasible:
                return False
        return True

    def _offer(self, leaf: JobNode, unit: AllocationUnit | None) -> None:
        line = self._line_of(leaf, unit) if unit is not None else None
        if line is not None:
            self.lines.enter(leaf, line)
            if not line.able:
                self.blocked_jobs.block(leaf, line.unit.reason or self._reason(line.unit))
            return
        if leaf.waiting_line is not None:
            unlike = leaf in self.heterogeneous_jobs
            self.order.leave_line(leaf)
            if not unlike:  # its tasks have changed since it joined the line
                self.heterogeneous_jobs.pop(leaf, None)
        if leaf.unit is not unit:
            self.lines.leave_unit(leaf, unit)
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
            self.blocked_jobs.block(leaf, unit.reason or self._reason(unit))

    def _reason(self, unit: AllocationUnit) -> str:
        """Why a unit cannot be placed; the text is stable, so that it does not cause needless condition updates."""
        ask = [0] * len(self.state.registry)
        for j, amount in unit.ask:
            ask[j] = amount
        what = ", ".join(f"{name} {amount}" for name, amount in self.state.registry.format(tuple(ask)).items())
        who = "one task" if unit.size == 1 else f"{unit.size} tasks together"
        rule = unit.topology
        where = f"HyperNode of tier <= {rule.highest}" if rule is not None and rule.hard else "node"
        unit.reason = f"no {where} has enough idle capacity for {who} ({what})"
        return unit.reason

    # --- waiting lines ----------------------------------------------------------------------------------------------

    def _line_of(self, leaf: JobNode, unit: AllocationUnit) -> WaitingLine | None:
        """The line in which a job waits for its unit; None: by itself."""
        if self.fifo_queues.in_use or leaf in self.gated_jobs or not self.order.may_line_up(leaf):
            return None
        menu = None
        if leaf in self.heterogeneous_jobs or (leaf.waiting_line is not None and leaf.waiting_line.menu is not None):
            menu = self._menu(leaf)
            if not menu:
                return None
            unit = self._choose(menu)
        line = self.lines.find(leaf, unit, menu)
        if line.unit is not unit:  # nodes have changed since the line chose
            self.lines.switch(line, unit)
        if line.able is not self.is_open(line.unit):
            self.order.open_line(line, not line.able)
        return line

    def _menu(self, leaf: JobNode) -> Menu | None:
        """The shapes among which a job of unlike tasks chooses, in task order; None if its next unit is a gang."""
        job = leaf.job
        assert job.spec is not None
        missing = missing_to_start(job, self.policy.start_size(job))
        if missing > 1 or (missing > 0 and job.spec.min_task_member):
            return None
        return tuple([task.shape for task in job.next_tasks()])

    def _choose(self, menu: Menu) -> AllocationUnit:
        """What jobs with these shapes would start next if they are owed nothing."""
        return self._get(((next((shape for shape in menu if self._can_place(((shape, 1),))), menu[0]), 1),))

    def _rechoose_line(self, line: WaitingLine) -> None:
        assert line.menu is not None
        unit = self._choose(line.menu)
        if unit is not line.unit:
            self.lines.switch(line, unit)
        self._reopen(line)

    def _reopen(self, line: WaitingLine) -> None:
        """Offer the unit of a line again after it became placeable or ceased to be."""
        unit: AllocationUnit = line.unit
        is_open = self.is_open(unit)
        self.order.open_line(line, is_open)
        if not is_open:
            self.blocked_jobs.block(line, unit.reason or self._reason(unit))

    def follow_targets(self, moved: Iterable[JobNode]) -> None:
        """After targets were set: move jobs between lines, and choose again for those of unlike tasks that moved."""
        tree = self.order.tree
        for leaf in (*tree.regrouped, *moved):
            unit: AllocationUnit | None = leaf.unit
            if unit is None:
                continue
            line = self._line_of(leaf, unit)
            if line is not leaf.waiting_line:
                if line is not None:
                    self.lines.enter(leaf, line)
                else:
                    self.order.leave_line(leaf)
        tree.regrouped.clear()
        self.recheck_heterogeneous(moved)

    # --- capacity changes -----------------------------------------------------------------------------------------

    def mark_infeasible(self, shape: TaskShape) -> None:
        """Record that a shape fits nowhere any more."""
        if shape not in self.infeasible_shapes:
            self.infeasible_shapes[shape] = None
            for unit in list(self.units.of_shape.get(shape, ())):
                self._reoffer(unit)

    def _mark_feasible(self, shape: TaskShape, unlike: bool) -> None:
        """Record that a shape that fitted nowhere fits again; ``unlike``: jobs of unlike tasks may wait for it."""
        del self.infeasible_shapes[shape]
        units = list(self.units.of_shape.get(shape, ()))
        chosen: set[JobNode] = {leaf for unit in units for leaf in unit.waiting} if unlike else set()
        for unit in units:
            self._reoffer(unit)  # its jobs of unlike tasks choose again
        if unlike:
            others = [leaf for leaf in self.heterogeneous_jobs if leaf not in chosen and leaf.job.awaits(shape)]
            self._rechoose_all(others)
        for line in self.lines.choosing(shape):
            self._rechoose_line(line)

    def mark_failed(self, unit: AllocationUnit, short: tuple[TaskShape, int] | None = None) -> None:
        """Record a failed attempt; ``short``: the shape of which only this many tasks could be placed."""
        unit.tried, unit.short = True, short
        if self.nodes.reserved:
            self._kept_out.append(unit)
        self._reoffer(unit)

    def capacity_on(self, indices: Iterable[int], *, nowhere_else: bool = False) -> None:
        """Recheck the infeasible shapes on nodes that have capacity they did not have before."""
        fitting = self.nodes.fitting_on(self.infeasible_shapes, indices, nowhere_else=nowhere_else)
        if not fitting:
            return
        # Of many shapes few are wanted by jobs of unlike tasks. Such jobs may leave lines with a menu meanwhile.
        all_wanted = len(fitting) == 1 or bool(self.lines.choosing())
        wanted = set[TaskShape]()
        if not all_wanted:
            wanted = {shape for leaf in self.heterogeneous_jobs for shape in leaf.job.pending_shapes()}
        for shape in fitting:
            self._mark_feasible(shape, all_wanted or shape in wanted)

    def gate_job(self, leaf: JobNode, reason: str) -> None:
        """Record that a gate rejected the job, which is then no candidate for the rest of the cycle."""
        self.gated_jobs[leaf] = reason
        self.blocked_jobs.block(leaf, reason)
        self.offer_again(leaf)

    def ungate_job(self, leaf: JobNode) -> None:
        """Make a job a candidate again after the gate that rejected it has lifted."""
        del self.gated_jobs[leaf]
        self.blocked_jobs.discard(leaf)
        self.offer_again(leaf)

    def offer_again(self, leaf: JobNode) -> None:
        """Pass a job's next unit to the serving order again."""
        if leaf.waiting_line is not None and leaf.waiting_line.menu is not None:
            self.heterogeneous_jobs[leaf] = None
        self._offer(leaf, leaf.unit)

    def begin_cycle(self, grown: Iterable[int], *, changed: bool, gates_moved: bool) -> None:
        """Before the actions: ``grown`` nodes have more capacity; ``changed``: a pod was placed or removed.

        ``gates_moved``: a gate might now admit what it rejected.
        """
        for leaf in list(self.gated_jobs) if gates_moved else ():
            del self.gated_jobs[leaf]
            self.offer_again(leaf)
        grown = list(grown)
        self.capacity_on(grown, nowhere_else=True)
        again = [u for u in self.units if u.tried and (grown or (changed and u.coupled) or u in self._kept_out)]
        self._kept_out.clear()
        for unit in again:
            unit.tried, unit.short = False, None
            if unit.wanted:
                self._reoffer(unit)
            else:
                self.units.drop(unit)
        if again:  # a job of unlike tasks may have skipped one of them
            self.recheck_heterogeneous(list(self.heterogeneous_jobs))
            for line in self.lines.choosing():
                self._rechoose_line(line)

    def keep_shapes(self, used: Container[TaskShape]) -> None:
        """Forget all shapes but these."""
        self.infeasible_shapes = {shape: None for shape in self.infeasible_shapes if shape in used}

    def nodes_rebuilt(self) -> None:
        """Recheck every shape after nodes were added, removed or changed. The caller refreshes every job afterwards."""
        self.infeasible_shapes.clear()
        for unit in list(self.units):
            unit.tried, unit.short = False, None
            if not unit.wanted:
                self.units.drop(unit)
        for shape in list(self.units.of_shape):
            if not self._may_fit(shape):
                self.infeasible_shapes[shape] = None

    def recheck_heterogeneous(self, leaves: Iterable[JobNode]) -> None:
        """Choose the units of jobs with unlike tasks again: another of their shapes may be owed or fit now."""
        self._rechoose_all([leaf for leaf in leaves if leaf in self.heterogeneous_jobs])

    def _rechoose_all(self, leaves: list[JobNode]) -> None:
        """Choose again for many jobs with unlike tasks. Those that have started and wait by themselves are the most."""
        if not leaves:
            return
        if self.fifo_queues.in_use:
            for leaf in leaves:
                self._rechoose(leaf)
            return
        is_owed = self.order.is_owed
        fits: dict[TaskShape, bool] = {}
        units: dict[TaskShape, AllocationUnit] = {}
        offered: dict[tuple[AllocationUnit, bool], list[JobNode]] = {}
        for leaf in leaves:
            shapes = self._waiting_alone(leaf)
            if not shapes:
                self._rechoose(leaf)
                continue
            for shape in shapes:
                if shape not in fits:
                    fits[shape] = self._can_place(((shape, 1),))
            choice = [shape for shape in shapes if fits[shape]] or shapes
            shape = choice[0]
            for other in choice:
                if is_owed(leaf, other.ask):
                    shape = other
                    break
            unit = units.get(shape)
            if unit is None or not unit.wanted:  # it may have been dropped with the last job that waited for it
                unit = units[shape] = self._get(((shape, 1),))
            if leaf.unit is not unit:
                self.lines.leave_unit(leaf, unit)
                leaf.unit = unit
                unit.waiting[leaf] = None
            offered.setdefault((unit, fits[shape]), []).append(leaf)
            if not fits[shape]:
                self.blocked_jobs.block(leaf, unit.reason or self._reason(unit))
        for (unit, is_open), alike in offered.items():
            self.order.set_candidates(alike, unit.ask, is_open)

    def _waiting_alone(self, leaf: JobNode) -> list[TaskShape]:
        """The shapes, in task order, of which a started job with unlike tasks starts one next.

        Empty if the job starts a gang, is rejected by a gate, or may stand in a line.
        """
        job = leaf.job
        assert job.spec is not None
        if not leaf.starts or leaf.waiting_line is not None or leaf in self.gated_jobs or job.spec.min_task_member:
            return []
        tasks = job.next_tasks()
        if len(tasks) < 2 or missing_to_start(job, self.policy.start_size(job)) > 1:
            return []
        return [task.shape for task in tasks]

    def _rechoose(self, leaf: JobNode) -> None:
        self._offer(leaf, self._unit(leaf, self.policy.start_size(leaf.job)))

    def _reoffer(self, unit: AllocationUnit) -> None:
        """Offer a unit again, for all jobs that wait with it, after it became placeable or ceased to be."""
        is_open = self.is_open(unit)
        reason = "" if is_open else unit.reason or self._reason(unit)
        ordinary: list[JobNode] = []
        unlike: list[JobNode] = []
        heterogeneous, gated, in_order = self.heterogeneous_jobs, self.gated_jobs, self.fifo_queues.in_use
        batch = self.blocked_jobs.begin_batch()
        for leaf in list(unit.waiting):
            if leaf in heterogeneous:
                unlike.append(leaf)
                continue
            if unlike:  # in the order in which they wait: jobs are told so
                self._rechoose_all(unlike)
                unlike = []
            if in_order or leaf in gated:
                self._offer(leaf, unit)
            else:
                ordinary.append(leaf)
                if not is_open:
                    self.blocked_jobs.block(leaf, reason)
        self._rechoose_all(unlike)
        if ordinary:
            self.order.set_candidates(ordinary, unit.ask, is_open)
        for line in list(unit.lines):
            if line.menu is None:
                self._reopen(line)
            elif line.members:
                self._rechoose_line(line)
        self.blocked_jobs.end_batch(batch)

    def validate(self) -> None:
        """Check units and waiting lines against the jobs."""
        self.lines.validate()
        for unit in self.units:
            assert all(line.able == self.is_open(unit) for line in unit.lines)
            assert all(leaf.waiting_line is None and leaf.unit is unit for leaf in unit.waiting)
