"""Measures a run: waiting times, usage against entitlement, evictions; per queue at every level.

Jobs are counted at their leaf queue, and added up for the queues above it at the end. Usage and entitlement are step
functions. A queue is integrated when one of them changes, not at every event. The
entitlement is the H-DRF target (docs/fairness.md, section 3) of the jobs that are live at that moment, under every
policy: policies without targets are measured by the same scale. So it depends on demand, and a queue is entitled to no
more than it asks for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from kubebase.resource_vector import PODS
from pumice.engine.fairness.fluid_target.targets import set_targets
from pumice.engine.fairness.share_tree.share_node import NodeKind, ShareNode
from pumice.model.specs import Vector
from pumice.simulate.event_counts import POINTS, EventCounts
from pumice.simulate.figures import HOUR, SLOWDOWN_UNIT, QueueFigures, RunFigures, unit_of
from pumice.simulate.workload import SECOND

if TYPE_CHECKING:
    from pumice.engine.engine import Engine
    from pumice.simulate.live_job import LiveJob

SHORTEST_RUN = 10 * SECOND
"""A shorter run time counts as this in bounded slowdowns, as usual for this measure."""


Mark = tuple[tuple[int, ...], tuple[int, ...]]
"""The integrals of usage and entitlement up to the end of an interval, by resource."""


class _QueueRecord:
    """One queue, and the part of its integrals up to ``since``."""

    __slots__ = (
        "entitled",
        "entitled_sums",
        "figures",
        "held",
        "lost_sums",
        "marks",
        "node",
        "short_sums",
        "since",
        "used_sums",
    )

    def __init__(self, node: ShareNode, depth: int, resources: int, marks: int) -> None:
        self.node = node
        self.figures = QueueFigures(node.path, depth, _is_leaf(node))
        self.since = 0
        self.held: list[int] = [0]  # as seen last; any change of the node's list counts
        self.entitled: list[int] = [0]
        self.used_sums = [0] * resources
        self.entitled_sums = [0] * resources
        self.short_sums = [0] * resources
        self.lost_sums = [0] * resources
        nothing = (0,) * resources
        self.marks: list[Mark] = [(nothing, nothing)] * marks

    def integrate(self, now: int, places: list[int]) -> None:
        """Add the time since the last change."""
        length = now - self.since
        self.since = now
        if length <= 0:
            return
        held_amounts, entitled_amounts = self.held, self.entitled
        known_held, known_entitled = len(held_amounts), len(entitled_amounts)
        for i, place in enumerate(places):
            held = held_amounts[place] if place < known_held else 0
            entitled = entitled_amounts[place] if place < known_entitled else 0
            if held:
                self.used_sums[i] += held * length
            if entitled:
                self.entitled_sums[i] += entitled * length
                if entitled > held:
                    self.short_sums[i] += (entitled - held) * length


class Recorder:
    """The measurements of one run. ``on_job`` gets each job when it ends, or at the end of the run."""

    def __init__(self, expected_length: int, on_job: Callable[[LiveJob], None] | None = None) -> None:
        self._width = max(SECOND, expected_length // 400)  # of the intervals of series
        self._marks = 0  # intervals that have ended
        self._on_job = on_job
        self._records: list[_QueueRecord] = []
        self._record_of: dict[str, _QueueRecord] = {}  # of a queue by name
        self._places: list[int] = []
        self._demand_changed = True
        self._waiting = 0  # tasks
        self._idle_sums: list[int] = []
        self._idle_since = 0
        self._now = 0
        self._evictions = EventCounts(self._width)
        self.ended_jobs = 0
        self.started_tasks = 0

    def begin(self, engine: Engine, requests: Iterable[Vector]) -> None:
        """The queues and nodes are there. Only resources that some task requests are measured."""
        engine.prepare()
        self._engine = engine
        offered = [place for place, amount in enumerate(engine.state.capacity) if amount and place != PODS]
        asked = {place for request in requests for place, amount in enumerate(request) if amount}
        self._places = [place for place in offered if place in asked] or offered
        self._idle_sums = [0] * len(self._places)
        self._follow_tree()

    def use_engine(self, engine: Engine) -> None:
        """Another engine goes on in the place of the one before, or queues have come: look for them in its tree."""
        self._engine = engine
        self._follow_tree()

    def _follow_tree(self) -> None:
        known = {record.figures.path: record for record in self._records}
        for node in _in_tree_order(self._engine.tree.queues()):
            record = known.get(node.path)
            if record is None:
                record = _QueueRecord(node, node.path.count("/"), len(self._places), self._marks)
                record.since = self._now
                self._records.append(record)
            record.node = node
            record.figures.is_leaf = _is_leaf(node)
            if node.queue_name is not None:
                self._record_of[node.queue_name] = record
        self._records.sort(key=lambda record: record.figures.path.split("/"))

    def knows(self, queue: str) -> bool:
        """Whether a queue is in the tree."""
        return queue in self._record_of

    # --- what happens ---------------------------------------------------------------------------------------------

    def job_arrived(self, job: LiveJob) -> None:
        """A job is there; all its tasks wait."""
        self._demand_changed = True
        self._change_waiting(job.job.tasks)
        self._record_of[job.queue].figures.arrived += 1

    def tasks_arrived(self, tasks: int) -> None:
        """Tasks of a job that is there already wait; a negative number: they wait no longer, and did not start."""
        self._demand_changed = True
        self._change_waiting(tasks)

    def tasks_started(self, job: LiveJob, tasks: int, now: int) -> None:
        """Tasks of a job were bound."""
        self.started_tasks += tasks
        self._change_waiting(-tasks)
        if job.first_start is None:
            job.first_start = now
            self._record_of[job.queue].figures.waits.add(now - job.job.submit)

    def tasks_ended(self, job: LiveJob, tasks: int) -> None:
        """Tasks of a job ended well, and ask for nothing more."""
        self._demand_changed = True

    def task_evicted(self, job: LiveJob) -> None:
        """A task was evicted."""
        self._evictions.add(self._now)
        self._record_of[job.queue].figures.evictions += 1

    def task_lost(self, job: LiveJob, ran: int, request: Vector | None = None) -> None:
        """An evicted task is gone, with the work of so much time, and waits again."""
        self._change_waiting(1)
        job.lost += ran
        lost = job.request if request is None else request
        sums = self._record_of[job.queue].lost_sums
        for i, place in enumerate(self._places):
            if place < len(lost):
                sums[i] += lost[place] * ran

    def job_left(self, job: LiveJob) -> None:
        """A job has ended, or the run ends before it."""
        figures = self._record_of[job.queue].figures
        if job.end is not None:
            self.ended_jobs += 1
            shortest = max(job.job.run_time, SHORTEST_RUN)
            figures.finished += 1
            figures.slowdowns.add(max(SLOWDOWN_UNIT, (job.end - job.job.submit) * SLOWDOWN_UNIT // shortest))
        else:
            figures.unfinished += 1
            figures.never_started += job.first_start is None
        if self._on_job is not None:
            self._on_job(job)

    # --- time -------------------------------------------------------------------------------------------------------

    def advance(self, now: int) -> None:
        """Time passes; nothing changes until ``now``."""
        if now >= (self._marks + 1) * self._width:
            self._end_intervals(now)
        self._now = now

    def _end_intervals(self, now: int) -> None:
        """Note the integrals at the end of each interval until now. There are never more than ``POINTS`` for long."""
        while (end := (self._marks + 1) * self._width) <= now:
            for record in self._records:
                record.integrate(end, self._places)
                record.marks.append((tuple(record.used_sums), tuple(record.entitled_sums)))
            self._marks += 1
            if self._marks > POINTS:
                self._double_intervals()

    def _double_intervals(self) -> None:
        self._width *= 2
        self._marks //= 2
        for record in self._records:
            record.marks = record.marks[1::2]

    def observe(self, now: int) -> None:
        """A cycle has decided: integrate the queues whose usage or entitlement it changed."""
        engine = self._engine
        if self._demand_changed and not engine.order.has_targets:
            set_targets(engine.tree, engine.state.capacity)
        self._demand_changed = False
        if self._records[0].node.held != self._records[0].held:
            self._integrate_idle(now)
        for record in self._records:
            node = record.node
            held, entitled = node.held, node.entitled
            if held != record.held or entitled != record.entitled:
                record.integrate(now, self._places)
                record.held, record.entitled = held[:], entitled[:]

    def _change_waiting(self, tasks: int) -> None:
        if not self._waiting or not self._waiting + tasks:
            self._integrate_idle(self._now)
        self._waiting += tasks

    def _integrate_idle(self, now: int) -> None:
        """Add the idle capacity since the last change, if tasks waited in that time."""
        if self._waiting and now > self._idle_since:
            held, capacity = self._records[0].held, self._engine.state.capacity
            for i, place in enumerate(self._places):
                idle = capacity[place] - (held[place] if place < len(held) else 0)
                self._idle_sums[i] += max(0, idle) * (now - self._idle_since)
        self._idle_since = now

    # --- results ----------------------------------------------------------------------------------------------------

    def finish(self, now: int) -> None:
        """The run is over."""
        self.advance(now)
        while now > self._width * POINTS:
            self._double_intervals()
        self._integrate_idle(now)
        for record in self._records:
            record.integrate(now, self._places)
        self._evictions.extend_to(now)
        self._add_up()

    def _add_up(self) -> None:
        """Add what was counted at a queue to the queues above it."""
        known = {record.figures.path: record for record in self._records}
        for record in reversed(self._records):
            above = known.get(record.figures.path.rpartition("/")[0])
            if above is not None:
                above.figures.add(record.figures)
                above.lost_sums = [own + more for own, more in zip(above.lost_sums, record.lost_sums, strict=True)]

    def figures(self, policy: str, repeat: int, cycles: int) -> RunFigures:
        """Everything that was measured."""
        names, engine = self._engine.state.registry.names, self._engine
        units = [(i, names[place], unit_of(place)) for i, place in enumerate(self._places)]
        for record in self._records:
            figures = record.figures
            for i, name, unit in units:
                figures.used[name] = record.used_sums[i] / unit / HOUR
                figures.entitled[name] = record.entitled_sums[i] / unit / HOUR
                figures.shortfall[name] = record.short_sums[i] / unit / HOUR
                figures.lost[name] = record.lost_sums[i] / unit / HOUR
                used, entitled = [used[i] for used, _ in record.marks], [entitled[i] for _, entitled in record.marks]
                figures.used_series[name] = self._means([*used, record.used_sums[i]], unit)
                figures.entitled_series[name] = self._means([*entitled, record.entitled_sums[i]], unit)
        return RunFigures(
            policy,
            repeat,
            self._now,
            cycles,
            {name: engine.state.capacity[self._places[i]] / unit for i, name, unit in units},
            {name: self._idle_sums[i] / unit / HOUR for i, name, unit in units},
            self._evictions.width,
            [float(count) for count in self._evictions.counts],
            [record.figures for record in self._records],
        )

    def _means(self, sums: list[int], unit: int) -> list[float]:
        """The mean of each interval, from the sums up to their ends; the last interval ends now."""
        found, before = [], 0
        for index, total in enumerate(sums[: -(-self._now // self._width)]):
            length = min(self._width, self._now - index * self._width)
            found.append((total - before) / length / unit)
            before = total
        return found


def _is_leaf(queue: ShareNode) -> bool:
    """Whether no queue is below a queue; below a leaf are namespaces and jobs."""
    return not any(child.kind is NodeKind.QUEUE for child in queue.children.values())


def _in_tree_order(queues: list[ShareNode]) -> list[ShareNode]:
    """Queues by path: children after their parent, and beside each other."""
    return sorted(queues, key=lambda node: node.path.split("/"))
