"""Random trees of queues and what people submit to them, as objects for ``kubectl apply``.

A tree has two levels and is written in one of the three ways there are. Half of its queues get work at first, enough to
fill a cluster of ``CAPACITY``; the others get theirs later. The same seed always gives the same objects.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Any

from tests.support.end_to_end import VOLCANO, Object, queue

CAPACITY = {"cpu": 17, "memory": "37Gi"}
"""Of the only node. No tree of small weights divides these amounts evenly."""
QUEUE_NAME = "volcano.sh/queue-name"
STYLES = ("annotations", "parents", "annotations", "parents", "hierarchy")

Request = tuple[int, int]
"""Cpus, and GiB of memory."""
BY_CPU: tuple[Request, ...] = ((1, 0), (1, 0), (2, 0), (3, 0))
BY_BOTH: tuple[Request, ...] = ((1, 1), (1, 0), (2, 1), (1, 5), (3, 2), (0, 4))


@dataclass
class RandomTree:
    """The objects of one tree."""

    seed: int
    style: str
    queues: list[Object]
    leaves: list[str]
    first: list[Object] = field(default_factory=list)
    later: list[Object] = field(default_factory=list)


def random_tree(seed: int) -> RandomTree:
    """A tree of queues, and work for all of its leaf queues."""
    rng = random.Random(seed)
    tree = _grow(rng, seed)
    requests = rng.choice([BY_CPU, BY_BOTH])
    rng.shuffle(tree.leaves)
    half = max(1, len(tree.leaves) // 2)
    for number in range(rng.randint(10, 14)):
        tree.first.append(_submit(rng, f"f{number}", rng.choice(tree.leaves[:half]), requests))
    for leaf in tree.leaves[half:]:
        for _ in range(rng.randint(1, 4)):
            tree.later.append(_submit(rng, f"l{len(tree.later)}", leaf, requests))
    return tree


# ---- queues ----------------------------------------------------------------------------------------------------------


def _grow(rng: random.Random, seed: int) -> RandomTree:
    style = STYLES[seed % len(STYLES)]
    queues: list[Object] = []
    leaves: list[str] = []
    for org in (f"t{seed}-{letter}" for letter in "abcd"[: rng.randint(2, 4)]):
        weight = rng.randint(1, 3)
        teams = {f"{org}{number}": rng.randint(1, 3) for number in range(rng.choice([0, 2, 2, 3]))}
        queues += _written(style, org, weight, teams)
        leaves += list(teams) or [org]
    return RandomTree(seed, style, queues, leaves)


def _written(style: str, org: str, weight: int, teams: dict[str, int]) -> list[Object]:
    """A child of the root and the queues below it."""
    if style == "annotations":
        if not teams:
            return [_annotated(org, f"root/{org}", f"1/{weight}")]
        return [_annotated(team, f"root/{org}/{team}", f"1/{weight}/{own}") for team, own in teams.items()]
    if style == "parents":
        return [queue(org, weight=weight), *(queue(team, org, weight=own) for team, own in teams.items())]
    below = [{"name": team, "parameters": [{"name": "weight", "value": own}]} for team, own in teams.items()]
    return [queue(org, weight=weight, **({"hierarchy": below} if below else {}))]


def _annotated(name: str, path: str, weights: str) -> Object:
    annotations = {"volcano.sh/hierarchy": path, "volcano.sh/hierarchy-weights": weights}
    return {"apiVersion": VOLCANO, "kind": "Queue", "metadata": {"name": name, "annotations": annotations}, "spec": {}}


# ---- work ------------------------------------------------------------------------------------------------------------


def _submit(rng: random.Random, name: str, leaf: str, requests: tuple[Request, ...]) -> Object:
    """A plain pod, or a Job: of equal tasks, of unlike ones, or a gang of either."""
    if rng.random() < 0.4:
        about = {"name": name, "annotations": {QUEUE_NAME: leaf}}
        return {"apiVersion": "v1", "kind": "Pod", "metadata": about, "spec": _pod(rng.choice(requests))}
    roles = {rng.choice(requests): rng.randint(1, 5) for _ in range(rng.choice([1, 1, 2, 3]))}
    tasks = sum(roles.values())
    least = rng.randint(2, tasks) if tasks > 1 and rng.random() < 0.35 else 1
    spec = {
        "schedulerName": "pumice",
        "queue": leaf,
        "minAvailable": least,
        "tasks": [
            {"name": f"r{number}", "replicas": replicas, "template": {"spec": _pod(request)}}
            for number, (request, replicas) in enumerate(roles.items())
        ],
    }
    return {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "metadata": {"name": name}, "spec": spec}


def _pod(request: Request) -> dict[str, Any]:
    cpus, memory = request
    requests = {**({"cpu": str(cpus)} if cpus else {}), **({"memory": f"{memory}Gi"} if memory else {})}
    container = {"name": "main", "image": "work", "resources": {"requests": requests}}
    return {"schedulerName": "pumice", "restartPolicy": "Never", "containers": [container]}
