"""Random changes of a cluster with a random tree of queues, as somebody would make them with kubectl."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from dataclasses import dataclass, field

from tests.support.end_to_end import Object, queue
from tests.support.random_trees import QUEUE_NAME, RandomTree

NEW_JOB = "added"


@dataclass(frozen=True)
class RandomChange:
    """Objects to apply and queues to delete."""

    words: str
    objects: list[Object] = field(default_factory=list)
    deleted_queues: list[str] = field(default_factory=list)


def random_change(rng: random.Random, tree: RandomTree, nodes: int) -> RandomChange:
    """Half of the changes give other weights; the others limits, guarantees, queues, work and fewer nodes."""
    if rng.random() < 0.5:
        return _weights(rng, tree)
    others: list[Callable[[], RandomChange]] = [
        lambda: _fields(rng, tree, "reclaimable", False),
        lambda: _fields(rng, tree, "capability", {"cpu": str(rng.randint(1, 9))}),
        lambda: _fields(rng, tree, "capability", {"memory": f"{rng.randint(2, 12)}Gi"}),
        lambda: _fields(rng, tree, "guarantee", {"resource": {"cpu": str(rng.randint(1, 4))}}),
        lambda: _new_queue(rng, tree),
        lambda: _new_job(rng, tree),
        lambda: _delete(rng, tree),
        lambda: _cordon(rng, nodes),
    ]
    return rng.choice(others)()


def _weights(rng: random.Random, tree: RandomTree) -> RandomChange:
    changed = [_copy(one) for one in rng.sample(tree.queues, min(len(tree.queues), rng.randint(1, 2)))]
    for one in changed:
        annotations = one["metadata"].get("annotations")
        if annotations:
            weights = annotations["volcano.sh/hierarchy-weights"].split("/")
            weights[-1] = str(rng.randint(1, 6))
            annotations["volcano.sh/hierarchy-weights"] = "/".join(weights)
        elif one["spec"].get("hierarchy") and rng.random() < 0.5:
            for entry in one["spec"]["hierarchy"]:
                entry["parameters"] = [{"name": "weight", "value": rng.randint(1, 6)}]
        else:
            one["spec"]["weight"] = rng.randint(1, 6)
    return RandomChange("weights", changed)


def _fields(rng: random.Random, tree: RandomTree, name: str, value: object) -> RandomChange:
    changed = _copy(rng.choice(tree.queues))
    changed["spec"][name] = value
    return RandomChange(name, [changed])


def _new_queue(rng: random.Random, tree: RandomTree) -> RandomChange:
    """A queue without work: it takes nothing from others."""
    return RandomChange("new queue", [queue(f"t{tree.seed}-new", weight=rng.randint(1, 6))])


def _new_job(rng: random.Random, tree: RandomTree) -> RandomChange:
    jobs = [one for one in [*tree.first, *tree.later] if one["kind"] == "Job"]
    if not jobs:
        return _weights(rng, tree)
    added = _copy(rng.choice(jobs))
    added["metadata"]["name"] = NEW_JOB
    added["spec"]["queue"] = rng.choice(tree.leaves)
    return RandomChange("new job", [added])


def _delete(rng: random.Random, tree: RandomTree) -> RandomChange:
    """A queue without work: the jobs of a queue go one after the other, and what starts meanwhile depends on time."""
    used = {_queue_of(one) for one in [*tree.first, *tree.later]}
    own = {one["metadata"]["name"] for one in tree.queues}
    names = [name for name in tree.leaves if name in own and name not in used]
    return RandomChange("delete", deleted_queues=[rng.choice(names)]) if names else _weights(rng, tree)


def _queue_of(work: Object) -> str:
    if work["kind"] == "Job":
        return str(work["spec"]["queue"])
    return str(work["metadata"]["annotations"][QUEUE_NAME])


def _cordon(rng: random.Random, nodes: int) -> RandomChange:
    about = {"name": f"node-{rng.randrange(nodes):03d}"}
    return RandomChange(
        "cordon", [{"apiVersion": "v1", "kind": "Node", "metadata": about, "spec": {"unschedulable": True}}]
    )


def _copy(one: Object) -> Object:
    copied: Object = json.loads(json.dumps(one))
    return copied
