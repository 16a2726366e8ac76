"""An engine that is broken on purpose writes a log, and the audit names what is wrong, with cycle and decision.

Some are broken inside (a rule of the engine is replaced), some at their end (decisions are changed before they are
recorded and carried out).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from pumice.audit.certificate import Certificate, audit
from pumice.decision_log.writer import DecisionLog
from pumice.engine.context import SchedulingContext
from pumice.engine.decisions import Bind, Decision, Evict, Pipeline
from pumice.engine.engine import Engine
from pumice.engine.fairness.share_tree.share_node import JobNode
from pumice.engine.plugins.builtin.gang import GangPlugin
from pumice.engine.plugins.builtin.queue_limits import QueueLimits
from pumice.engine.preemption.cooldown import PreemptionCooldown
from pumice.engine.preemption.preemptors import Preemptors
from pumice.engine.preemption.victim_search import VictimSearch
from pumice.engine.prepare import tree_sync
from pumice.engine.state.task import Task
from pumice.model.specs import QueueState, TaskStatus
from tests.support.engine_forms import counts_calls
from tests.support.recorded import Recorded
from tests.support.taking import SECOND, Shell, taking_engine

pytestmark = counts_calls

Change = Callable[[Shell, list[Decision]], list[Decision]]


class Changed(Recorded):
    """An engine whose decisions are changed before anybody sees them."""

    shell: Shell
    change: Change | None = None

    def cycle(self, now: int) -> list[Decision]:
        assert self.log is not None
        self.log.decides(self.engine.state.registry)
        decisions = self.engine.cycle(now)
        if self.change is not None:
            decisions = self.change(self.shell, decisions)
        self.cycles += 1
        self.log.decided(self.cycles, now, decisions, self.engine)
        return decisions


@dataclass
class Trial:
    """A small cluster whose log is audited at the end."""

    folder: Path

    def start(self, *, change: Change | None = None, limited: bool = False, **settings: Any) -> Shell:
        last = ("capacity",) if limited else ()
        self.log = DecisionLog(self.folder)
        engine = Changed(taking_engine(last=last, **settings), self.log)
        shell = Shell(engine, audited=False)  # type: ignore[arg-type]  # stands for its engine
        engine.shell, engine.change = shell, change
        return shell

    def certificate(self) -> Certificate:
        self.log.close()
        return audit(self.folder)


@pytest.fixture
def trial(tmp_path: Path) -> Trial:
    return Trial(tmp_path)


def named(found: Certificate, rule: str) -> list[str]:
    """The findings about a rule; there are none about any other."""
    assert set(found.findings.counts) == {rule}, found.findings.kept
    assert all(each.cycle and each.line for each in found.findings.kept)
    return [f"{each.decision}: {each.message}" for each in found.findings.kept]


def two_queues(shell: Shell, **second: Any) -> None:
    shell.node("n0", 8, 8)
    shell.child("a")
    shell.child("b", **second)


def fill_then_share(shell: Shell, *, protected: bool = False) -> None:
    """a runs eight tasks on eight cpus; then b wants half of it."""
    job = shell.job("a", [(1, 1)] * 8)
    if protected:
        for key, task in list(shell.tasks.items()):
            if task.job == job:
                shell.put(replace(task, preemptable=False))
                assert shell.tasks[key].preemptable is False
    shell.settle()
    shell.job("b", [(1, 1)] * 8)
    shell.settle()


def test_the_same_clusters_with_a_sound_engine_are_clean(trial: Trial) -> None:
    shell = trial.start(limited=True)
    two_queues(shell, guarantee=((0, 2),))
    fill_then_share(shell)
    found = trial.certificate()
    assert found.clean, found.findings.kept
    assert found.evictions["reclaim"] == 2 and found.weighed == 2 and found.started == 2
    assert found.decisions["bind"] == 6 + 4 and found.recomputed > 1
    assert found.shortfall["root/b"].seconds > 5 and found.shortfall["root/b"].total == 0


def test_binds_beyond_the_capacity_of_a_node(trial: Trial) -> None:
    def crowd(shell: Shell, decisions: list[Decision]) -> list[Decision]:
        return [replace(each, node="n0") if isinstance(each, Bind) else each for each in decisions]

    shell = trial.start(change=crowd)
    two_queues(shell)
    shell.node("n1", 8, 8)
    shell.job("a", [(1, 1)] * 12)
    shell.settle()
    assert "ask for cpu 0.012 together, and it has cpu 0.008" in named(trial.certificate(), "capacity of nodes")[0]


def test_half_a_gang(trial: Trial, monkeypatch: pytest.MonkeyPatch) -> None:
    shell = trial.start()
    monkeypatch.setattr(GangPlugin, "start_size", lambda plugin, job: 1)
    two_queues(shell)
    shell.job("b", [(2, 1)] * 2)
    shell.cycle()
    shell.job("a", [(2, 1)] * 4, 4)
    shell.settle()
    assert "job ns/a-j4 runs with 2 of at least 4 tasks" in named(trial.certificate(), "whole gangs")[0]


def test_ignores_the_capability_of_an_ancestor(trial: Trial, monkeypatch: pytest.MonkeyPatch) -> None:
    shell = trial.start(limited=True)
    monkeypatch.setattr(QueueLimits, "allocatable", lambda plugin, leaf, unit: None)
    shell.node("n0", 8, 8)
    shell.child("parent", capability=((0, 3),))
    shell.child("leaf", "parent")
    shell.job("leaf", [(1, 1)] * 8)
    shell.settle()
    (message,) = named(trial.certificate(), "limits of queues")
    assert "queue parent (root/parent) holds or reserves cpu 0.008, and may have cpu 0.003" in message


def test_takes_the_room_that_others_are_guaranteed(trial: Trial, monkeypatch: pytest.MonkeyPatch) -> None:
    shell = trial.start(limited=True)
    monkeypatch.setattr(QueueLimits, "allocatable", lambda plugin, leaf, unit: None)
    two_queues(shell, guarantee=((0, 4),))
    shell.job("a", [(1, 1)] * 8)
    shell.settle()
    (message,) = named(trial.certificate(), "limits of queues")
    assert "queue a (root/a) holds or reserves cpu 0.008, and may have cpu 0.004" in message


def test_evicts_from_a_queue_within_its_guarantee(trial: Trial) -> None:
    def rob(shell: Shell, decisions: list[Decision]) -> list[Decision]:
        return [
            replace(each, action="reclaim") if isinstance(each, Evict) and each.action == "preempt" else each
            for each in decisions
        ] + (robbery(shell) if shell.cycles == 6 else [])

    def robbery(shell: Shell) -> list[Decision]:
        victim = shell.running_tasks("b")[0]
        waiting = next(task for task in shell.tasks.values() if task.status is TaskStatus.PENDING)
        assert waiting.job is not None
        return [
            Evict(victim, "n0", shell.tasks[victim].job or "", waiting.job, "reclaim"),
            Pipeline(waiting.key, "n0", waiting.job),
        ]

    shell = trial.start(change=rob, limited=True)
    two_queues(shell, guarantee=((0, 4),))
    shell.job("b", [(1, 1)] * 4)
    shell.job("a", [(1, 1)] * 5)
    for _ in range(6):
        shell.cycle()
    assert "queue b is guaranteed cpu 0.004, and is left with cpu 0.003" in "\n".join(
        named(trial.certificate(), "guarantees")
    )


def test_evicts_a_protected_pod(trial: Trial, monkeypatch: pytest.MonkeyPatch) -> None:
    shell = trial.start()
    monkeypatch.setattr(Task, "preemptable", property(lambda task: True))
    two_queues(shell)
    fill_then_share(shell, protected=True)
    messages = named(trial.certificate(), "legal evictions")
    assert len(messages) == 4 and "the task is protected: preemptable is false" in messages[0]


def test_evicts_from_a_queue_that_is_not_reclaimable(trial: Trial, monkeypatch: pytest.MonkeyPatch) -> None:
    shell = trial.start()
    monkeypatch.setattr(VictimSearch, "_queues_may_lose", lambda search, leaf, items: True)

    def everybody(preemptors: Preemptors, context: SchedulingContext) -> list[JobNode]:
        return [leaf for leaf in context.tree.jobs.values() if leaf.job.running]

    monkeypatch.setattr(Preemptors, "_running", everybody)
    shell.node("n0", 8, 8)
    shell.child("a", reclaimable=False)
    shell.child("b")
    fill_then_share(shell)
    assert "queue a is not reclaimable" in named(trial.certificate(), "legal evictions")[0]


def test_evicts_tasks_that_have_just_started(trial: Trial) -> None:
    shell = trial.start(cooldown=PreemptionCooldown(0, 60 * SECOND))
    engine: Engine = shell.engine.engine  # type: ignore[attr-defined]  # the one that is recorded
    engine.context.reclaimers.cooldown = PreemptionCooldown()
    two_queues(shell)
    fill_then_share(shell)
    assert "protected for 60 s (reclaim.minRuntime)" in named(trial.certificate(), "legal evictions")[0]


def test_evicts_one_too_many(trial: Trial) -> None:
    def greedy(shell: Shell, decisions: list[Decision]) -> list[Decision]:
        first = next((i for i, each in enumerate(decisions) if isinstance(each, Evict)), None)
        if first is None or shell.evictions:
            return decisions
        taken = decisions[first]
        assert isinstance(taken, Evict)
        gone = {each.task for each in decisions if isinstance(each, Evict)}
        more = next(key for key in shell.running_tasks("a") if key not in gone)
        return [*decisions[:first], replace(taken, task=more), *decisions[first:]]

    shell = trial.start(change=greedy)
    two_queues(shell)
    fill_then_share(shell)
    assert "ns/b-j4 would have its places if" in named(trial.certificate(), "minimal evictions")[0]


def test_evicts_another_one_after_the_start(trial: Trial) -> None:
    def greedy(shell: Shell, decisions: list[Decision]) -> list[Decision]:
        taken = next((each for each in decisions if isinstance(each, Evict)), None)
        if taken is None or shell.evictions:
            return decisions
        gone = {each.task for each in decisions if isinstance(each, Evict)}
        more = next(key for key in shell.running_tasks("a") if key not in gone)
        return [*decisions, replace(taken, task=more)]

    shell = trial.start(change=greedy)
    two_queues(shell)
    fill_then_share(shell)
    assert "no task of ns/b-j4 gets a place after it" in named(trial.certificate(), "evictions for a start")[0]


def test_evicts_without_a_start(trial: Trial) -> None:
    def idle(shell: Shell, decisions: list[Decision]) -> list[Decision]:
        if any(isinstance(each, Evict) for each in decisions):
            return [each for each in decisions if isinstance(each, Evict)]
        return decisions

    shell = trial.start(change=idle)
    two_queues(shell)
    fill_then_share(shell)
    found = trial.certificate()
    assert "no task of ns/b-j4 gets a place after it in this cycle" in str(found.findings.kept)
    assert found.findings.counts["evictions for a start"]


def test_evicts_for_a_start_that_never_comes(trial: Trial) -> None:
    def forget(shell: Shell, decisions: list[Decision]) -> list[Decision]:
        taken = {key for key, task in shell.tasks.items() if task.job == "ns/b-j4"}
        return [each for each in decisions if not (isinstance(each, Bind) and each.task in taken)]

    shell = trial.start(change=forget)
    shell.grace = 1
    two_queues(shell)
    fill_then_share(shell)
    for _ in range(8):
        shell.cycle()
    found = trial.certificate()
    assert "has not started 5 cycles after the victims had left" in str(found.findings.kept)
    assert set(found.findings.counts) <= {"evictions for a start", "shortfall"}


def test_binds_a_task_twice(trial: Trial) -> None:
    def again(shell: Shell, decisions: list[Decision]) -> list[Decision]:
        running = shell.running_tasks("a")
        return [*decisions, Bind(running[0], "n1", shell.tasks[running[0]].job or "")] if running else decisions

    shell = trial.start(change=again)
    two_queues(shell)
    shell.node("n1", 8, 8)
    shell.job("a", [(1, 1)] * 2)
    for _ in range(3):
        shell.cycle()
    assert "is on node n" in named(trial.certificate(), "bind")[0]


def test_binds_in_a_closed_queue(trial: Trial, monkeypatch: pytest.MonkeyPatch) -> None:
    def late(shell: Shell, decisions: list[Decision]) -> list[Decision]:
        waiting = [task for task in shell.tasks.values() if task.status is TaskStatus.PENDING]
        return [*decisions, *(Bind(task.key, "n0", task.job or "") for task in waiting)]

    shell = trial.start(change=late)
    shell.node("n0", 8, 8)
    shell.child("a", state=QueueState.CLOSED)
    shell.job("a", [(1, 1)])
    shell.cycle()
    assert "queue a is closed" in named(trial.certificate(), "bind")[0]


def test_two_jobs_evict_each_other(trial: Trial) -> None:
    jobs = ("ns/a-j3", "ns/a-j4")

    def swap(shell: Shell, decisions: list[Decision]) -> list[Decision]:
        running = [job for job in jobs if shell.running(job)]
        decisions = [each for each in decisions if not isinstance(each, Evict | Pipeline)]
        if len(running) != 1 or any(isinstance(each, Bind) for each in decisions):
            return decisions
        taker = jobs[1 - jobs.index(running[0])]
        (victim,) = shell.running_tasks(running[0])
        (task,) = [key for key, spec in shell.tasks.items() if spec.job == taker]
        return [Evict(victim, "n0", running[0], taker, "preempt"), Bind(task, "n0", taker)]

    shell = trial.start(change=swap)
    shell.node("n0", 8, 8)
    shell.child("a")
    shell.child("b")
    shell.job("a", [(5, 1)], name="a-j3")
    shell.job("a", [(5, 1)], name="a-j4")
    for _ in range(6):
        shell.cycle()
    found = trial.certificate()
    assert found.findings.counts["no eviction cycles"] >= 2
    assert "evicted a task of ns/a-j3 in cycle" in str(found.findings.kept)


def test_starves_a_queue(trial: Trial) -> None:
    def unfair(shell: Shell, decisions: list[Decision]) -> list[Decision]:
        return [each for each in decisions if not (isinstance(each, Bind) and each.job == "ns/b-j4")]

    shell = trial.start(change=unfair, actions="allocate, backfill")
    two_queues(shell)
    shell.job("a", [(1, 1)] * 2)
    shell.job("b", [(1, 1)] * 8)
    for _ in range(15):
        shell.cycle()
    found = trial.certificate()
    message = named(found, "shortfall")[-1]
    assert "queue b (root/b) has been 75.0% of the cluster below its entitlement for" in message
    b = found.shortfall["root/b"]
    assert b.short["none"] == pytest.approx(b.total) and b.total == pytest.approx(0.75 * 14)


def test_entitles_as_if_there_were_no_weights(trial: Trial, monkeypatch: pytest.MonkeyPatch) -> None:
    shell = trial.start()
    sound = tree_sync.build_queue_tree

    def flat(queues: Any) -> Any:
        found = sound(queues)
        for place in found.placements.values():
            place.weight = type(place.weight)(1)
        return found

    monkeypatch.setattr(tree_sync, "build_queue_tree", flat)
    two_queues(shell, weight=3)
    shell.job("a", [(1, 1)] * 8)
    shell.job("b", [(1, 1)] * 8)
    shell.settle()
    messages = named(trial.certificate(), "entitlement")
    assert any(
        "queue a (root/a) is recorded to be entitled to cpu 0.004, and is entitled to cpu 0.002" in each
        for each in messages
    )
