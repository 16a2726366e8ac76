"""What ``why`` says holds, on random small clusters: the engine itself is the witness."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kubebase.resource_vector import CPU
from pumice.engine.decisions import Bind, Decision
from pumice.engine.engine import Engine
from pumice.engine.events import Changed
from pumice.engine.explain import WaitReport, explain
from pumice.engine.explain.competition import find_competition, fitting_now
from pumice.engine.explain.limit_report import limits_of
from pumice.engine.explain.node_fit import places
from pumice.engine.fairness.share_tree.share_node import ShareNode
from pumice.engine.plugins.builtin.predicates import PredicatesPlugin
from pumice.model.specs import (
    Constraints,
    JobPhase,
    JobSpec,
    NodeSpec,
    PodTerm,
    Queue,
    QueueState,
    Spread,
    Taint,
    TaskSpec,
    Toleration,
)
from tests.support.clusters import Cluster, is_in
from tests.support.engines import ENGINES, WITH_HOLDS, everything, started_now
from tests.support.histories import History, seeds
from tests.support.policies import policy_engine

Make = Callable[[], Engine]

EXAMPLES = settings.default.max_examples // 6
"""Each asks about every job of a cluster at several moments."""

each_engine = pytest.mark.parametrize("make", list(ENGINES.values()), ids=list(ENGINES))
each_engine_and_holds = pytest.mark.parametrize(
    "make", list((ENGINES | WITH_HOLDS).values()), ids=list(ENGINES | WITH_HOLDS)
)


def clusters(make: Make, seed: int) -> Iterator[Make]:
    """A cluster at some moments of its history, each as often as it is asked for, before the next cycle."""
    engine = make()
    for now, step in enumerate(History(seed).steps(3), 1):
        for event in step:
            engine.apply(event)
        yield lambda: started_now(make, engine)
        engine.cycle(now * 1_000_000)
    yield lambda: started_now(make, engine)


def binds(decisions: list[Decision]) -> list[str]:
    return list(dict.fromkeys(decision.job for decision in decisions if isinstance(decision, Bind)))


@each_engine
@settings(max_examples=EXAMPLES)
@given(seed=seeds)
def test_who_starts_next_is_told_so_and_nobody_else(make: Make, seed: int) -> None:
    for fresh in clusters(make, seed):
        started = binds(fresh().cycle(9_000_000))
        for key in fresh().state.jobs:
            answer = explain(fresh(), key, 9_000_000)
            assert answer is not None
            assert (answer.cause == "next") is (key in started), answer.verdict
            if answer.cause in ("room", "limit", "turn", "line", "next"):
                assert answer.outlook.first == started


@each_engine
@settings(max_examples=EXAMPLES)
@given(seed=seeds)
def test_who_is_first_at_every_level_is_served_first(make: Make, seed: int) -> None:
    for fresh in clusters(make, seed):
        started = binds(fresh().cycle(9_000_000))
        for key in started:
            answer = explain(fresh(), key, 9_000_000)
            assert answer is not None
            held = answer.contest
            if held is None or held.supposing:
                assert answer.fitting_now < answer.unit_tasks  # it starts those of its tasks that ask for nothing
                continue
            ahead = [rung for rung in held.rungs if rung.first is not None]
            assert (held.first_job == key) is not bool(ahead)
            if key == started[0]:
                assert held.first_job == key


@each_engine_and_holds
@settings(max_examples=EXAMPLES)
@given(seed=seeds)
def test_to_ask_changes_nothing(make: Make, seed: int) -> None:
    for fresh in clusters(make, seed):
        engine = fresh()
        engine.prepare()
        before = everything(engine)
        for leaf in list(engine.tree.jobs.values()):
            if leaf.unit is not None:
                find_competition(engine, leaf)
                limits_of(engine, leaf, leaf.unit)
                fitting_now(engine, leaf, leaf.unit)
        assert everything(engine) == before
        assert binds(engine.cycle(9_000_000)) == binds(fresh().cycle(9_000_000))


@each_engine
@settings(max_examples=EXAMPLES)
@given(seed=seeds)
def test_every_node_is_counted_once(make: Make, seed: int) -> None:
    for fresh in clusters(make, seed):
        engine = fresh()
        engine.prepare()
        for job in engine.state.jobs.values():
            for shape in job.pending:
                found = places(engine.nodes, shape, engine.state.registry)
                assert found.fitting + sum(out.count for out in found.out) == found.nodes == len(engine.nodes.nodes)
                assert bool(found.fitting) is (engine.nodes.best_node(shape) >= 0)
                empty = places(engine.nodes, shape, engine.state.registry, empty=True)
                assert bool(empty.fitting) is engine.nodes.possible(shape)


LABELS = ("1", "2")
near = PodTerm("zone", (is_in("app", "x"),), None)


@st.composite
def constraints(draw: st.DrawFn) -> Constraints:
    def some(*found: object) -> tuple:
        return found if draw(st.integers(0, 3)) == 0 else ()

    return Constraints(
        node_selector=some(("zone", "1")),
        tolerations=some(Toleration("gpu", "Exists")),
        ports=some(("TCP", "0.0.0.0", 80)),
        affinity=some(near),
        anti_affinity=some(near),
        spread=some(Spread("zone", 1, (is_in("app", "x"),))),
    )


@given(data=st.data())
def test_every_node_is_counted_once_whatever_is_in_the_way(data: st.DataObject) -> None:
    draw, cluster = data.draw, Cluster(PredicatesPlugin({}))
    for i in range(draw(st.integers(0, 5))):
        taints = [Taint("gpu")] if draw(st.integers(0, 3)) == 0 else []
        state = {"unschedulable": draw(st.integers(0, 5)) == 0, "ready": draw(st.integers(0, 5)) > 0}
        cluster.node(f"n{i}", {"zone": draw(st.sampled_from(LABELS))}, taints=taints, **state)
        for j in range(draw(st.integers(0, 2))):
            asks = {"cpu": draw(st.sampled_from([1, 7]))}
            about = {"app": draw(st.sampled_from("xy"))}
            cluster.pod(f"p{i}-{j}", about, on=f"n{i}", asks=asks, constraints=draw(constraints()))
    pod = cluster.pod("new", {"app": draw(st.sampled_from("xy"))}, asks={"cpu": 2}, constraints=draw(constraints()))
    found = places(cluster.table, pod.shape, cluster.state.registry)
    assert found.fitting == len(cluster.scores(pod))
    assert found.fitting + sum(out.count for out in found.out) == found.nodes


# ---- limits --------------------------------------------------------------------------------------------------------

ROOM = 12
amount = st.none() | st.integers(1, 6)


@st.composite
def limited(draw: st.DrawFn) -> list[Queue | JobSpec | TaskSpec]:
    """Two branches of two queues with limits on the way, and jobs that want more than they may have."""
    found: list[Queue | JobSpec | TaskSpec] = []
    for name, parent in {"a": "root", "b": "root", "a1": "a", "a2": "a", "b1": "b", "b2": "b"}.items():
        leaf = len(name) == 2
        most, least = draw(amount), draw(st.sampled_from([None, None, 1, 2])) if leaf else None
        found.append(
            Queue(
                name,
                created=len(found),
                parent=parent,
                weight=draw(st.integers(1, 3)),
                capability=((CPU, most if leaf else most * 2),) if most else (),
                guarantee=((CPU, min(least, most or least)),) if least else (),
                min_user_limit_percent=draw(st.sampled_from([None, None, 30])) if leaf else None,
                user_limit_factor=draw(st.sampled_from([None, None, 0.5])) if leaf else None,
                state=draw(st.sampled_from([QueueState.OPEN] * 5 + [QueueState.CLOSED, QueueState.PAUSED])),
            )
        )
    for number in range(draw(st.integers(1, 5))):
        queue, user = draw(st.sampled_from(["a1", "a2", "b1", "b2"])), draw(st.sampled_from(["x", "y"]))
        gang = draw(st.sampled_from([1, 1, 2]))
        job = JobSpec("ns", f"j{number}", queue, number, min_member=gang, phase=JobPhase.INQUEUE, user=user)
        found.append(job)
        asks = draw(st.lists(st.integers(1, 2), min_size=gang, max_size=6))
        found += [TaskSpec("ns", f"{job.name}-w-{i}", (cpu, 0, 1), job=job.key) for i, cpu in enumerate(asks)]
    return found


def filled(policy: str, objects: list[Queue | JobSpec | TaskSpec]) -> Engine:
    engine = policy_engine(policy)
    engine.apply(Changed(NodeSpec("n", (ROOM, 1000, 999))))
    for described in objects:
        engine.apply(Changed(described))
    for now in range(1, 5):
        engine.cycle(now * 1_000_000)
    return engine


def lifted(objects: dict[str, Queue], answer: WaitReport) -> list[Queue]:
    """The queues without the one limit that an answer names."""
    (limit,) = answer.limits
    name = limit.queue.rpartition("/")[2]
    match limit.kind:
        case "capability":
            return [replace(objects[name], capability=())]
        case "guarantee":
            return [replace(queue, guarantee=()) for queue in objects.values() if queue.guarantee]
        case "user":
            return [replace(objects[name], min_user_limit_percent=None, user_limit_factor=None)]
    raise AssertionError(f"{limit.kind} is no limit of theirs")


@pytest.mark.parametrize("policy", ["capacity", "drf and capacity"])
@given(objects=limited())
def test_a_job_that_one_limit_keeps_starts_when_it_is_lifted(policy: str, objects: list) -> None:
    queues = {described.name: described for described in objects if isinstance(described, Queue)}
    for key in [described.key for described in objects if isinstance(described, JobSpec)]:
        answer = explain(filled(policy, objects), key, 5_000_000)
        assert answer is not None
        if answer.cause != "limit" or len(answer.limits) > 1 or answer.fitting_now < answer.unit_tasks:
            continue
        engine = filled(policy, objects)
        for queue in lifted(queues, answer):
            engine.apply(Changed(queue))
        # It starts, or somebody does whom the limit kept as well.
        assert binds(engine.cycle(5_000_000)), answer.limits
        again = explain(engine, key, 6_000_000)
        assert again is not None
        assert answer.limits[0].kind not in {
            limit.kind for limit in again.limits if limit.queue == answer.limits[0].queue
        }


@pytest.mark.parametrize("policy", ["capacity", "drf and capacity", "proportion"])
@given(objects=limited())
def test_limits_are_named_exactly_where_a_gate_refuses(policy: str, objects: list) -> None:
    engine = filled(policy, objects)
    engine.prepare()
    for leaf in engine.tree.jobs.values():
        if leaf.unit is not None:
            refused = engine.policy.allocatable(leaf, leaf.unit) is not None
            assert bool(limits_of(engine, leaf, leaf.unit)) is refused


@given(objects=limited())
def test_a_job_whose_queue_is_shut_is_told_which(objects: list) -> None:
    for key in [described.key for described in objects if isinstance(described, JobSpec)]:
        engine = filled("capacity", objects)
        answer = explain(engine, key, 5_000_000)
        assert answer is not None
        takes_work = engine.context.sync.may_start(engine.state.jobs[key])
        if answer.cause == "queue":
            queue: ShareNode | None = engine.tree.jobs[key].queue
            shut = []
            while queue is not None:
                found = engine.context.sync.queue_of(queue)
                if found is not None and (
                    found.state is not QueueState.OPEN or found.name in engine.context.sync.refused_queues
                ):
                    shut.append(found.name)
                queue = queue.parent
            assert not takes_work and any(f"queue {name}" in answer.notes[0] for name in shut)
        else:
            assert takes_work or answer.cause in ("running", "finished")
