"""Engines of every kind for random histories, and all that can be seen of one, to compare."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pumice.engine.decisions import Condition, Decision, QueueCondition
from pumice.engine.engine import Engine
from pumice.engine.events import Changed, Event
from pumice.engine.fairness.share_tree.share_node import JobNode, latest_owed_start, latest_start
from tests.support.histories import final_objects, picture, registry
from tests.support.pools import make_engine

ALL_ACTIONS = "enqueue, allocate, backfill"
FIRST = ("priority", "gang", "conformance")
NO_HOLDS = {"drf.patience": -1}

ENGINES: dict[str, Callable[[], Engine]] = {
    "steer": lambda: make_engine(
        "steer", namespaces=True, actions=ALL_ACTIONS, plugins=FIRST, arguments=NO_HOLDS, registry=registry()
    ),
    "steer with jobs under their queue": lambda: make_engine(
        "steer", actions="allocate, backfill", plugins=("gang",), arguments=NO_HOLDS, registry=registry()
    ),
    "paper": lambda: make_engine("paper", actions=ALL_ACTIONS, plugins=FIRST, registry=registry()),
    "flat": lambda: make_engine(
        hierarchy=False, namespaces=True, actions=ALL_ACTIONS, plugins=FIRST, registry=registry()
    ),
    "nodes by score": lambda: make_engine(
        actions=ALL_ACTIONS, plugins=(*FIRST, "predicates", "nodeorder"), arguments=NO_HOLDS, registry=registry()
    ),
}

# Room that is kept for others is neither idle nor derivable from the objects, so this one is not for every test.
WITH_HOLDS: dict[str, Callable[[], Engine]] = {
    "steer with holds": lambda: make_engine(
        namespaces=True, actions=ALL_ACTIONS, plugins=FIRST, arguments={"drf.patience": 1}, registry=registry()
    )
}

Step = list[Event]


def run(engine: Engine, history: list[Step], after: Callable[[list[Decision]], None] | None = None) -> None:
    """Events, then a cycle, again and again; a second of cluster time each."""
    for now, step in enumerate(history, 1):
        for event in step:
            engine.apply(event)
        decisions = engine.cycle(now * 1_000_000)
        if after is not None:
            after(decisions)


def started_now(make: Callable[[], Engine], engine: Engine) -> Engine:
    """An engine that reads what is there, as after a restart."""
    fresh = make()
    for described in final_objects(engine.state):
        fresh.apply(Changed(described))
    # Two things that no object tells: whether a task was owed when it started, and whose turn it was last.
    for key, task in fresh.state.tasks.items():
        task.owed = engine.state.tasks[key].owed
    engine.prepare()
    fresh.prepare()
    turns = {node.path: node.last_turn for node in engine.tree.root.walk()}
    for node in fresh.tree.root.walk():
        node.last_turn = turns.get(node.path, 0)
    fresh.context.changes.usage_changed()  # round once more, with turns
    return fresh


def carried_out(decisions: list[Decision]) -> list[Decision]:
    """Without conditions: what was said before is not said again."""
    return [decision for decision in decisions if not isinstance(decision, Condition | QueueCondition)]


def everything(engine: Engine) -> dict[str, Any]:
    """All that follows from the objects: accounts, targets, whole targets, candidates.

    Of start times only the order counts: a unit that was tried in vain used one up.
    """
    engine.validate()
    stamps = sorted({0, *(task.started for task in engine.state.tasks.values())})
    when = {stamp: number for number, stamp in enumerate(stamps)}
    nodes = {}
    for node in engine.tree.root.walk():
        seen: dict[str, Any] = {
            "kind": node.kind,
            "weight": node.weight,
            "rank": node.rank[:-1],  # without the serial number, which no two nodes share
            "held": list(node.held),
            "latest": when[latest_start(node)],
            "latest owed": when[latest_owed_start(node)],
            "entitled": list(node.exact),
        }
        if isinstance(node, JobNode):
            seen |= {
                "starts": [when[start] for start in node.starts],
                "keys": (node.before, node.after, node.rank_class),
                "demand": (node.demand.pieces, node.demand.reserve, node.demand.gang_items, node.gang),
                "target": round(node.target, 9),  # the last bits depend on the order of summation
                "whole": list(node.integer_target),
                "unit": None if node.unit is None else sorted((shape.items, count) for shape, count in node.unit.parts),
                "able": node.placeable,
            }
        else:  # of equal jobs that wait in one line only the first counts
            seen |= {"able": node.able_asks, "owed": node.owed_asks}
        nodes[node.path] = seen
    state = picture(engine.state)
    for key, (status, node_name, started, *rest) in state["tasks"].items():
        state["tasks"][key] = (status, node_name, when[started], *rest)
    return {"state": state, "tree": nodes}
