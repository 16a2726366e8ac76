"""Limits and guarantees under whatever happens: random trees of queues, jobs coming and going, nodes lost."""

from __future__ import annotations

import random

import pytest
from hypothesis import given

from kubebase.resource_vector import CPU, MEMORY
from pumice.engine.engine import Engine
from pumice.engine.events import Changed, Gone
from pumice.engine.fairness.share_tree.share_node import NodeKind, ShareNode
from pumice.model.specs import JobPhase, JobSpec, NodeSpec, Queue, TaskSpec, TaskStatus
from tests.support.examples import fewer_examples
from tests.support.histories import seeds
from tests.support.policies import policy_engine

POLICIES = ["capacity", "capacity and namespaces", "proportion", "drf and capacity"]
CAPACITY = (24, 24)


class Restless:
    """A tree of queues whose numbers agree, and jobs of unlike tasks that come and go."""

    def __init__(self, policy: str, seed: int) -> None:
        self.rng = random.Random(seed)
        self.engine: Engine = policy_engine(policy)
        self.engine.apply(Changed(NodeSpec("n", (*CAPACITY, 9999))))
        self.queues: list[str] = []
        self.now = self.jobs = 0
        self._grow(None, list(CAPACITY), list(CAPACITY), 0)
        parents = {queue.parent for queue in self.engine.state.queues.values()}
        self.leaves = [name for name in self.queues if name not in parents]

    def _grow(self, parent: str | None, capability: list[int], guarantee: list[int], depth: int) -> None:
        """Child queues of a queue; ``guarantee``: what is left of it to give on."""
        rng = self.rng
        for _ in range(rng.randint(2, 3) if depth < 2 else 0):
            name = f"q{len(self.queues)}"
            self.queues.append(name)
            limits = [rng.randint(0, most) if rng.random() < 0.5 else most for most in capability]
            mine = [min(limit, rng.randint(0, left) // 2) for limit, left in zip(limits, guarantee, strict=True)]
            for j, amount in enumerate(mine):
                guarantee[j] -= amount
            queue = Queue(
                name,
                created=len(self.queues),
                weight=rng.randint(1, 4),
                parent=parent,
                capability=tuple((j, limits[j]) for j in (CPU, MEMORY) if limits[j] < capability[j]),
                guarantee=tuple((j, mine[j]) for j in (CPU, MEMORY) if mine[j]),
                # Not further down, so that no parent is outdone by its children.
                deserved=tuple((j, rng.randint(0, 12)) for j in (CPU, MEMORY) if not depth and rng.random() < 0.6),
            )
            self.engine.apply(Changed(queue))
            if rng.random() < 0.6:
                self._grow(name, limits, list(mine), depth + 1)

    def submit(self, queue: str, tasks: int, request: tuple[int, int], gang: int = 1) -> str:
        self.jobs += 1
        spec = JobSpec("ns", f"j{self.jobs}", queue, self.jobs, min_member=gang, phase=JobPhase.INQUEUE)
        self.engine.apply(Changed(spec))
        for i in range(tasks):
            task = TaskSpec("ns", f"j{self.jobs}-{i}", (*request, 1), job=spec.key, created=i)
            self.engine.apply(Changed(task))
        return spec.key

    def happen(self) -> None:
        """Some jobs come, some tasks end, and a cycle."""
        rng = self.rng
        for _ in range(rng.randint(0, 3)):
            tasks = rng.randint(1, 6)
            request = (rng.randint(0, 4), rng.randint(1, 4))
            self.submit(rng.choice(self.leaves), tasks, request, rng.choice([1, 1, min(tasks, 3)]))
        for task in [task for task in self.engine.state.tasks.values() if task.status.held]:
            if rng.random() < 0.2:
                self.engine.apply(Gone(TaskSpec, task.key))
        self.cycle()

    def cycle(self) -> None:
        self.now += 1_000_000
        self.engine.cycle(self.now)

    @property
    def nodes(self) -> list[ShareNode]:
        return self.engine.tree.queues()


def claimed(node: ShareNode) -> list[int]:
    """What is held here or reserved for somebody below, the long way round."""
    children = [child for child in node.children.values() if child.kind is NodeKind.QUEUE]
    below = [claimed(child) for child in children]
    total = [
        held + sum(theirs[j] - child.held[j] for theirs, child in zip(below, children, strict=True))
        for j, held in enumerate(node.held)
    ]
    return [max(amount, reserved) for amount, reserved in zip(total, node.guarantee or [0] * len(total), strict=True)]


@pytest.mark.parametrize("policy", POLICIES)
@given(seed=seeds)
@fewer_examples(4)
def test_nobody_is_ever_above_its_real_capability(policy: str, seed: int) -> None:
    world = Restless(policy, seed)
    for _ in range(8):
        world.happen()
        assert world.engine.context.sync.refused_queues == {}
        for node in world.nodes:
            ceiling = node.ceiling
            assert ceiling is not None
            assert all(claim <= most for claim, most in zip(claimed(node), ceiling, strict=True)), node.path
            assert all(held <= most for held, most in zip(node.held, ceiling, strict=True)), node.path
    world.engine.validate()


@pytest.mark.parametrize("policy", POLICIES)
@given(seed=seeds)
@fewer_examples(4)
def test_a_guarantee_is_there_when_it_is_asked_for(policy: str, seed: int) -> None:
    world = Restless(policy, seed)
    for _ in range(world.rng.randint(1, 6)):
        world.happen()
    leaves = [node for node in world.nodes if node.queue_name in world.leaves and node.guarantee is not None]
    for node in leaves:
        assert node.guarantee is not None and node.queue_name is not None
        lacks = [max(0, node.guarantee[j] - node.held[j]) for j in (CPU, MEMORY)]
        if any(lacks):
            # What waits there already would take it: that is its business, not the others'.
            for task in list(world.engine.state.tasks.values()):
                job = task.job.spec if task.job is not None else None
                if task.status is TaskStatus.PENDING and job is not None and job.queue == node.queue_name:
                    world.engine.apply(Gone(TaskSpec, task.key))
            key = world.submit(node.queue_name, 1, (lacks[0], lacks[1]))
            world.cycle()
            assert world.engine.state.jobs[key].running == 1, f"{node.path} did not get {lacks}"


@pytest.mark.parametrize("policy", ["capacity", "proportion", "drf and capacity"])
@given(seed=seeds)
@fewer_examples(4)
def test_a_lost_node_starts_nothing_beyond_the_limits(policy: str, seed: int) -> None:
    world = Restless(policy, seed)
    world.engine.apply(Changed(NodeSpec("m", (12, 12, 9999))))
    for step in range(8):
        if step == 4:
            world.engine.apply(Gone(NodeSpec, "m"))
        before = {node: list(node.held) for node in world.nodes}
        world.happen()
        for node in world.nodes:
            assert node.ceiling is not None
            for held, was, most in zip(node.held, before.get(node, node.held), node.ceiling, strict=True):
                assert held <= max(was, most), node.path
    world.engine.validate()
