"""Nodes over capacity by a binding that arrived late: the last of our pods to come there go, as few as will do."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from pumice.engine.checkpoint.restore import snapshot_engine
from pumice.engine.decisions import Decision, Evict
from pumice.engine.engine import Engine
from pumice.engine.events import Changed, EvictFailed, Gone
from pumice.engine.recovery.eviction_backoff import FIRST_DELAY
from pumice.engine.recovery.overcommitted_nodes import LATE_BIND_WINDOW
from pumice.model.specs import JobPhase, JobSpec, NodeSpec, Queue, TaskSpec, TaskStatus
from tests.support.recorded import Recorded
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
    return [d.task.removeprefix("ns/") for d in decisions if isinstance(d, Evict) and d.action == "relieve-nodes"]


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


def test_new_engine_evicts_no_long_running_pod_of_shrunken_node() -> None:
    engine = cluster(3)
    for name, started in (("a", 1), ("b", 2)):
        engine.apply(Changed(bound(name, 2, started)))
    assert gone(engine.cycle(2 * LATE_BIND_WINDOW)) == []
    engine.apply(Changed(bound("late", 1, 2 * LATE_BIND_WINDOW)))
    assert gone(engine.cycle(2 * LATE_BIND_WINDOW + 1)) == ["late"]


def test_last_pod_seen_is_evicted_regardless_of_name_and_clock() -> None:
    engine = cluster(4)
    engine.apply(Changed(bound("a-first", 4, 0, status=TaskStatus.BOUND)))
    engine.cycle(10)
    engine.apply(Changed(bound("z-late", 4, 0, status=TaskStatus.BOUND)))
    assert gone(engine.cycle(11)) == ["z-late"]

    engine = cluster(4)
    now = 10 * LATE_BIND_WINDOW
    engine.apply(Changed(bound("z-first", 4, now)))
    engine.cycle(now)
    engine.apply(Changed(bound("a-late", 4, now - 2 * LATE_BIND_WINDOW)))  # by a clock that is far behind
    assert gone(engine.cycle(now + 1)) == ["a-late"]


def test_last_pod_seen_between_two_cycles_is_evicted_first() -> None:
    engine = cluster(4)
    engine.cycle(10)
    for name in ("b", "c", "a"):
        engine.apply(Changed(bound(name, 2, 5)))
    assert gone(engine.cycle(11)) == ["a"]


def test_pod_bound_by_own_decision_is_not_evicted() -> None:
    engine = cluster(4)
    ours = TaskSpec("ns", "ours", (4, 0, 1), job="ns/j")
    engine.apply(Changed(ours))
    assert engine.cycle(10)
    engine.apply(Changed(bound("late", 4, 0, status=TaskStatus.BOUND)))
    engine.apply(Changed(replace(ours, node="n", status=TaskStatus.BOUND, placed=True)))
    assert gone(engine.cycle(11)) == ["late"]


# --- at first sight ---------------------------------------------------------------------------------------------------


def test_at_first_sight_the_last_to_be_bound_goes_if_that_was_not_long_ago() -> None:
    engine, now = cluster(4), 10 * LATE_BIND_WINDOW
    engine.apply(Changed(bound("a-late", 4, now - 2, status=TaskStatus.BOUND)))
    engine.apply(Changed(bound("z-first", 4, now - LATE_BIND_WINDOW // 2)))
    assert gone(engine.cycle(now)) == ["a-late"]


def test_at_first_sight_what_was_bound_long_ago_stays_though_it_still_pulls_its_image() -> None:
    engine, now = cluster(4), 10 * LATE_BIND_WINDOW
    engine.apply(Changed(bound("a", 4, now - 5 * LATE_BIND_WINDOW)))
    engine.apply(Changed(bound("pulls", 4, now - LATE_BIND_WINDOW, status=TaskStatus.BOUND)))
    assert gone(engine.cycle(now)) == [] and not engine.state.unexpected_pods


def test_at_first_sight_age_tells_where_nobody_says_when_a_pod_was_bound() -> None:
    for created, expected in ((9 * LATE_BIND_WINDOW, []), (10 * LATE_BIND_WINDOW - 5, ["b"])):
        engine = cluster(4)
        engine.apply(Changed(bound("a", 4, LATE_BIND_WINDOW)))
        engine.apply(Changed(bound("b", 4, 0, status=TaskStatus.BOUND, created=created)))
        assert gone(engine.cycle(10 * LATE_BIND_WINDOW)) == expected


# --- again ------------------------------------------------------------------------------------------------------------


def overfull() -> Engine:
    """4 cpu, held since long ago, and 4 more that came late and are on their way out since cycle 11."""
    engine = cluster(4)
    engine.apply(Changed(bound("a", 4, 5)))
    engine.cycle(10)
    engine.apply(Changed(bound("late", 4, 0, status=TaskStatus.BOUND)))
    assert gone(engine.cycle(11)) == ["late"]
    return engine


def test_failed_eviction_is_retried_with_doubled_delay() -> None:
    engine, now = overfull(), 11
    # Each time it is spared twice as long: 30 s, 60 s, 120 s. In between nobody is asked, and nobody else goes for it.
    for times in range(3):
        engine.apply(EvictFailed("ns/late"))
        wait = FIRST_DELAY << times
        assert [gone(engine.cycle(now + share * wait // 4)) for share in (1, 2, 3)] == [[], [], []]
        now += wait
        assert gone(engine.cycle(now)) == ["late"]
    engine.apply(Gone(TaskSpec, "ns/late"))
    assert gone(engine.cycle(now + 1)) == [] and not engine.state.unexpected_pods
    engine.validate()


def test_a_node_that_fits_again_is_not_looked_at_any_more() -> None:
    engine = overfull()
    engine.apply(EvictFailed("ns/late"))
    engine.apply(Gone(TaskSpec, "ns/a"))
    assert gone(engine.cycle(20)) == [] and not engine.state.unexpected_pods
    engine.apply(Changed(NodeSpec("n", (3, 1000, 100))))
    assert gone(engine.cycle(11 + 2 * FIRST_DELAY)) == [], "now it has shrunk, which is another matter"


def test_later_pod_is_evicted_if_eviction_of_earlier_one_fails() -> None:
    engine = cluster(4)
    engine.apply(Changed(bound("a", 2, 5)))
    engine.cycle(10)
    engine.apply(Changed(bound("late", 4, 6)))
    assert gone(engine.cycle(11)) == ["late"]
    engine.apply(Changed(bound("later", 2, 7)))
    assert gone(engine.cycle(12)) == []  # 2 + 4 + 2, of which 4 are on their way out
    engine.apply(EvictFailed("ns/late"))
    assert gone(engine.cycle(13)) == ["later"]
    assert gone(engine.cycle(12 + FIRST_DELAY)) == ["late"]


def test_an_engine_in_the_place_of_another_knows_who_turned_up() -> None:
    engine = Recorded(cluster(4))
    engine.apply(Changed(bound("a", 4, 5)))
    engine.cycle(10)
    engine.apply(Changed(bound("late", 4, 0, status=TaskStatus.BOUND)))
    before = snapshot_engine(engine.engine)
    engine.replace()
    assert snapshot_engine(engine.engine) == before
    assert gone(engine.cycle(11)) == ["late"]
    engine.apply(EvictFailed("ns/late"))
    engine.replace()
    assert gone(engine.cycle(12)) == []
    assert gone(engine.cycle(11 + FIRST_DELAY)) == ["late"]


def test_engine_replaced_before_first_cycle_evicts_no_long_running_pod() -> None:
    engine = Recorded(cluster(4))
    for name, started in (("a", 1), ("b", 2)):
        engine.apply(Changed(bound(name, 4, started)))
    engine.replace()
    assert gone(engine.cycle(2 * LATE_BIND_WINDOW)) == []


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


def test_pod_bound_by_own_decision_is_not_unexpected() -> None:
    engine = cluster(4)
    waiting = TaskSpec("ns", "w", (4, 0, 1), job="ns/j")
    engine.apply(Changed(waiting))
    assert engine.cycle(10)
    engine.apply(Changed(replace(waiting, node="n", status=TaskStatus.BOUND, placed=True)))
    assert not engine.state.unexpected_pods


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
