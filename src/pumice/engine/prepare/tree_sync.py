"""Keeps the share tree in line with the queues and jobs of the cluster.

Queues form the upper part of the tree; a job is a leaf below its queue, or below its namespace there. ``TreeSync`` also
knows which queues accept work, and which jobs the actions ``enqueue`` and ``backfill`` have to consider.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from pumice.engine.fairness.share_tree.share_node import JobNode, NodeKind, ShareNode
from pumice.engine.recovery.partial_gangs import detect_partial_gang
from pumice.model.queue_tree import QueueTree, build_queue_tree, inner_paths
from pumice.model.specs import JobPhase, Queue, QueueState

if TYPE_CHECKING:
    from pumice.engine.context import SchedulingContext
    from pumice.engine.state.job import Job
    from pumice.engine.state.task import Task
    from pumice.engine.transaction import Eviction


class TreeSync:
    """Updates the share tree when queues or jobs change."""

    def __init__(self, context: SchedulingContext) -> None:
        self._context = context
        self.queue_tree: QueueTree = build_queue_tree({})  #: the path of every queue, and the queues that have none
        self.refused_queues: dict[str, str] = {}  #: queues below which no job may start, and why
        self._leaf_queues: set[str] = set()  #: exactly the queues that have a path and no queue below them
        self._parents: dict[tuple[str, str], ShareNode] = {}  #: where jobs of a queue and a namespace belong, if known
        self._open: dict[ShareNode, bool] = {}  #: whether a queue accepts work; filled on demand
        self._to_enqueue: dict[JobNode, None] = {}  #: Pending jobs in open queues
        self._to_backfill: dict[JobNode, None] = {}  #: jobs in open queues with pending best-effort tasks

    # ---- queues ----------------------------------------------------------------------------------------------------

    def follow_queues(self) -> None:
        """Bring the upper part of the tree in line with the queues."""
        context = self._context
        state, tree = context.state, context.tree
        self.queue_tree = build_queue_tree(state.queues)
        parents = inner_paths(self.queue_tree.placements)
        self._leaf_queues = {name for name, path in self.queue_tree.path_of.items() if path not in parents}
        self._open.clear()
        self._parents.clear()
        context.candidates.fifo_queues.enabled = any(queue.fifo for queue in state.queues.values())
        nodes: dict[tuple[str, ...], ShareNode] = {}
        for path, place in self.queue_tree.placements.items():
            node = tree.root if len(path) == 1 else tree.child(nodes[path[:-1]], NodeKind.QUEUE, path[-1])
            nodes[path] = node
            node.queue_name = place.queue
            node.weight = float(place.weight)
            node.rank = (place.created, NodeKind.QUEUE, path[-1], node.serial)
            tree.mark(node)
        for key, leaf in list(tree.jobs.items()):
            if self._parent_of(leaf.job) is not leaf.parent:
                self.detach(key)
        keep = set(nodes.values())
        for node in reversed(list(tree.root.walk())):
            if node.kind is NodeKind.NAMESPACE:
                node.weight = float(state.namespace_weight(node.name))
                tree.mark(node)
            elif node.kind is NodeKind.QUEUE and node not in keep and not node.children:
                tree.remove(node)
        context.changes.demand = True
        context.order.restructure()

    def refuse_queues(self) -> None:
        """Ask the plugins again which queues may start nothing, and refresh every job if that changed."""
        self._context.changes.stray_jobs = False
        refused = self._context.policy.queue_refusals()
        if refused != self.refused_queues:
            self.refused_queues = refused
            self._open.clear()
            for leaf in self._context.tree.jobs.values():
                self.refresh_leaf(leaf)

    def queue_of(self, node: ShareNode) -> Queue | None:
        """The Queue object of a node of the tree."""
        return self._context.state.queues.get(node.queue_name) if node.queue_name is not None else None

    def is_leaf_queue(self, queue: ShareNode) -> bool:
        """Whether a queue may have jobs: it has an object and no queues below it."""
        return queue.queue_name is not None and queue.queue_name in self._leaf_queues

    def closed_queue_above(self, queue: ShareNode) -> Queue | None:
        """The nearest queue, from this one up, that may start nothing: not Open, or refused by a plugin; or None."""
        above: ShareNode | None = queue
        while above is not None:
            found = self.queue_of(above)
            if found is not None and (found.state is not QueueState.OPEN or found.name in self.refused_queues):
                return found
            above = above.parent
        return None

    def _is_open(self, leaf: JobNode) -> bool:
        """Whether a job's queue accepts work: it is a leaf queue, and neither it nor an ancestor is closed."""
        queue = leaf.queue
        if queue not in self._open:
            self._open[queue] = self.is_leaf_queue(queue) and self.closed_queue_above(queue) is None
        return self._open[queue]

    # ---- jobs ------------------------------------------------------------------------------------------------------

    def follow_job(self, job: Job) -> None:
        """Bring the leaf of a changed job in line with it."""
        context = self._context
        tree, changes = context.tree, context.changes
        parent = self._parent_of(job)
        leaf = tree.jobs.get(job.key)
        context.unstartable.mark_changed(job.key)
        if leaf is not None and (leaf.parent is not parent or leaf.job is not job):
            self.detach(job.key)
            leaf, parent = None, self._parent_of(job)  # the namespace node may have been removed with its last job
        if parent is None:
            return
        if leaf is None:
            leaf = tree.add_job(job, parent)
            changes.demand = True
            for task in job.each_task():
                if task.status.held:
                    self._charge(leaf, task)
        assert job.spec is not None
        changes.stray_jobs = changes.stray_jobs or job.spec.queue not in self._leaf_queues
        user = job.spec.user or job.spec.namespace
        if user != leaf.user:
            leaf.user = user
            tree.regroup[leaf] = None
            changes.demand = True  # user limits bound targets
        context.state.set_rules(job, context.policy.node_rules(leaf))
        self.refresh_leaf(leaf)

    def refresh_leaf(self, leaf: JobNode) -> None:
        """Recompute a changed job's demand and next unit, and which actions have to consider it."""
        context = self._context
        job, takes_work = leaf.job, self._is_open(leaf)
        if job.spec is not None and job.spec.topology is not None:
            context.state.set_rules(job, context.policy.node_rules(leaf))
        if context.candidates.refresh_job(leaf, open_queue=takes_work):
            context.changes.demand = True
        context.tree.touch(leaf)
        _keep(self._to_enqueue, leaf, takes_work and job.phase is JobPhase.PENDING)
        _keep(self._to_backfill, leaf, takes_work and any(shape.best_effort for shape in job.pending))
        detect_partial_gang(context, job)
        job.settle()

    def refresh_job(self, job: Job) -> None:
        """Refresh the leaf of a job, if it has one."""
        if (leaf := self._context.tree.jobs.get(job.key)) is not None:
            self.refresh_leaf(leaf)

    def victims_left(self, departures: Iterable[Eviction]) -> None:
        """After evictions: refresh the victims' jobs, and record the nodes on which capacity is being freed."""
        context = self._context
        for gone in departures:
            assert gone.task.job is not None
            self.refresh_job(gone.task.job)
            if (index := context.nodes.touch(gone.node)) >= 0:
                context.nodes.freeing[index] = None
                context.changes.freed_nodes[index] = None

    def detach(self, key: str) -> None:
        """Remove a job's leaf, and the namespace node above it if it was the last."""
        context = self._context
        context.unstartable.mark_changed(key)
        leaf = context.tree.jobs.get(key)
        if leaf is None:
            return
        context.candidates.remove_job(leaf)
        self._to_enqueue.pop(leaf, None)
        self._to_backfill.pop(leaf, None)
        for task in leaf.job.each_task():
            if task.status.held:
                context.order.uncharge(leaf, task.shape.ask, task.started, 1, task.owed)
        parent = leaf.parent
        changes = context.changes
        changes.stray_jobs = changes.stray_jobs or leaf.queue.queue_name not in self._leaf_queues
        context.order.remove_job(leaf)
        context.tree.remove(leaf)
        if parent is not None and parent.kind is NodeKind.NAMESPACE and not parent.children:
            context.tree.remove(parent)
        context.decided.conditions.pop(key, None)
        context.partial_gangs.pop(key, None)
        changes.demand = True

    def may_start(self, job: Job) -> bool:
        """Whether a job's queue allows it to start tasks."""
        leaf = self._context.tree.jobs.get(job.key)
        return leaf is not None and self._is_open(leaf)

    def waiting_to_enqueue(self) -> list[JobNode]:
        """Pending jobs in open queues."""
        return list(self._to_enqueue)

    def waiting_for_backfill(self) -> list[JobNode]:
        """Jobs with pending best-effort tasks, oldest first."""
        return sorted(self._to_backfill, key=lambda leaf: (leaf.before, leaf.rank))

    def _parent_of(self, job: Job) -> ShareNode | None:
        """The node that a job's leaf belongs under; None: its queue has no path."""
        context = self._context
        if job.spec is None:
            return None
        known = self._parents.get((job.spec.queue, job.spec.namespace))
        if known is not None and not known.gone:
            return known
        path = self.queue_tree.path_of.get(job.spec.queue)
        if path is None:
            return None
        node = context.tree.root
        for name in path[1:]:
            found = node.children.get((NodeKind.QUEUE, name))
            if found is None:
                return None
            node = found
        queue = self.queue_of(node)
        if context.policy.namespace_level and not (queue is not None and queue.fifo):  # FIFO is across namespaces
            namespace = node.children.get((NodeKind.NAMESPACE, job.spec.namespace))
            if namespace is None:
                namespace = context.tree.child(node, NodeKind.NAMESPACE, job.spec.namespace)
                namespace.weight = float(context.state.namespace_weight(job.spec.namespace))
            node = namespace
        self._parents[job.spec.queue, job.spec.namespace] = node
        return node

    def _charge(self, leaf: JobNode, task: Task) -> None:
        self._context.changes.usage = True
        self._context.order.charge(leaf, task.shape.ask, task.started, 1, task.owed)

    def validate(self) -> None:
        """Check the invariants stated above."""
        tree, parents = self._context.tree, inner_paths(self.queue_tree.placements)
        assert self._leaf_queues == {name for name, path in self.queue_tree.path_of.items() if path not in parents}
        for leaf in (*self._to_enqueue, *self._to_backfill):
            assert tree.jobs.get(leaf.job.key) is leaf, leaf
        for queue, is_open in self._open.items():
            assert is_open == (self.is_leaf_queue(queue) and self.closed_queue_above(queue) is None), queue


def _keep(chosen: dict[JobNode, None], leaf: JobNode, wanted: bool) -> None:
    if wanted:
        chosen[leaf] = None
    else:
        chosen.pop(leaf, None)
