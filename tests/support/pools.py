"""One-pool clusters for tests: a tree of leaves with one task shape each, on one machine, through the real engine."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from typing import Any

from kubebase.resource_vector import Registry
from pumice.engine.config.scheduler_config import parse_config
from pumice.engine.engine import Engine
from pumice.engine.events import Changed
from pumice.engine.plugins.builtin import BUILT_IN
from pumice.model.specs import JobPhase, JobSpec, NodeSpec, Queue, TaskSpec, TaskStatus

SCALE = 1000

CONFIG = """
actions: "{actions}"
tiers:
- plugins: [{first}]
- plugins:
  - name: drf
    enableHierarchy: {hierarchy}
    enableNamespaceOrder: {namespaces}
    arguments: {arguments}
"""


def make_engine(
    rule: str = "steer",
    *,
    hierarchy: bool = True,
    namespaces: bool = False,
    arguments: Mapping[str, object] = {},
    actions: str = "allocate",
    plugins: Sequence[str] = ("gang",),
    registry: Registry | None = None,
) -> Engine:
    """An engine with nothing but drf and gang, unless it is told otherwise; ``plugins`` go ahead of drf."""
    text = CONFIG.format(
        actions=actions,
        first=", ".join(f"{{name: {name}}}" for name in plugins),
        hierarchy=str(hierarchy).lower(),
        namespaces=str(namespaces).lower(),
        arguments={"drf.rule": rule, **arguments} if hierarchy else {},
    )
    config = parse_config(text, known_plugins=BUILT_IN, known_actions=["allocate", "enqueue", "backfill"])
    return Engine(config, BUILT_IN, registry)


def amounts(registry: Registry, names: Mapping[str, Any]) -> tuple[int, ...]:
    """Plain numbers as a vector, whatever the unit: tests of sharing need no quantities."""
    vector = [0] * len(registry)
    for name, number in names.items():
        j = registry.index(name)
        vector.extend([0] * (j + 1 - len(vector)))
        vector[j] = int(Fraction(str(number)) * SCALE)
    return tuple(vector)


def leaves(tree: Mapping[str, Any], path: str = "root") -> Iterator[tuple[str, str, Mapping[str, Any]]]:
    """(path of names, weights, leaf) of every leaf of a case's tree."""

    def walk(node: Mapping[str, Any], names: list[str], weights: list[str]) -> Iterator[Any]:
        for child in node.get("children", []):
            here = [*names, child["name"]], [*weights, str(child.get("weight", 1))]
            if "children" in child:
                yield from walk(child, *here)
            else:
                yield "/".join(here[0]), "/".join(here[1]), child

    yield from walk(tree, [path], ["1"])


class Pool:
    """A case's tree in an engine: every leaf is a queue with one job."""

    def __init__(
        self, engine: Engine, capacity: Mapping[str, Any], tree: Mapping[str, Any], unlimited: int = 0
    ) -> None:
        self.engine = engine
        registry = engine.state.registry
        names = {{"mem": "memory"}.get(name, name): name for name in capacity}
        offered = {name: capacity[names[name]] for name in names}
        self.pods: dict[str, int] = {}
        self.request: dict[str, tuple[int, ...]] = {}
        self.number = 0
        for name in offered:
            registry.index(name)
        room = list(amounts(registry, offered))
        room[2] = 10**9
        engine.apply(Changed(NodeSpec("pool", tuple(room))))
        for age, (path, weights, leaf) in enumerate(leaves(tree)):
            name = leaf["name"]
            demand = {{"mem": "memory"}.get(k, k): v for k, v in leaf["demand"].items()}
            request = list(amounts(registry, demand))
            most = min((room[j] // amount for j, amount in enumerate(request) if amount), default=0)
            request[2] = 1
            self.request[name] = tuple(request)
            engine.apply(Changed(Queue(name, created=age, path=path, path_weights=weights)))
            gang = int(leaf.get("gang", 1))
            engine.apply(Changed(JobSpec("ns", name, name, created=age, min_member=gang, phase=JobPhase.INQUEUE)))
            limit = leaf.get("max_tasks")
            # Without a limit a leaf must always have something pending: one more than fits.
            count = int(limit) if limit is not None else most + max(1, unlimited)
            for _ in range(count):
                self.add_task(name)

    def add_task(self, leaf: str) -> None:
        self.number += 1
        spec = TaskSpec("ns", f"{leaf}-{self.number:06d}", self.request[leaf], job=f"ns/{leaf}", created=self.number)
        self.engine.apply(Changed(spec))

    def fill(self, now: int = 0) -> None:
        self.engine.cycle(now)

    def running(self) -> dict[str, int]:
        return {leaf: self.engine.state.jobs[f"ns/{leaf}"].running for leaf in self.request}

    def finish(self, leaf: str, key: str) -> None:
        """A running task ends and an equal one takes its place in the demand."""
        task = self.engine.state.tasks[key]
        spec = task.spec
        self.engine.apply(
            Changed(
                TaskSpec(
                    spec.namespace,
                    spec.name,
                    spec.request,
                    job=spec.job,
                    created=spec.created,
                    status=TaskStatus.FAILED,
                )
            )
        )
        self.add_task(leaf)
