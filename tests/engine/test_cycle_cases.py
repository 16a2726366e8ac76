"""Worked tables through the engine: shares, hierarchies, namespaces, organisations, namespace weights, users."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from kubebase.resource_vector import dominant_share
from pumice.engine.engine import Engine
from pumice.engine.events import Changed, Gone
from pumice.engine.fairness.share_tree.share_node import NodeKind
from pumice.engine.state.cluster_state import ClusterState
from pumice.model.specs import JobPhase, JobSpec, NodeSpec, Queue, Quota, TaskSpec, TaskStatus
from tests.support.case_files import read_cases
from tests.support.pools import amounts, make_engine

CASES = read_cases("scheduling")
Case = dict[str, Any]


def each(section: str) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("case", CASES[section], ids=lambda case: case["id"])


both_rules = pytest.mark.parametrize("rule", ["steer", "paper"])


def node(engine: Engine, capacity: Mapping[str, float]) -> None:
    room = list(amounts(engine.state.registry, capacity))
    room[2] = 10_000
    engine.apply(Changed(NodeSpec("n", tuple(room))))


def add_job(
    engine: Engine,
    name: str,
    queue: str,
    tasks: int,
    asks: Mapping[str, float],
    *,
    running: int = 0,
    namespace: str = "ns",
    created: int = 0,
    user: str | None = None,
) -> None:
    """A job with so many tasks, the first of them running."""
    engine.apply(Changed(JobSpec(namespace, name, queue, created=created, phase=JobPhase.INQUEUE, user=user)))
    request = list(amounts(engine.state.registry, asks))
    request[2] = 1
    for i in range(tasks):
        where: dict[str, Any] = {"node": "n", "status": TaskStatus.RUNNING, "started": i + 1} if i < running else {}
        key = f"{namespace}/{name}"
        engine.apply(Changed(TaskSpec(namespace, f"{name}-{i:03d}", tuple(request), job=key, created=i, **where)))


@each("shares")
def test_shares(case: Case) -> None:
    engine = make_engine(hierarchy=False)
    node(engine, case["capacity"])
    engine.apply(Changed(Queue("q")))
    for name, holds in case["holds"].items():
        add_job(engine, name, "q", 1, holds, running=1)
        request = tuple(amounts(engine.state.registry, {"cpu": 1}))
        engine.apply(Changed(TaskSpec("ns", f"{name}-next", request, job=f"ns/{name}")))
    engine.prepare()
    jobs = engine.tree.jobs
    shares = {name: dominant_share(jobs[f"ns/{name}"].held, engine.state.capacity) for name in case["share"]}
    assert shares == pytest.approx(case["share"])
    (queue,) = engine.tree.root.children.values()
    assert [entry[-1].name[3:] for entry in engine.order.ranked(queue)] == case["order"]


@each("hierarchies")
@both_rules
def test_hierarchies(case: Case, rule: str) -> None:
    engine = make_engine(rule)
    node(engine, case["capacity"])
    for age, (name, (path, weights)) in enumerate(case["queues"].items()):
        engine.apply(Changed(Queue(name, created=age, path=path, path_weights=weights)))
    for age, (name, job) in enumerate(case["jobs"].items()):
        add_job(engine, name, job["queue"], job["tasks"], job["asks"], running=job.get("running", 0), created=age)
    engine.cycle(1_000_000)
    engine.validate()
    assert {name: engine.state.jobs[f"ns/{name}"].running for name in case["gets"]} == case["gets"]


@each("hierarchies")
def test_hierarchies_are_entitled_to_the_same(case: Case) -> None:
    engine = make_engine()
    node(engine, case["capacity"])
    for name, (path, weights) in case["queues"].items():
        engine.apply(Changed(Queue(name, path=path, path_weights=weights)))
    for name, job in case["jobs"].items():
        add_job(engine, name, job["queue"], job["tasks"], job["asks"])
    engine.prepare()
    targets = {name: engine.tree.jobs[f"ns/{name}"].target for name in case["gets"]}
    # With the half cpu that nobody can use the divisible target is a little above the whole tasks.
    assert {name: int(target) for name, target in targets.items()} == case["gets"]


@each("namespaces")
@both_rules
def test_namespaces(case: Case, rule: str) -> None:
    engine = make_engine(rule, namespaces=True)
    node(engine, {"cpu": 16})
    for name, weight in case["queues"].items():
        engine.apply(Changed(Queue(name, weight=weight)))
    for name, weight in case["weights"].items():
        engine.apply(Changed(Quota(name, "quota", weight)))
    for place, cpu in case["asks"].items():
        queue, namespace = place.split("/")
        add_job(engine, f"in-{queue}", queue, cpu, {"cpu": 1}, namespace=namespace)
    engine.cycle(1_000_000)
    got = {}
    for place in case["asks"]:
        queue, namespace = place.split("/")
        found = engine.tree.root.children[(NodeKind.QUEUE, queue)].children[(NodeKind.NAMESPACE, namespace)]
        got[place] = found.held[0] // 1000
    assert got == case["gets"]


def organisations(case: Case, wants: list[str], rule: str = "steer") -> Engine:
    engine = make_engine(rule)
    node(engine, {"cpu": 100})
    for organisation, queues in case["tree"].items():
        for name in queues:
            path = f"root/{organisation}/{name}"
            engine.apply(Changed(Queue(name, path=path, path_weights="1/1/1")))
    for name in wants:
        add_job(engine, name, name, 120, {"cpu": 1})
    return engine


def percent(engine: Engine, attribute: str) -> dict[str, int]:
    """By queue and organisation; 100 cpu, so a cpu is one percent."""
    found = {}
    for organisation in engine.tree.root.children.values():
        found[organisation.name] = getattr(organisation, attribute)[0] // 1000
        for queue in organisation.children.values():
            found[queue.name] = getattr(queue, attribute)[0] // 1000
    return found


@each("organisations")
@both_rules
def test_organisations(case: Case, rule: str) -> None:
    engine = organisations(case, case["wants"], rule)
    engine.cycle(1_000_000)
    assert percent(engine, "held") == case["percent"]


@each("organisations")
def test_organisations_are_entitled_to_the_same(case: Case) -> None:
    engine = organisations(case, case["wants"])
    engine.prepare()
    assert percent(engine, "entitled") == case["percent"]


@pytest.mark.parametrize(
    "case", [case for case in CASES["organisations"] if "gives_back" in case], ids=lambda c: c["id"]
)
def test_only_the_borrower_is_above_its_part(case: Case) -> None:
    before = next(other for other in CASES["organisations"] if "gives_back" not in other)
    engine = organisations(before, before["wants"])
    engine.cycle(1_000_000)
    for name in case["wants"]:
        if name not in before["wants"]:
            add_job(engine, name, name, 120, {"cpu": 1})
    engine.prepare()
    above = {name for name, held in percent(engine, "held").items() if held > percent(engine, "entitled")[name]}
    assert above == set(case["gives_back"])


@each("quotas")
def test_quotas(case: Case) -> None:
    state = ClusterState()
    for name, weight in case["events"]:
        if weight == "gone":
            state.apply(Gone(Quota, f"ns/{name}"))
        else:
            state.apply(Changed(Quota("ns", name, weight)))
    assert state.namespace_weight("ns") == case["weight"]


@each("user_limits")
@both_rules
def test_user_limits(case: Case, rule: str) -> None:
    engine = make_engine(rule)
    node(engine, {"cpu": 120})
    limits = {"min_user_limit_percent": "minUserLimitPercent", "user_limit_factor": "userLimitFactor"}
    engine.apply(Changed(Queue("q", **{field: case[name] for field, name in limits.items() if name in case})))
    engine.apply(Changed(Queue("idle")))
    add_job(engine, "all", "q", 200, {"cpu": 1}, user="greedy")
    for i in range(case["users"] - 1):
        add_job(engine, f"one-{i}", "q", 200 if "each" in case else 1, {"cpu": 1}, user=f"user{i}")
    engine.cycle(1_000_000)
    engine.cycle(2_000_000)
    assert engine.state.jobs["ns/all"].running == case.get("each", round(case.get("most", 0) * 60))
    others = [engine.state.jobs[f"ns/one-{i}"].running for i in range(case["users"] - 1)]
    assert set(others) <= {case.get("each", 1)}
