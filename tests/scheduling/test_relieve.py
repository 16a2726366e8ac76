"""Nodes over capacity by a binding that arrived late: the youngest of our pods there go, as few as will do."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from pumice.model.events import Changed
from pumice.model.objects import JobPhase, JobSpec, NodeSpec, Queue, TaskSpec, TaskStatus
from pumice.scheduling.decisions import Decision, Evict
from pumice.scheduling.engine import Engine
from pumice.scheduling.relieve import LATE
from tests.support.taking import taking_engine

CPU = 0


def cluster(cpu: int) -> Engine:
    engine = taking_engine(actions="allocate")
    engine.apply(Changed(NodeSpec("n", (cpu, 1000, 100))))
    engine.apply(Changed(Queue("q")))
    engine.apply(Changed(JobSpec("ns", "j", "q", min_member=1, phase=JobPhase.RUNNING)))
    return engine


def bound(name: str, cpu: int, started: int, **more: object) -> TaskSpec:
    spec = TaskSpec(
        "ns", name, (cpu, 0, 1), job="ns/j", node="n", status=TaskStatus.RUNNING, started=started, placed=True
    )
    return replace(spec, **more)  # type: ignore[arg-type]  # fields of it


def gone(decisions: list[Decision]) -> list[str]:
    return [d.task.removeprefix("ns/") for d in decisions if isinstance(d, Evict) and d.action == "relieve"]


def test_the_youngest_goes_in_the_cycle_in_which_it_is_seen() -> None:
    engine = cluster(4)
    for name, started in (("a", 1), ("b", 2)):
        engine.apply(Changed(bound(name, 2, started)))
    assert gone(engine.cycle(10)) == []
    engine.apply(Changed(bound("late", 2, 3)))
    assert gone(engine.cycle(11)) == ["late"]
    assert gone(engine.cycle(12)) == [], "once is enough"


def test_a_node_that_shrinks_sends_nobody_away() -> None:
    engine = cluster(4)
    for name, started in (("a", 1), ("b", 2)):
        engine.apply(Changed(bound(name, 2, started)))
    engine.cycle(10)
    engine.apply(Changed(NodeSpec("n", (3, 1000, 100))))
    assert gone(engine.cycle(11)) == []


def test_who_sees_a_node_that_shrank_for_the_first_time_sends_nobody_away_who_has_run_for_long() -> None:
    engine = cluster(3)
    for name, started in (("a", 1), ("b", 2)):
        engine.apply(Changed(bound(name, 2, started)))
    assert gone(engine.cycle(2 * LATE)) == []
    engine.apply(Changed(bound("late", 1, 2 * LATE)))
    assert gone(engine.cycle(2 * LATE + 1)) == ["late"]


def test_what_has_not_started_yet_is_the_youngest() -> None:
    engine = cluster(4)
    engine.apply(Changed(bound("a", 4, 5)))
    engine.cycle(10)
    engine.apply(Changed(bound("late", 4, 0, status=TaskStatus.BOUND)))
    assert gone(engine.cycle(11)) == ["late"]


def test_a_job_whose_queue_has_no_place_has_nothing_to_lose() -> None:
    engine = cluster(4)
    engine.apply(Changed(JobSpec("ns", "j", "nowhere", min_member=1, phase=JobPhase.RUNNING)))
    for name, started in (("a", 1), ("late", 2)):
        engine.apply(Changed(bound(name, 4, started)))
    assert gone(engine.cycle(10)) == []


def test_pods_that_somebody_else_put_there_stay() -> None:
    engine = cluster(4)
    engine.apply(Changed(bound("theirs", 3, 2, placed=False)))
    engine.apply(Changed(bound("a", 1, 1)))
    assert gone(engine.cycle(10)) == []
    engine.apply(Changed(bound("late", 1, 3)))
    assert gone(engine.cycle(11)) == ["late"]
    engine.apply(Changed(bound("theirs-too", 3, 4, placed=False)))
    assert gone(engine.cycle(12)) == [], "whoever did that knows what they do"


def test_what_we_decide_ourselves_is_nothing_new() -> None:
    engine = cluster(4)
    waiting = TaskSpec("ns", "w", (4, 0, 1), job="ns/j")
    engine.apply(Changed(waiting))
    assert engine.cycle(10)
    engine.apply(Changed(replace(waiting, node="n", status=TaskStatus.BOUND, placed=True)))
    assert not engine.state.arrivals


@given(st.lists(st.integers(1, 5), min_size=1, max_size=8), st.integers(1, 20))
def test_what_stays_fits_and_nobody_goes_for_nothing(sizes: list[int], cpu: int) -> None:
    engine = cluster(cpu)
    for number, size in enumerate(sizes):
        engine.apply(Changed(bound(str(number), size, number + 1)))
    left = dict(enumerate(sizes))
    went = [int(name) for name in gone(engine.cycle(10))]
    for number in went:
        del left[number]
    assert sum(left.values()) <= cpu
    assert went == sorted(went, reverse=True) and set(went) == set(range(len(left), len(sizes))), "the youngest"
    if went:
        assert sum(left.values()) + sizes[went[-1]] > cpu, "the last of them had to go"
    engine.validate()
