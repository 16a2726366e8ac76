"""An engine in the place of another goes on as if nothing had happened."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pumice.engine.checkpoint.restore import snapshot_engine
from pumice.engine.decisions import Bind, Evict, Pipeline
from pumice.engine.engine import Engine
from pumice.engine.events import Gone
from pumice.model.specs import JobPhase, TaskStatus
from tests.support.engines import carried_out
from tests.support.examples import fewer_examples
from tests.support.lives import KINDS, Life
from tests.support.recorded import Recorded
from tests.support.taking import SECOND, Shell, taking_engine

seeds = st.integers(0, 2**32 - 1)


@fewer_examples(3)
@given(seed=seeds)
def test_who_takes_the_place_of_another_knows_what_that_one_knew(seed: int) -> None:
    chance = random.Random(seed)
    engine = Recorded(KINDS[chance.choice(list(KINDS))]())
    life = Life(engine, seed)
    bound: set[str] = set()
    for _ in range(10):
        if chance.random() < 0.5:
            before = snapshot_engine(engine.engine)
            engine.replace()
            assert snapshot_engine(engine.engine) == before
            engine.validate()
        waiting = {key for key, task in engine.state.tasks.items() if task.status is TaskStatus.PENDING}
        seated = bound - waiting
        decisions = life.second()
        binds = [decision.task for decision in decisions if isinstance(decision, Bind)]
        assert len(set(binds)) == len(binds) and not seated.intersection(binds)
        bound = {key for key, task in engine.state.tasks.items() if task.status.on_node}


def goes_the_same_way(seed: int) -> bool:
    """Whether a cluster whose engine is replaced again and again goes the way of one that keeps its own."""
    chance = random.Random(seed)
    make = KINDS[chance.choice(list(KINDS))]
    steady, replaced = Life(make(), seed), Life(Recorded(make()), seed)
    for _ in range(12):
        if chance.random() < 0.4:
            replaced.shell.engine.replace()  # type: ignore[attr-defined]  # a stand-in for an engine
        expected, found = (sorted(map(repr, carried_out(life.second()))) for life in (steady, replaced))
        if expected != found:
            return False
    return True


def test_restored_engine_decides_like_original() -> None:
    # (What people are told may be up to date earlier, and tasks of one unit may come in another order.)
    assert [seed for seed in range(40) if not goes_the_same_way(seed)] == []


@pytest.mark.parametrize(
    "seed",
    [
        2878,  # of two equal jobs that wait, the one that had the last turn comes second: rounding must know the turns
        991,  # a job with a reservation has no unit while its other task waits for a victim, and has one again later
        454,  # a gang goes whole: from which of its nodes first must not depend on the order in which its tasks came
        1005,  # somebody who waited on a node is sent back: what was known to fit nowhere fits there in the same cycle
    ],
)
def test_restored_engine_decides_like_original_on_regression_seeds(seed: int) -> None:
    assert goes_the_same_way(seed)


@pytest.mark.long
def test_restored_engine_decides_like_original_on_thousands_of_seeds() -> None:
    assert [seed for seed in range(40, 4000) if not goes_the_same_way(seed)] == []


# --- what must not get lost -------------------------------------------------------------------------------------------


def taking(grace: int = 3, **more: Any) -> tuple[Shell, Recorded]:
    """4 cpu of queue a; b's gang of 2 waits for the two that are being released."""
    engine = Recorded(taking_engine(**more))
    shell = Shell(engine, grace=grace, audited=False)  # type: ignore[arg-type]  # a stand-in for an engine
    shell.node("n0", 4)
    shell.queue("root/a")
    shell.queue("root/b")
    shell.job("a", [(1,)] * 4, name="a")
    shell.cycle()
    shell.job("b", [(1,)] * 2, 2, name="b")
    return shell, engine


def test_restored_engine_keeps_room_reserved_for_pipelined_tasks() -> None:
    shell, engine = taking()
    assert sum(isinstance(decision, Pipeline) for decision in shell.cycle()) == 2
    assert len(shell.leaving) == 2
    victims = dict(engine.engine.context.pipelined.awaited)
    engine.replace()
    assert [task.key for task in engine.engine.context.pipelined.tasks] == ["ns/b-t-0", "ns/b-t-1"]
    assert engine.engine.context.pipelined.awaited == victims
    shell.job("a", [(1,)] * 2, name="late")
    bound: list[str] = []
    for _ in range(4):
        engine.replace()
        bound += [decision.task for decision in shell.cycle() if isinstance(decision, Bind)]
    assert bound == ["ns/b-t-0", "ns/b-t-1"]
    assert sum(evict.preemptor == "ns/b" for _, evict in shell.evictions) == 2


def test_restored_engine_keeps_evicted_tasks_releasing() -> None:
    # Nothing but the decision says so: the cluster still shows the task as running.
    shell, engine = taking()
    evicted = [decision.task for decision in engine.cycle(2 * SECOND) if isinstance(decision, Evict)]
    assert len(evicted) == 2
    engine.replace()
    for key in evicted:
        task = engine.engine.state.tasks[key]
        assert task.status is TaskStatus.RELEASING and task.evicted and task.spec.status is TaskStatus.RUNNING
    assert not [decision for decision in engine.cycle(3 * SECOND) if isinstance(decision, Evict)]
    assert len(shell.tasks) == 6


def retry_times(engine: Engine) -> dict[str, int]:
    return {key: engine.context.eviction_backoff.retry_at(key) for key in engine.state.tasks}


def test_restored_engine_keeps_retry_times_of_failed_evictions() -> None:
    shell, engine = taking()
    shell.fails = lambda decision: isinstance(decision, Evict)
    shell.cycle()
    spared = retry_times(engine.engine)
    assert sum(1 for until in spared.values() if until) == 2
    engine.replace()
    assert retry_times(engine.engine) == spared


def test_restored_engine_keeps_enqueued_job_inqueue() -> None:
    shell, engine = taking()
    spec = engine.engine.state.jobs["ns/b"].spec
    assert spec is not None
    shell.put(replace(spec, name="c", phase=JobPhase.PENDING))
    engine.engine.state.jobs["ns/c"].phase = JobPhase.INQUEUE  # by a decision that no object shows
    engine.replace()
    assert engine.engine.state.jobs["ns/c"].phase is JobPhase.INQUEUE


def test_a_job_of_which_only_the_pods_are_known_stays_known() -> None:
    shell, engine = taking()
    spec = engine.engine.state.jobs["ns/a"].spec
    assert spec is not None
    engine.apply(Gone(type(spec), "ns/a"))
    engine.replace()
    assert engine.engine.state.jobs["ns/a"].spec is None
    assert len(engine.engine.state.jobs["ns/a"].tasks) == 4
    engine.engine.validate()
    shell.put(spec)
    assert engine.engine.state.jobs["ns/a"].running == 4


def test_the_engine_before_is_not_touched() -> None:
    shell, engine = taking()
    before = engine.engine
    engine.replace()
    assert engine.engine.state is not before.state
    first, second = before.cycle(shell.now + SECOND), engine.cycle(shell.now + SECOND)
    assert first == second
    before.validate()
