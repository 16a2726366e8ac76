"""Prints the table of worked outcomes in docs/policies.md: target, whole target and outcome of every example.

python -m tools.outcome_table

The examples are the scenarios in tests/cases/outcomes that state how much a queue or a job gets under the default rule.
A row is a queue or job whose outcome the scenario states.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

from pumice.engine.fairness.orders.target_order import TargetOrder
from pumice.engine.fairness.share_tree.share_node import JobNode, ShareNode
from pumice.sim.manifest_files import read_manifests
from pumice.sim.simulation import Simulation, open_simulation

ROOT = Path(__file__).parent.parent
EXAMPLES = "tests/cases/outcomes"


def rows() -> Iterator[str]:
    """The table, line by line."""
    yield "| example | who | target | whole target | outcome |"
    yield "|---|---|---|---|---|"
    for path in sorted((ROOT / EXAMPLES).glob("*.yaml")):
        simulation = open_simulation(read_manifests((str(path),)), str(path))
        simulation.run()
        if not isinstance(simulation.cluster.engine.order, TargetOrder):
            continue
        for name, node in _stated(simulation):
            target, whole, held = (_said(simulation, amounts) for amounts in (node.due, node.integer_target, node.held))
            yield f"| {path.stem} | {name} | {target} | {whole} | {held} |"


def _stated(simulation: Simulation) -> Iterator[tuple[str, ShareNode]]:
    """The queues and jobs of which the scenario states how much they have in the end."""
    tree = simulation.cluster.engine.tree
    expect = simulation.scenario.spec.expect
    if expect is None:
        return
    nodes = {node.path: node for node in tree.root.walk()}
    by_object = {node.queue_name: node for node in nodes.values() if node.queue_name is not None}
    for name in expect.queues or {}:
        yield name, by_object.get(name) or nodes[name]
    for key in expect.jobs or {}:
        leaf: JobNode = tree.jobs[key]
        yield f"job {key.removeprefix('default/')}", leaf


def _said(simulation: Simulation, amounts: list[int] | list[float]) -> str:
    registry = simulation.cluster.engine.state.registry
    said = registry.format(tuple(round(amount) for amount in amounts))
    return ", ".join(f"{name} {amount}" for name, amount in said.items()) or "0"


if __name__ == "__main__":
    sys.stdout.write("\n".join([*rows(), ""]))
