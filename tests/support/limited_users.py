"""Queues whose users are limited, and who holds what there."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace

import pytest

from pumice.engine.engine import Engine
from pumice.engine.events import Changed
from pumice.engine.fairness.share_tree.share_node import JobNode, NodeKind
from pumice.model.specs import JobPhase, JobSpec, NodeSpec, Queue, TaskSpec, TaskStatus
from tests.support.pools import make_engine

PLENTY = 1000


def make(cpu: int, *queues: Queue, rule: str = "steer", nodes: int = 1) -> Engine:
    """An engine with so many cpu (and memory: a thousand times as many units) and these queues."""
    engine = make_engine(rule, namespaces=True, plugins=("priority", "gang"))
    for i in range(nodes):
        engine.apply(Changed(NodeSpec(f"n{i}", (cpu * 1000 // nodes, cpu * 1000 // nodes, PLENTY))))
    for age, queue in enumerate(queues):
        engine.apply(Changed(replace(queue, created=age)))
    return engine


def submit(
    engine: Engine, name: str, queue: str, user: str, tasks: int, cpu: int = 1, memory: int = 0, least: int = 1
) -> None:
    spec = JobSpec("ns", name, queue, created=len(engine.state.jobs), min_member=least, phase=JobPhase.INQUEUE)
    engine.apply(Changed(replace(spec, user=user)))
    for i in range(tasks):
        request = (cpu * 1000, memory * 1000, 1)
        engine.apply(Changed(TaskSpec("ns", f"{name}-t-{i}", request, job=f"ns/{name}", created=i)))


def cycles(engine: Engine, number: int = 3) -> None:
    for _ in range(number):
        engine.cycle(engine.now + 1_000_000)
        engine.validate()
        check_accounts(engine)


def check_accounts(engine: Engine) -> None:
    """What the tree counts for each user is the sum over the user's jobs in the queue."""
    for queue in engine.tree.root.walk():
        if queue.kind is not NodeKind.QUEUE:
            continue
        leaves = [leaf for leaf in queue.walk() if isinstance(leaf, JobNode) and leaf.queue is queue]
        for leaf in leaves:
            if leaf.user_held is not None:
                same = [other for other in leaves if other.user == leaf.user]
                assert all(other.user_held is leaf.user_held for other in same)
                total = [sum(column) for column in zip(*(other.held for other in same), strict=True)]
                assert [leaf.user_held[j] for j in range(engine.tree.width)] == total


def held(engine: Engine, queue: str | None = None) -> dict[str, int]:
    """cpu by user."""
    found: dict[str, int] = defaultdict(int)
    for leaf in engine.tree.jobs.values():
        if queue is None or leaf.queue.queue_name == queue:
            found[leaf.user] += leaf.held[0] // 1000
    return dict(found)


both_rules = pytest.mark.parametrize("rule", ["steer", "paper"])


def finished(engine: Engine, key: str) -> TaskSpec:
    task = engine.state.tasks[key]
    assert task.node is not None
    return replace(task.spec, status=TaskStatus.SUCCEEDED, node=task.node.name, started=task.started)
