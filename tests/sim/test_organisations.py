"""examples/reclaim.yaml cycle by cycle: what one queue of an organisation borrowed goes back to its sibling alone.

So it is under every order that shares by weights over the tree, not only under the one that the example uses.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from kubebase.resource_vector import dominant_share
from pumice.engine.decisions import Bind, Evict, Pipeline
from pumice.sim.manifest_files import Manifest, read_manifests
from pumice.sim.simulation import Simulation, open_simulation

EXAMPLE = str(Path(__file__).parents[2] / "examples" / "reclaim.yaml")

CONFIG = """
actions: "enqueue, allocate, reclaim, backfill"
tiers:
- plugins: [{name: gang}]
- plugins: [%s, {name: predicates}, {name: nodeorder}]
"""

every_order = pytest.mark.parametrize(
    "order",
    [
        "{name: drf, enableHierarchy: true}",
        "{name: drf, enableHierarchy: true, arguments: {drf.rule: paper}}",
        "{name: proportion}",
    ],
    ids=["steer", "paper", "proportion"],
)


def opened(order: str) -> Simulation:
    manifests = [
        Manifest(one.file, {**one.document, "spec": {**one.document["spec"], "config": CONFIG % order}})
        if one.kind == "Scenario"
        else one
        for one in read_manifests([EXAMPLE])
    ]
    return open_simulation(manifests, EXAMPLE, tracing=True)


def percent(simulation: Simulation) -> list[int]:
    """What queue1 to queue4 hold of the cluster."""
    engine = simulation.cluster.engine
    held = {node.queue_name: dominant_share(node.held, engine.state.capacity) for node in engine.tree.queues()}
    return [round(100 * held[f"queue{i}"]) for i in (1, 2, 3, 4)]


@every_order
def test_reclaim_returns_borrowed_share_to_sibling_queue(order: str) -> None:
    seen: list[list[int]] = []
    opened(order).run(lambda simulation: seen.append(percent(simulation)))
    # What is promised counts as held from cycle 2 on, where the five wait for their room; then nothing moves any more.
    assert seen == [[25, 25, 50, 0], *[[25, 25, 25, 25]] * (len(seen) - 1)]


@every_order
def test_the_other_organisation_is_not_touched(order: str) -> None:
    seen: list[dict[str, tuple[str, int]]] = []

    def note(simulation: Simulation) -> None:
        tasks = simulation.cluster.engine.state.tasks.values()
        places = {task.spec.key: (task.node.name, task.started) for task in tasks if task.node is not None}
        seen.append({key: places[key] for key in places if key.startswith(("default/first", "default/second"))})

    opened(order).run(note)
    assert len(seen[0]) == 10
    assert all(places == seen[0] for places in seen)


@every_order
def test_only_the_borrower_gives_back_and_its_sibling_starts(order: str) -> None:
    simulation = opened(order)
    simulation.run()
    evictions = [(cycle, decision) for cycle, decision in simulation.decisions if isinstance(decision, Evict)]
    # 25 cpu are owed, tasks have 5: five go, all in the cycle in which the job came.
    assert [(cycle, decision.job, decision.preemptor) for cycle, decision in evictions] == [
        (2, "default/borrower", "default/awake")
    ] * 5
    assert {decision.sides.ancestor for _, decision in evictions if decision.sides is not None} == {"root/orgB"}
    promised = {d.task: d.node for cycle, d in simulation.decisions if isinstance(d, Pipeline) and cycle == 2}
    started = {d.task: d.node for cycle, d in simulation.decisions if isinstance(d, Bind) and cycle == 3}
    assert len(started) == 5
    assert started == promised
