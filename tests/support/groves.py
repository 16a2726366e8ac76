"""Share trees grown by hand, without an engine: jobs with demands, holdings and start times, also at random."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hypothesis import strategies as st

from kubebase.resource_vector import CPU, MEMORY
from pumice.engine.fairness.share_tree.demand import Demand
from pumice.engine.fairness.share_tree.share_node import JobNode, NodeKind, ShareNode
from pumice.engine.fairness.share_tree.tree import ShareTree
from pumice.engine.state.job import Job
from pumice.engine.state.task import Task
from pumice.engine.state.task_shapes import TaskShape
from pumice.model.specs import FREE, Items, TaskSpec, TaskStatus

GPU = 3
WIDTH = 4
PLACES = (CPU, MEMORY, GPU)
Parts = Sequence[tuple[Items, int]]


class Grove:
    """A tree and the tasks that run in it."""

    def __init__(self, capacity: Sequence[int]) -> None:
        self.capacity = list(capacity)
        self.tree = ShareTree(WIDTH)
        self.groups: list[ShareNode] = [self.tree.root]
        self.jobs: list[JobNode] = []
        self.running: list[tuple[JobNode, Items, int, bool]] = []
        self._shapes: dict[Items, TaskShape] = {}
        self.count = 0

    def group(self, parent: ShareNode | None = None, weight: float = 1.0, kind: NodeKind = NodeKind.QUEUE) -> ShareNode:
        self.count += 1
        node = self.tree.child(parent or self.tree.root, kind, f"g{self.count}")
        node.weight, node.rank = weight, (self.count, kind, node.name)
        self.groups.append(node)
        return node

    def job(
        self, parent: ShareNode, parts: Parts = (), *, gang: int = 1, floor: Items = (), name: str = "", **keys: Any
    ) -> JobNode:
        self.count += 1
        leaf = self.tree.add_job(Job(name or f"j{self.count}"), parent)
        leaf.rank = (self.count, NodeKind.JOB, leaf.name)
        self.ask_for(leaf, parts, gang=gang, floor=floor)
        for key, value in keys.items():
            setattr(leaf, key, value)
        self.jobs.append(leaf)
        return leaf

    def ask_for(self, leaf: JobNode, parts: Parts, *, gang: int = 1, floor: Items = ()) -> None:
        """A job's demand; its gang is of its first tasks."""
        leaf.gang = gang
        first: dict[int, int] = {}
        left = gang
        for items, count in parts:
            for j, amount in items:
                first[j] = first.get(j, 0) + amount * min(count, left)
            left -= min(count, left)
        unit = tuple(sorted((j, n) for j, n in first.items() if n)) if gang > 1 else ()
        leaf.demand = Demand(tuple(parts), floor, unit)
        self.tree.regroup[leaf] = None
        self._show_tasks(leaf)
        self.tree.moved[leaf], leaf.integer_line = None, None

    def start(self, order: Any, leaf: JobNode, items: Items, stamp: int, owed: bool = True) -> None:
        self.running.append((leaf, items, stamp, owed))
        self._show_tasks(leaf)
        order.charge(leaf, items, stamp, 1, owed)

    def end(self, order: Any, index: int) -> None:
        leaf, items, stamp, owed = self.running.pop(index)
        self._show_tasks(leaf)
        order.uncharge(leaf, items, stamp, 1, owed)

    def _show_tasks(self, leaf: JobNode) -> None:
        """The tasks of a job, as far as rounding looks at them: those that run as they started, then others."""
        held = [items for other, items, _, _ in self.running if other is leaf]
        waiting = [items for items, count in leaf.demand.parts for _ in range(count)]
        for items in held:
            if items in waiting:  # of equal tasks the first run; a job may run more than it asks for
                waiting.remove(items)
        leaf.job = Job(leaf.job.key)
        tasks = []
        for k, items in enumerate(held + waiting):
            shape = self._shapes.setdefault(items, TaskShape(len(self._shapes), items, FREE, None))
            task = Task(TaskSpec("ns", str(k), (), created=k), shape, priority=0)
            task.status = TaskStatus.RUNNING if k < len(held) else TaskStatus.PENDING
            leaf.job.enter(task)
            tasks.append(task)
        leaf.path_tasks = tuple(tasks)


def below(node: ShareNode) -> list[JobNode]:
    """The jobs under a node (or itself)."""
    return [job for job in node.walk() if isinstance(job, JobNode)]


def path_of(node: ShareNode | None) -> list[ShareNode]:
    """A node and everyone above it."""
    return [] if node is None else [node, *path_of(node.parent)]


# Amounts are large enough to have parts, as milli-cpu and bytes are: an entitlement is in whole units.
ITEMS: list[Items] = [
    ((CPU, 100),),
    ((CPU, 200), (MEMORY, 100)),
    ((MEMORY, 300),),
    ((CPU, 100), (GPU, 150)),
    ((GPU, 200),),
    ((CPU, 130), (MEMORY, 170), (GPU, 70)),
]
asks = st.sampled_from(ITEMS)
weights = st.sampled_from([1.0, 1.0, 2.0, 3.0, 0.5])
capacities = st.tuples(*[st.integers(300, 4000), st.integers(300, 4000), st.just(100), st.integers(200, 4000)])


@st.composite
def all_parts(draw: st.DrawFn) -> Parts:
    """What a job asks for: mostly tasks that are alike, sometimes unlike ones."""
    kinds = draw(st.lists(asks, min_size=1, max_size=draw(st.sampled_from([1, 1, 1, 3])), unique=True))
    return [(items, draw(st.integers(1, 12))) for items in kinds]


@st.composite
def groves(draw: st.DrawFn, *, namespaces: bool = False, holdings: bool = True) -> Grove:
    """A small tree with everything in it: weights, gangs, unlike tasks, floors, tiers, holdings."""
    grove = Grove(draw(capacities))
    for _ in range(draw(st.integers(1, 5))):
        grove.group(draw(st.sampled_from(grove.groups)), draw(weights))
    homes = grove.groups[1:]
    if namespaces:
        homes = [grove.group(draw(st.sampled_from(homes)), draw(weights), NodeKind.NAMESPACE) for _ in range(3)]
    else:
        # Only leaf queues have jobs; an inner one that is left without any is a leaf without demand.
        homes = [group for group in homes if not group.children]
    for _ in range(draw(st.integers(1, 10))):
        parts = draw(all_parts())
        total = sum(count for _, count in parts)
        grove.job(
            draw(st.sampled_from(homes)),
            parts,
            gang=draw(st.integers(1, min(4, total)) if draw(st.booleans()) else st.just(1)),
            floor=draw(st.sampled_from([(), (), (), ((CPU, 200),), ((MEMORY, 3000),)])),
            before=draw(st.sampled_from([(), (), (0,), (1,)])) if draw(st.booleans()) else (),
        )
    # Keys of one level must be comparable: tuples of one length.
    if any(job.before for job in grove.jobs):
        for job in grove.jobs:
            job.before = job.before or (0,)
    if holdings:
        for leaf in draw(st.lists(st.sampled_from(grove.jobs), max_size=20)):
            items = draw(st.sampled_from([items for items, _ in leaf.demand.parts]))
            grove.start(grove.tree, leaf, items, draw(st.integers(1, 20)), draw(st.booleans()))
    return grove
