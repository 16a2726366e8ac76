"""overcommit: how many jobs are let in."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kubebase.resource_vector import Registry
from pumice.engine.config.scheduler_config import parse_config
from pumice.engine.decisions import Bind, Enqueue
from pumice.engine.engine import Engine
from pumice.engine.events import Changed
from pumice.engine.fairness.share_tree.share_node import NodeKind
from pumice.engine.plugins.builtin import BUILT_IN
from pumice.engine.plugins.builtin.overcommit import OvercommitPlugin
from pumice.engine.plugins.plugin import PluginError
from pumice.model.specs import JobPhase, JobSpec, NodeSpec, Queue, TaskSpec, TaskStatus
from tests.support.taking import Shell, taking_engine

JOB = JobSpec("ns", "j", "q", min_resources=(2, 0, 1))


def engine(arguments: str = "{}", drf: str = "{name: drf}", cpu: int = 10, gpu: int = 0) -> Engine:
    text = f"""
actions: "enqueue, allocate"
tiers:
- plugins: [{{name: gang}}]
- plugins:
  - {drf}
  - name: overcommit
    arguments: {arguments}
"""
    registry = Registry()
    registry.index("gpu")
    known = ["enqueue", "allocate"]
    made = Engine(parse_config(text, known_plugins=BUILT_IN, known_actions=known), BUILT_IN, registry)
    made.apply(Changed(NodeSpec("n", (cpu, 0, 100, gpu))))
    made.apply(Changed(Queue("q")))
    return made


def judged(made: Engine, spec: JobSpec) -> str | None:
    """What overcommit says of a job that waits."""
    made.apply(Changed(spec))
    made.prepare()
    (plugin,) = [plugin for _, plugin in made.policy.plugins if plugin.name == "overcommit"]
    return plugin.enqueueable(made.tree.jobs[spec.key])


@pytest.mark.parametrize(
    ("held", "inqueue", "asked", "arguments", "allowed"),
    [
        # 10 cpu * 1.2 = 12
        (0, 0, 12, "{}", True),
        (0, 0, 13, "{}", False),
        (7, 0, 5, "{}", True),
        (7, 0, 6, "{}", False),
        (7, 3, 2, "{}", True),
        (7, 3, 3, "{}", False),
        # Already beyond it: nothing more, but who asks for none of it is not concerned.
        (10, 5, 1, "{}", False),
        (10, 5, 0, "{}", True),
        (0, 0, 20, "{overcommit-factor: 2}", True),
        (0, 0, 21, "{overcommit-factor: '2.0'}", False),
        (0, 0, 10, "{overcommit-factor: 1}", True),
        (0, 0, 11, "{overcommit-factor: 1}", False),
        # 10 * 1.1 is 11 exactly, not a little more or less.
        (0, 0, 11, "{overcommit-factor: 1.1}", True),
        (0, 0, 12, "{overcommit-factor: 1.1}", False),
        # A factor of its own for one resource
        (0, 0, 15, "{overcommit-factor.cpu: 1.5, overcommit-factor: 1}", True),
        (0, 0, 11, "{overcommit-factor.memory: 5, overcommit-factor: 1}", False),
    ],
)
def test_held_and_promised_stay_within_the_overbooked_cluster(
    held: int, inqueue: int, asked: int, arguments: str, allowed: bool
) -> None:
    made = engine(arguments)
    made.prepare()
    for node in (made.tree.root, made.tree.child(made.tree.root, NodeKind.QUEUE, "q")):
        node.held[0], node.inqueue[0] = held, inqueue
    (plugin,) = [plugin for _, plugin in made.policy.plugins if plugin.name == "overcommit"]
    made.apply(Changed(replace(JOB, min_resources=(asked, 0, 1))))
    made.state.queues_changed = False
    leaf = made.tree.add_job(made.state.jobs[JOB.key], made.tree.child(made.tree.root, NodeKind.QUEUE, "q"))
    assert (plugin.enqueueable(leaf) is None) is allowed


def test_the_refusal_names_the_resource() -> None:
    assert judged(engine(), replace(JOB, min_resources=(13, 0, 1))) == (
        "the cluster cannot admit more cpu (overcommit-factor 1.2): "
        "0 in use, 0 promised and 13m requested exceed 12m"  # 10 x 1.2
    )
    # Of a resource that the cluster has nothing of nothing can be promised.
    assert "cannot admit more gpu" in str(judged(engine(), replace(JOB, min_resources=(1, 0, 1, 1))))


def test_the_refusal_counts_whole_devices() -> None:
    # 8 x 1.2 = 9.6
    assert judged(engine(gpu=8000), replace(JOB, min_resources=(1, 0, 1, 10_000))) == (
        "the cluster cannot admit more gpu (overcommit-factor 1.2): 0 in use, 0 promised and 10 requested exceed 9"
    )


def test_a_job_without_minimum_is_let_in() -> None:
    made = engine(cpu=0)
    assert judged(made, replace(JOB, min_resources=())) is None
    assert judged(made, replace(JOB, min_resources=(0, 0, 500))) is None  # places are no matter of shares


def test_jobs_are_let_in_until_the_factor_is_reached() -> None:
    """Flat drf has no entitlements: 10 cpu * 1.2 = 12 cpu are six jobs of 2."""
    made = engine()
    for i in range(9):
        made.apply(Changed(replace(JOB, name=f"j{i}", created=i)))
    enqueued = [decision.job for decision in made.cycle(1) if isinstance(decision, Enqueue)]
    assert enqueued == [f"ns/j{i}" for i in range(6)]
    # Their pods come: five run, the sixth waits. What is held is no longer promised: still 12.
    for i in range(6):
        made.apply(Changed(TaskSpec("ns", f"j{i}-t-0", (2, 0, 1), job=f"ns/j{i}")))
    assert sum(isinstance(decision, Bind) for decision in made.cycle(2)) == 5
    assert not any(isinstance(decision, Enqueue) for decision in made.cycle(3))
    # One ends: 4 * 2 held and, once the sixth has its place, nothing promised: there is room for another.
    made.apply(Changed(replace(made.state.tasks["ns/j0-t-0"].spec, status=TaskStatus.SUCCEEDED)))
    enqueued = [decision.job for now in (4, 5) for decision in made.cycle(now) if isinstance(decision, Enqueue)]
    assert enqueued == ["ns/j6"]


def test_a_job_that_is_owed_what_it_asks_for_is_let_in_whatever_the_sum_says() -> None:
    """docs/fairness.md, section 9.10: without pods there is nothing to reclaim for."""
    made = engine("{overcommit-factor: 1}", drf="{name: drf, enableHierarchy: true}")
    made.apply(Changed(Queue("late")))
    made.apply(Changed(replace(JOB, name="big", min_resources=(10, 0, 1))))
    made.cycle(1)
    for i in range(10):
        made.apply(Changed(TaskSpec("ns", f"big-t-{i}", (1, 0, 1), job="ns/big")))
    assert sum(isinstance(decision, Bind) for decision in made.cycle(2)) == 10
    # The cluster is full. Two queues of one weight: late is entitled to 5 and holds nothing.
    made.apply(Changed(JobSpec("ns", "fits", "late", created=1, min_resources=(5, 0, 1))))
    made.apply(Changed(JobSpec("ns", "large", "late", created=2, min_resources=(6, 0, 1))))
    # q holds more than its 5. Each of its three jobs is entitled to 5 / 3: one that asks for 1 is owed a cpu of big's,
    # one that asks for 3 is not.
    made.apply(Changed(JobSpec("ns", "equal", "q", created=3, min_resources=(1, 0, 1))))
    made.apply(Changed(JobSpec("ns", "more", "q", created=4, min_resources=(3, 0, 1))))
    assert [decision.job for decision in made.cycle(3) if isinstance(decision, Enqueue)] == ["ns/fits", "ns/equal"]


@pytest.mark.parametrize("rule", ["steer", "paper", "proportion", "capacity"])
def test_owed_job_is_let_in_under_every_fairness_rule(rule: str) -> None:
    # 8 cpu, all of them in use by b; a's part is 4, by weight or because it deserves them. 8 * 1.2 = 9.6, so by the sum
    # alone nobody gets in with 4, nor with 5.
    shell = Shell(taking_engine(rule, actions="enqueue, allocate, reclaim", plugins=("gang",), last=("overcommit",)))
    shell.node("n", 8)
    shell.queue("root/a", deserved=((0, 4),) if rule == "capacity" else ())
    shell.queue("root/b")
    shell.job("b", [(1,)] * 8)
    shell.cycle()
    assert shell.running("b") == 8
    for name, least in (("fits", 4), ("large", 5)):
        shell.put(JobSpec("ns", name, "a", 9, 4, min_resources=(least, 0, 0), phase=JobPhase.PENDING))
    assert [decision.job for decision in shell.cycle() if isinstance(decision, Enqueue)] == ["ns/fits"]


def test_a_job_is_let_in_for_what_only_the_parent_of_its_queue_is_owed() -> None:
    # 8 cpu, all in use by a. b is owed 4, and b-x and b-y 2 each: neither may start a task of 3, but b may start one.
    # Both jobs wait without pods, and the sum (8 + 3 > 9.6) lets neither in.
    shell = Shell(taking_engine(actions="enqueue, allocate, reclaim", plugins=("gang",), last=("overcommit",)))
    shell.node("n", 8)
    for path in ("root/a", "root/b/x", "root/b/y"):
        shell.queue(path)
    shell.job("a", [(1,)] * 8)
    shell.cycle()
    assert shell.running("a") == 8
    for created, name in enumerate(("x", "y"), 9):
        shell.put(JobSpec("ns", name, f"b-{name}", created, 1, min_resources=(3, 0, 0), phase=JobPhase.PENDING))
    assert [decision.job for decision in shell.cycle() if isinstance(decision, Enqueue)] == ["ns/x"]
    shell.put(TaskSpec("ns", "x-t-0", (3, 0, 1), job="ns/x"))
    shell.settle()
    assert (shell.running("a"), shell.running("b-x")) == (5, 1)


@pytest.mark.parametrize(
    ("arguments", "culprit"),
    [
        ({"overcommit-factor": 0.9}, "overcommit-factor"),
        ({"overcommit-factor": "much"}, "overcommit-factor"),
        ({"overcommit-factor": True}, "overcommit-factor"),
        ({"overcommit-factor": "nan"}, "overcommit-factor"),
        ({"overcommit-factor": "1/0"}, "overcommit-factor"),
        ({"overcommit-factor": [2]}, "overcommit-factor"),
        ({"overcommit-factor.cpu": 0}, "overcommit-factor.cpu"),
    ],
)
def test_arguments_that_make_no_sense(arguments: dict[str, object], culprit: str) -> None:
    with pytest.raises(PluginError, match="write a number, 1 or more") as caught:
        OvercommitPlugin(arguments)
    assert caught.value.argument == culprit
