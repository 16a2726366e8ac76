"""The engine: events in, decisions out. Pure and deterministic: no I/O, no clock, no threads, no chance.

``apply`` takes events at any time and only writes down what they touch. ``cycle`` (see ``cycle``) brings the
derived structures up to date, runs the actions and returns what was decided. The state assumes its own decisions;
the shell confirms them, or says that they failed, by events.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from kubebase.resource_vector import Registry
from pumice.fairness.tree import JobNode, Kind, ShareNode, ShareTree
from pumice.model.accounts import ClusterNode, Job, Task
from pumice.model.events import Event, EvictFailed
from pumice.model.hierarchy import Layout, inner_paths, lay_out
from pumice.model.objects import JobPhase, Queue, QueueState, TaskStatus
from pumice.model.state import ClusterState
from pumice.scheduling.brakes import NONE, Brakes, brakes_of
from pumice.scheduling.candidates import Candidates
from pumice.scheduling.config import SchedulerConfig
from pumice.scheduling.cycle import run_cycle
from pumice.scheduling.decisions import Bind, Decision
from pumice.scheduling.forgetting import SHAPES, forget_shapes
from pumice.scheduling.holds import Holds
from pumice.scheduling.memory import Memory
from pumice.scheduling.mend import notice
from pumice.scheduling.nodes import NodeTable
from pumice.scheduling.policy import PluginFactory, Policy
from pumice.scheduling.takers import Takers
from pumice.scheduling.transaction import Departure
from pumice.scheduling.unstartable import Unstartable

SPARED = 30_000_000
"""For how long a task whose eviction failed is spared the first time (microseconds)."""


class Engine:
    """A cluster, a configuration, and what follows."""

    def __init__(
        self,
        config: SchedulerConfig,
        factories: Mapping[str, PluginFactory],
        registry: Registry | None = None,
        brakes: Brakes = NONE,
        state: ClusterState | None = None,
    ) -> None:
        self.state = state if state is not None else ClusterState(registry)
        self.state.watcher = self
        self.tree = ShareTree(len(self.state.registry))
        self.policy = Policy(config, factories, self.state, self.tree)
        self.order = self.policy.order(self.tree, self.state.capacity)
        self.nodes = NodeTable(self.policy.filters, self.policy.scorers)
        self.candidates = Candidates(self.state, self.order, self.nodes, self.policy)
        self.holds = Holds(self.order.patience, self.order.hold_limit) if self.order.patience >= 0 else None
        self.layout: Layout = lay_out({})
        self.decisions: list[Decision] = []
        self.pipelined: dict[Task, None] = {}  # tasks that wait on their node, in the order in which they came
        self.awaited: dict[str, tuple[str, ...]] = {}  # and the victims they wait for, by name
        self.just_bound: dict[Task, Bind] = {}  # tasks that got their place in this cycle
        self._withdrawn: list[Bind] = []  # and what was said about those that lost it again
        self.just_pipelined: dict[Task, None] = {}  # tasks that were told to wait in this cycle
        self._evictions_failed: dict[str, tuple[int, int]] = {}  # how often, and until when the task is spared
        self.conditions: dict[str, str] = {}
        self.unstartable = Unstartable()
        self.queue_conditions: dict[str, str] = {}  # what was last said about queues, by queue/type
        self.tracing = False
        self.entering: Callable[[str], None] = lambda part: None  # hears which part of a cycle comes next
        self.now = 0
        self.stamp = 0  # the latest start; never twice the same for two units
        self._demand_moved = True  # targets may differ
        self._held_moved = True  # whole targets may differ
        self._capacity_seen: list[int] = []
        self.refused_queues: dict[str, str] = {}  # queues that no job below may start in, and why
        self._leaf_queues: set[str] = set()  # names of the queues that may take jobs
        self._strays_moved = False  # whether a job in another queue came, went or changed
        self._open: dict[ShareNode, bool] = {}  # queues that take new work, as far as asked
        self._to_enqueue: dict[JobNode, None] = {}
        self._to_backfill: dict[JobNode, None] = {}
        self.incomplete: dict[str, int] = {}  # jobs with a part of their gang only, and since when (see ``mend``)
        self.acquainted = False  # whether a cycle has been run: until then everything is new (see ``relieve``)
        self._grown: dict[int, None] = {}  # nodes on which room grew since the last cycle
        self._pods_moved = False
        self.solved = 0  # how often targets were set
        self._many_shapes = SHAPES  # above so many, those that nobody has any more are forgotten
        self.moves = 0  # counts what may let a job start that could not: pods, targets, nodes
        self.brakes = brakes  # where the configuration says nothing
        self.reclaims = Takers("reclaim", brakes_of(config, brakes), across=True)
        self.preempts = Takers("preempt", NONE, across=False)

    def apply(self, event: Event) -> None:
        """Take in one event."""
        if self.tree.width < len(self.state.registry):
            self.tree.widen(len(self.state.registry))
        self.state.apply(event)
        if isinstance(event, EvictFailed):
            self.spare_for_a_while(event.task)

    def spare_for_a_while(self, task: str) -> None:
        """Who could not be evicted is not asked again at once: half a minute, then twice as long each time."""
        times = self._evictions_failed.get(task, (0, 0))[0] + 1
        self._evictions_failed[task] = times, self.now + min(SPARED << (times - 1), SPARED * 32)

    def spared_until(self, task: Task) -> int:
        """Until when a task is left alone because its eviction failed; 0: it is not."""
        return self._evictions_failed.get(task.spec.key, (0, 0))[1]

    def cycle(self, now: int) -> list[Decision]:
        """One scheduling cycle at that time (microseconds, never backwards); returns its decisions."""
        self.now = max(self.now, now)
        self.decisions = []
        self.just_bound.clear()
        self.just_pipelined.clear()
        if len(self._evictions_failed) > len(self.state.tasks):
            self._evictions_failed = {k: v for k, v in self._evictions_failed.items() if k in self.state.tasks}
        if len(self.awaited) > len(self.pipelined):
            self.awaited = {task.key: self.awaited.get(task.key, ()) for task in self.pipelined}
        run_cycle(self)
        return self.decisions

    def under(self, config: SchedulerConfig, factories: Mapping[str, PluginFactory]) -> Engine:
        """This cluster under another configuration: what runs and what was decided stays.

        Nothing has changed if this raises. Afterwards the old engine is of no use: the state follows the new one.
        """
        state, memory = self.state, self.memory()
        begun = False
        try:
            engine = Engine(config, factories, brakes=self.brakes, state=state)
            begun = True
            self._ask_for_everything()
            for task in sorted(state.tasks.values(), key=lambda task: (task.started, task.order)):
                if task.status.has_node:
                    engine.entered(task)
            engine.recall(memory)
        except BaseException:
            state.watcher = self
            if begun:
                self._ask_for_everything()
            raise
        engine.entering = self.entering
        return engine

    def memory(self) -> Memory:
        """What only this engine knows, for one that takes its place. Asked for between cycles."""
        return Memory(
            self.now,
            self.stamp,
            self.tracing,
            self.solved,
            dict(self.conditions),
            dict(self.queue_conditions),
            dict(self.awaited),
            dict(self._evictions_failed),
            {node.path: node.turn for node in self.tree.root.walk() if node.turn},
            self.reclaims.memory(),
            self.preempts.memory(),
            self.holds.memory(self.nodes) if self.holds is not None else None,
            dict(self.incomplete),
            tuple(self.state.arrivals),
            self.acquainted,
            self.unstartable.memory(),
        )

    def recall(self, memory: Memory) -> None:
        """Go on in the place of an engine that had this memory; the state is as it was there."""
        self.now, self.stamp, self.tracing = memory.now, memory.stamp, memory.tracing
        self.conditions, self.queue_conditions = dict(memory.conditions), dict(memory.queue_conditions)
        self.awaited, self._evictions_failed = dict(memory.awaited), dict(memory.evictions_failed)
        self.incomplete = dict(memory.incomplete)
        self.state.arrivals, self.acquainted = dict.fromkeys(memory.arrivals), memory.acquainted
        self.settle()
        for node in self.tree.root.walk():
            node.turn = memory.turns.get(node.path, 0)
        self._held_moved = True  # turns count in rounding
        self.solved = memory.solved
        self.reclaims.recall(memory.reclaims, self.tree)
        self.preempts.recall(memory.preempts, self.tree)
        self.unstartable.recall(memory.unstartable, self)
        if self.holds is not None and memory.holds is not None:
            self.holds.recall(memory.holds, self)

    def _ask_for_everything(self) -> None:
        """Whoever settles next looks at every queue, node and job."""
        state = self.state
        state.queues_touched = state.nodes_described = True
        state.jobs_touched.update(dict.fromkeys(state.jobs.values()))
        state.jobs_gone.update(dict.fromkeys(key for key in self.tree.jobs if key not in state.jobs))

    def next_stamp(self) -> int:
        """The start time of a unit that is placed now; it counts as given when the unit is committed."""
        return max(self.now, self.stamp + 1)

    # --- following events (Watcher) ---------------------------------------------------------------------------

    def entered(self, task: Task) -> None:
        """A task counts now as its status says."""
        if task.status.held and task.job is not None:
            leaf = self.tree.jobs.get(task.job.key)
            if leaf is not None and leaf.job is task.job:
                self._hold(leaf, task)
        if task.status.has_node and task.node is not None:
            self.stamp = max(self.stamp, task.started)
            self._pods_moved = True
            self.nodes.touch(task.node)
            if task.status is TaskStatus.PIPELINED:
                self.pipelined[task] = None
            elif task.status is TaskStatus.RELEASING and task.node.waiting:
                self.room_grew(task.node)  # whoever waits there claims less of what is idle
            for plugin in self.policy.followers:
                plugin.placed(task, task.node)

    def leaving(self, task: Task) -> None:
        """A task is about to count no longer as its status says."""
        if task.status.held and task.job is not None:
            leaf = self.tree.jobs.get(task.job.key)
            if leaf is not None and leaf.job is task.job:
                self._held_moved = True
                self.order.release(leaf, task.shape.ask, task.started, 1, task.owed)
        if task.status.has_node and task.node is not None:
            self.pipelined.pop(task, None)
            self.room_grew(task.node)
            for plugin in self.policy.followers:
                plugin.removed(task, task.node)

    def room_grew(self, node: ClusterNode) -> None:
        """There may be more room on a node than before."""
        self._pods_moved = True
        if (index := self.nodes.touch(node)) >= 0:
            self._grown[index] = None

    def _hold(self, leaf: JobNode, task: Task) -> None:
        self._held_moved = True
        self.order.hold(leaf, task.shape.ask, task.started, 1, task.owed)

    # --- bringing everything up to date -------------------------------------------------------------------------

    def settle(self) -> None:
        """Before the actions: follow up on what events touched, and set targets if they can have moved."""
        state = self.state
        if self.tree.width < len(state.registry):
            self.tree.widen(len(state.registry))
        jobs = state.jobs_touched | self.candidates.affected_by_capacity(self._capacity_seen)
        resized = state.capacity != self._capacity_seen
        if state.queues_touched:
            self._follow_queues()
            jobs = dict.fromkeys(state.jobs.values())
        if state.nodes_described:
            self.nodes.rebuild(state.nodes.values(), self.tree.width)
            self._grown.clear()  # indices of the old table; every shape is looked at again
            self.candidates.nodes_rebuilt()
            jobs = dict.fromkeys(state.jobs.values())
        for key in state.jobs_gone:
            self._detach(key)
        if state.queues_touched or resized:
            self.policy.set_bounds()  # what a queue may hold decides what of its jobs is demand
        for job in jobs:
            self._follow_job(job)
        if state.queues_touched or resized or self._strays_moved:
            self._refuse_queues()
        if resized:
            self._capacity_seen = list(state.capacity)
            self._demand_moved = True
            self.order.restructure()
            for node in self.tree.root.walk():
                self.tree.mark(node)
        self._demand_moved = self._demand_moved or (self._held_moved and self.policy.bounds_moved())
        moved_at_all = self._demand_moved or self._held_moved or self._pods_moved
        self.candidates.begin_cycle(self._grown, changed=self._pods_moved, gates_moved=moved_at_all)
        if self._demand_moved:
            self.policy.set_bounds()
            self.solved += 1
        if self._demand_moved or self._held_moved:
            moved = self.order.refresh_targets(demand_changed=self._demand_moved)
            self.candidates.recheck_mixed(moved)
        if moved_at_all or state.victims_touched:
            self.moves += 1
        self._demand_moved = self._held_moved = self._pods_moved = False
        self._grown.clear()
        state.jobs_touched.clear()
        state.jobs_gone.clear()
        state.queues_touched = state.nodes_described = state.victims_touched = False
        self.nodes.compact()
        if len(state.shapes) > self._many_shapes:
            self._many_shapes = forget_shapes(self)

    def _refuse_queues(self) -> None:
        """Ask again in which queues nothing may start; jobs that this touches change."""
        self._strays_moved = False
        refused = self.policy.queue_refusals()
        if refused != self.refused_queues:
            self.refused_queues = refused
            self._open.clear()
            for leaf in self.tree.jobs.values():
                self.refresh(leaf)

    def _follow_queues(self) -> None:
        """Bring the upper part of the tree in line with the queues."""
        self.layout = lay_out(self.state.queues)
        parents = inner_paths(self.layout.places)
        self._leaf_queues = {name for name, path in self.layout.path_of.items() if path not in parents}
        self._open.clear()
        self.candidates.lines.in_use = any(queue.fifo for queue in self.state.queues.values())
        nodes: dict[tuple[str, ...], ShareNode] = {}
        for path, place in self.layout.places.items():
            node = self.tree.root if len(path) == 1 else self.tree.child(nodes[path[:-1]], Kind.QUEUE, path[-1])
            nodes[path] = node
            node.object = place.queue
            node.weight = float(place.weight)
            node.rank = (place.created, Kind.QUEUE, path[-1])
            self.tree.mark(node)
        for key, leaf in list(self.tree.jobs.items()):
            if self._home(leaf.job) is not leaf.parent:
                self._detach(key)
        keep = set(nodes.values())
        for node in reversed(list(self.tree.root.walk())):
            if node.kind is Kind.NAMESPACE:
                node.weight = float(self.state.namespace_weight(node.name))
                self.tree.mark(node)
            elif node.kind is Kind.QUEUE and node not in keep and not node.children:
                self.tree.remove(node)
        self._demand_moved = True
        self.order.restructure()

    def _home(self, job: Job) -> ShareNode | None:
        """The node a job's leaf belongs under; None: its queue has no place."""
        if job.spec is None:
            return None
        path = self.layout.path_of.get(job.spec.queue)
        if path is None:
            return None
        node = self.tree.root
        for name in path[1:]:
            found = node.children.get((Kind.QUEUE, name))
            if found is None:
                return None
            node = found
        queue = self.queue_of(node)
        if self.policy.namespace_level and not (queue is not None and queue.fifo):  # there jobs stand in one line
            namespace = node.children.get((Kind.NAMESPACE, job.spec.namespace))
            if namespace is None:
                namespace = self.tree.child(node, Kind.NAMESPACE, job.spec.namespace)
                namespace.weight = float(self.state.namespace_weight(job.spec.namespace))
            node = namespace
        return node

    def _follow_job(self, job: Job) -> None:
        home = self._home(job)
        leaf = self.tree.jobs.get(job.key)
        self.unstartable.note(job.key)
        if leaf is not None and (leaf.parent is not home or leaf.job is not job):
            self._detach(job.key)
            leaf, home = None, self._home(job)  # that of before may have gone with its last job
        if home is None:
            return
        if leaf is None:
            leaf = self.tree.add_job(job, home)
            self._demand_moved = True
            for task in job.tasks.values():
                if task.status.held:
                    self._hold(leaf, task)
        assert job.spec is not None
        self._strays_moved = self._strays_moved or job.spec.queue not in self._leaf_queues
        user = job.spec.user or job.spec.namespace
        if user != leaf.user:
            leaf.user = user
            self._demand_moved = True  # what users may hold bounds targets
        self.state.set_rules(job, self.policy.node_rules(leaf))
        self.refresh(leaf)

    def refresh(self, leaf: JobNode) -> None:
        """Take in that a job changed: its demand, its unit, and which actions have to look at it."""
        job, takes_work = leaf.job, self._is_open(leaf)
        if self.candidates.refresh(leaf, open_queue=takes_work):
            self._demand_moved = True
        self.tree.touch(leaf)
        _keep(self._to_enqueue, leaf, takes_work and job.phase is JobPhase.PENDING)
        _keep(self._to_backfill, leaf, takes_work and any(shape.best_effort for shape in job.pending))
        notice(self, job)

    def refresh_job(self, job: Job) -> None:
        """The same by its job."""
        if (leaf := self.tree.jobs.get(job.key)) is not None:
            self.refresh(leaf)

    def _detach(self, key: str) -> None:
        self.unstartable.note(key)
        leaf = self.tree.jobs.get(key)
        if leaf is None:
            return
        self.candidates.retire(leaf)
        self._to_enqueue.pop(leaf, None)
        self._to_backfill.pop(leaf, None)
        for task in leaf.job.tasks.values():
            if task.status.held:
                self.order.release(leaf, task.shape.ask, task.started, 1, task.owed)
        parent = leaf.parent
        self._strays_moved = self._strays_moved or leaf.queue.object not in self._leaf_queues
        self.order.forget(leaf)
        self.tree.remove(leaf)
        if parent is not None and parent.kind is Kind.NAMESPACE and not parent.children:
            self.tree.remove(parent)
        self.conditions.pop(key, None)
        self.incomplete.pop(key, None)
        self._demand_moved = True

    def takes_work(self, job: Job) -> bool:
        """Whether a job may start something, as far as its queue goes."""
        leaf = self.tree.jobs.get(job.key)
        return leaf is not None and self._is_open(leaf)

    def _is_open(self, leaf: JobNode) -> bool:
        """Whether a job's queue takes new work: a leaf of the queue tree, Open, and so is every queue above it."""
        queue = leaf.queue
        if queue not in self._open:
            self._open[queue] = self.takes_jobs(queue) and self.shut_at(queue) is None
        return self._open[queue]

    def takes_jobs(self, queue: ShareNode) -> bool:
        """Whether a queue may have jobs: it has an object and no queues below it."""
        return queue.object is not None and queue.object in self._leaf_queues

    def shut_at(self, queue: ShareNode) -> Queue | None:
        """The queue, itself or the nearest above it, that lets nothing start: not Open, or refused; None: all do."""
        above: ShareNode | None = queue
        while above is not None:
            found = self.queue_of(above)
            if found is not None and (found.state is not QueueState.OPEN or found.name in self.refused_queues):
                return found
            above = above.parent
        return None

    def queue_of(self, node: ShareNode) -> Queue | None:
        """The Queue object behind a node of the tree."""
        return self.state.queues.get(node.object) if node.object is not None else None

    # --- what the actions ask ------------------------------------------------------------------------------------

    def waiting_to_enqueue(self) -> list[JobNode]:
        """Pending jobs in open queues."""
        return list(self._to_enqueue)

    def waiting_for_backfill(self) -> list[JobNode]:
        """Jobs with waiting tasks that ask for nothing, oldest first."""
        return sorted(self._to_backfill, key=lambda leaf: (leaf.before, leaf.rank))

    def took(self, departures: Iterable[Departure]) -> None:
        """Tasks were let go so that another could start."""
        for gone in departures:
            assert gone.task.job is not None
            self.refresh_job(gone.task.job)
            if (index := self.nodes.touch(gone.node)) >= 0:
                self.nodes.freeing[index] = None
                self._grown[index] = None
        self.held_changed()

    def room_came(self) -> None:
        """Room grew in the middle of a cycle: what was known to fit nowhere may fit now, and whole targets differ."""
        self.candidates.begin_cycle(self._grown, changed=True, gates_moved=True)
        self._grown.clear()
        self.held_changed()

    def withdraw(self, task: Task) -> None:
        """A task that was to be bound in this cycle is not."""
        self._withdrawn.append(self.just_bound.pop(task))

    def forget_withdrawn(self) -> None:
        """After the actions: what was said about tasks that lost their place again in this cycle was never said."""
        if self._withdrawn:
            dropped = {id(bind) for bind in self._withdrawn}  # the very decision: the task may have found another place
            self.decisions = [decision for decision in self.decisions if id(decision) not in dropped]
            self._withdrawn.clear()

    def held_changed(self) -> None:
        """Something was placed in this cycle: whole targets may differ in the next."""
        self._held_moved = True
        self._pods_moved = True
        self.moves += 1

    def allows_now(self, task: Task, node: ClusterNode) -> bool:
        """Whether other pods have nothing against a task on its node, itself not counted."""
        for plugin in self.policy.followers:
            plugin.removed(task, node)
        allowed = self.nodes.allows_now(task.shape, self.nodes.index[node.name])
        for plugin in self.policy.followers:
            plugin.placed(task, node)
        return allowed

    def validate(self) -> None:
        """Check the state and the share tree against the long way round."""
        self.state.validate()
        self.tree.validate()


def _keep(chosen: dict[JobNode, None], leaf: JobNode, wanted: bool) -> None:
    if wanted:
        chosen[leaf] = None
    else:
        chosen.pop(leaf, None)
