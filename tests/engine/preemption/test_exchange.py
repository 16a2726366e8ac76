"""Exchanges: the search for victims is left out exactly where the rule allows none (docs/fairness.md, section 9.12)."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from pumice.engine.decisions import Bind, Evict
from pumice.engine.fairness.preemption_rules.rules import lowest_common_ancestor
from pumice.engine.fairness.share_tree.share_node import JobNode
from pumice.engine.preemption.exchange import ExchangeRule
from pumice.engine.state.task_shapes import TaskShape
from pumice.model.specs import TaskStatus
from tests.support.restless import Restless, Taste
from tests.support.taking import SECOND, Shell, taking_engine


def restless_shell(seed: int) -> Shell:
    """A cluster under steer to which ten jobs came, two cycles after the last."""
    shell = Shell(taking_engine(), audited=False)
    world = Restless(shell, seed, Taste(nodes=4, depth=3))
    for _ in range(10):
        world.job()
        shell.cycle()
    shell.cycle()
    return shell


def could_lose(shell: Shell, rule: ExchangeRule, preemptor: JobNode) -> list[tuple[JobNode, TaskShape]]:
    """By asking about every running task of the other queues: those that the rule lets go."""
    return [
        (leaf, task.shape)
        for leaf in shell.engine.tree.jobs.values()
        if leaf.queue is not preemptor.queue
        for task in leaf.job.tasks.values()
        if task.status.held and rule.may_lose(leaf, task.shape.ask)
    ]


def judged(seed: int) -> Counter[tuple[bool, bool]]:
    """Of all waiting jobs: whether victims were expected, and whether there were any."""
    shell = restless_shell(seed)
    reclaimers = shell.engine.context.reclaimers
    found: Counter[tuple[bool, bool]] = Counter()
    for leaf in shell.engine.tree.jobs.values():
        if leaf.unit is not None and leaf.unit.ask:
            rule = ExchangeRule(shell.engine.state.capacity, leaf, leaf.unit.ask)
            victims = could_lose(shell, rule, leaf)
            expected = rule.may_find_victims(reclaimers.search_levels(leaf))
            assert expected or not victims, (seed, leaf.job.key, victims)
            found[expected, bool(victims)] += 1
            if not expected:
                # An attempt opens no way either: others hold less by it, and nobody is entitled to more.
                for other in shell.engine.tree.jobs.values():
                    if other.queue is not leaf.queue:
                        _, ours, theirs = lowest_common_ancestor(leaf, other)
                        assert all(ours.due[j] <= ours.held[j] for j, _ in leaf.unit.ask) or all(
                            held <= due for held, due in zip(theirs.held, theirs.due, strict=True)
                        )
    return found


@given(seed=st.integers(0, 100_000))
def test_no_task_may_go_where_no_victims_are_expected(seed: int) -> None:
    judged(seed)


def test_both_answers_occur() -> None:
    found = sum((judged(seed) for seed in range(12)), Counter[tuple[bool, bool]]())
    assert found[False, False] > 20 and found[True, True] > 5


def test_a_job_without_the_minimum_of_a_role_asks_for_no_other_task_alone() -> None:
    # 8 cpu, two equal queues: a runs seven tasks that nobody may evict, b the worker of a job whose server has ended.
    # The job is owed its server of 3 cpu, in vain. It is short of a second worker too, which may not start before.
    shell = Shell(taking_engine())
    shell.node("n0", 8)
    for queue in ("a", "b"):
        shell.child(queue)
    shell.job("a", [(1, 1)] * 7)
    roles, minimums = ["worker", "worker", "server"], {"server": 1, "worker": 1}
    key = shell.job("b", [(1, 1), (1, 1), (3, 1)], 2, roles=roles, minimums=minimums)
    for name, spec in list(shell.tasks.items()):
        if spec.job != key or name.endswith("-0"):
            shell.put(replace(spec, status=TaskStatus.RUNNING, node="n0", started=1, preemptable=False))
    shell.settle()
    assert (shell.running("a"), shell.running(key), shell.evictions) == (7, 1, [])


def test_an_exchange_waits_until_all_bindings_are_confirmed() -> None:
    # 5 cpu, two equal queues: 3 + 1 against 1. The small task of full makes way, but not while another task that runs
    # may still be one that is about to.
    shell = Shell(taking_engine(), audited=False)
    shell.node("pool", 5, 10)
    shell.queue("root/full")
    shell.queue("root/late")
    shell.job("full", [(3, 0)])
    small = shell.job("full", [(1, 0)])
    shell.job("late", [(1, 0)], name="first")
    shell.settle()
    shell.job("full", [(0, 1)], name="other")
    shell.now += SECOND
    (bind,) = (decision for decision in shell.engine.cycle(shell.now) if isinstance(decision, Bind))
    shell.job("late", [(1, 0)] * 2, name="more")
    shell.now += SECOND
    assert not [decision for decision in shell.engine.cycle(shell.now) if isinstance(decision, Evict)]
    shell.put(replace(shell.tasks[bind.task], node=bind.node, status=TaskStatus.RUNNING, started=shell.now))
    shell.settle()
    assert {evict.job for _, evict in shell.evictions} == {small}
