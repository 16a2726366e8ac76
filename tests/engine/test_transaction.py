"""Transactions: what is discarded leaves no trace, what is committed is what was decided."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given

from pumice.engine.actions.allocate import place_unit
from pumice.engine.candidates.units import AllocationUnit
from pumice.engine.decisions import Bind
from pumice.engine.engine import Engine
from pumice.engine.events import Changed
from pumice.engine.transaction import Transaction
from pumice.model.specs import JobPhase, JobSpec, NodeSpec, Queue, TaskSpec
from tests.support.engines import ENGINES, WITH_HOLDS, everything, run
from tests.support.examples import fewer_examples
from tests.support.histories import History, seeds
from tests.support.pools import make_engine

ALL = ENGINES | WITH_HOLDS


def waiting_with(unit: AllocationUnit) -> list[str]:
    """The jobs that wait with a unit, by themselves or in lines."""
    members = [leaf for line in unit.lines for leaf in line.members.values()]
    return sorted(leaf.name for leaf in (*unit.waiting, *members))


def seen(engine: Engine) -> dict[str, Any]:
    """Everything, and what the node table, the candidates and the order answer."""
    candidates, nodes = engine.candidates, engine.nodes
    shapes = list(engine.state.shapes)
    return {
        **everything(engine),
        "owed flags": {key: task.owed for key, task in engine.state.tasks.items()},
        "waiting": {
            job.key: {shape.index: [task.key for task in tasks] for shape, tasks in job.pending.items()}
            for job in engine.state.jobs.values()
        },
        "best": {shape.index: nodes.best_node(shape) for shape in shapes},
        "fits": {shape.index: nodes.fits_somewhere(shape) for shape in shapes if not shape.coupled},
        "scores": {shape.index: nodes.scored(shape).scores.tolist() for shape in shapes},
        "units": {
            tuple((shape.index, count) for shape, count in unit.parts): (candidates.is_open(unit), waiting_with(unit))
            for unit in candidates.units
        },
        "full": set(candidates.infeasible_shapes),
        "aside": dict(candidates.gated_jobs),
        "pick": engine.order.next_job(),
        "explanation": engine.order.explain(),
        "decisions": list(engine.context.decided.decisions),
    }


def place_something(engine: Engine, transaction: Transaction, history: History) -> None:
    """Try units of jobs, as allocate does, whether or not it is their turn."""
    leaves = [leaf for leaf in engine.tree.jobs.values() if leaf.unit is not None]
    for leaf in history.rng.sample(leaves, min(len(leaves), 2)):
        inner = Transaction(engine.context, transaction)
        if place_unit(engine.context, inner, leaf, leaf.unit) is None and history.rng.random() < 0.7:
            inner.commit()
        else:
            inner.discard()


@pytest.mark.parametrize("make", list(ALL.values()), ids=list(ALL))
@fewer_examples(3)
@given(seed=seeds)
def test_a_discard_leaves_no_trace(make: Callable[[], Engine], seed: int) -> None:
    engine, history = make(), History(seed)
    run(engine, history.steps(2))
    for event in history.events(6):  # room that no cycle has filled yet
        engine.apply(event)
    engine.prepare()
    before = seen(engine)
    for _ in range(3):
        transaction = Transaction(engine.context)
        place_something(engine, transaction, history)
        transaction.discard()
        assert seen(engine) == before


# --- by hand ------------------------------------------------------------------------------------------------------


def small_cluster() -> Engine:
    engine = make_engine()
    for described in (
        Queue("q"),
        NodeSpec("m", (2, 9, 9)),
        NodeSpec("n", (2, 9, 9)),
        JobSpec("ns", "j", "q", min_member=2, phase=JobPhase.INQUEUE),
        *[TaskSpec("ns", f"t{i}", (1, 0, 1), job="ns/j") for i in range(6)],
    ):
        engine.apply(Changed(described))
    engine.prepare()
    return engine


def test_a_commit_becomes_decisions_in_the_order_of_the_steps() -> None:
    engine = small_cluster()
    leaf = engine.tree.jobs["ns/j"]
    transaction = Transaction(engine.context)
    assert place_unit(engine.context, transaction, leaf, leaf.unit) is None
    assert engine.context.decided.decisions == []  # nothing is said before it is certain
    transaction.commit()
    assert engine.context.decided.decisions == [Bind("ns/t0", "m", "ns/j"), Bind("ns/t1", "m", "ns/j")]
    assert leaf.held[0] == 2 and engine.state.jobs["ns/j"].running == 2
    engine.validate()


def test_an_inner_commit_is_the_outer_ones_to_keep() -> None:
    engine = small_cluster()
    leaf = engine.tree.jobs["ns/j"]
    before = seen(engine)
    outer = Transaction(engine.context)
    inner = Transaction(engine.context, outer)
    place_unit(engine.context, inner, leaf, leaf.unit)
    inner.commit()
    assert engine.context.decided.decisions == [] and leaf.held[0] == 2
    outer.discard()
    assert seen(engine) == before


def test_an_inner_discard_leaves_the_outer_steps() -> None:
    engine = small_cluster()
    leaf = engine.tree.jobs["ns/j"]
    outer = Transaction(engine.context)
    place_unit(engine.context, outer, leaf, leaf.unit)
    inner = Transaction(engine.context, outer)
    place_unit(engine.context, inner, leaf, leaf.unit)
    assert leaf.held[0] == 4
    inner.discard()
    assert leaf.held[0] == 2
    outer.commit()
    assert [decision.node for decision in engine.context.decided.decisions] == ["m", "m"]
    engine.validate()


def test_a_unit_that_fits_in_part_does_not_start() -> None:
    engine = small_cluster()
    engine.apply(Changed(JobSpec("ns", "j", "q", min_member=5, phase=JobPhase.INQUEUE)))
    engine.prepare()
    leaf = engine.tree.jobs["ns/j"]
    before = seen(engine)
    transaction = Transaction(engine.context)
    shape, placed = place_unit(engine.context, transaction, leaf, leaf.unit) or (None, 0)  # five tasks, four places
    assert (shape, placed) == (leaf.unit.parts[0][0], 4)
    transaction.discard()
    assert seen(engine) == before
