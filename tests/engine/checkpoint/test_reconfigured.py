"""Another configuration for a cluster in use: what was decided stays, the rest is as if it had always been in force."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubebase.label_selector import Requirement
from pumice.engine.actions import ACTIONS
from pumice.engine.checkpoint.restore import reconfigured
from pumice.engine.config.scheduler_config import SchedulerConfig, parse_config
from pumice.engine.decisions import Bind, Evict
from pumice.engine.engine import Engine
from pumice.engine.events import Changed
from pumice.engine.plugins.builtin import BUILT_IN
from pumice.engine.plugins.plugin import Plugin, PluginError
from pumice.engine.preemption.cooldown import PreemptionCooldown
from pumice.engine.state.task import Task
from pumice.model.specs import Constraints, PodTerm, TaskSpec, TaskStatus
from tests.support.engines import carried_out, everything
from tests.support.examples import fewer_examples
from tests.support.histories import final_objects
from tests.support.restless import Restless, Taste
from tests.support.taking import SECOND, Shell, taking_engine

seeds = st.integers(0, 2**32 - 1)
KINDS: dict[str, dict[str, Any]] = {
    "steer": {"arguments": {"drf.patience": -1}},
    "steer with namespaces": {"rule": "steer", "namespaces": True, "arguments": {"drf.patience": -1}},
    "paper": {},
    "flat": {"plugins": ("gang",)},
    "capacity": {"plugins": ("priority", "gang", "predicates")},
    "proportion": {"last": ("nodeorder",)},
}
ONE_TREE = [kind for kind in KINDS if "namespaces" not in kind]


def engine_of(kind: str, **more: Any) -> Engine:
    given = {"rule": kind} | KINDS[kind] | more
    return taking_engine(given.pop("rule"), **given)


def under(engine: Engine, kind: str) -> Engine:
    """The same cluster under another kind of engine."""
    return reconfigured(engine, engine_of(kind).policy.config, BUILT_IN)


def placed(engine: Engine) -> dict[str, tuple[TaskStatus, str | None]]:
    tasks = engine.state.tasks.values()
    return {task.key: (task.status, task.node.name if task.node is not None else None) for task in tasks}


# --- as if it had always been in force ------------------------------------------------------------------------------


def as_claimed(task: Task) -> TaskSpec:
    """A task as the engine sees it, those that wait on a node included: no API would tell that."""
    node = task.node.name if task.node is not None else task.spec.node
    status = TaskStatus.BOUND if task.status is TaskStatus.BINDING else task.status
    return replace(task.spec, status=status, node=node, started=task.started)


def from_scratch(kind: str, engine: Engine) -> Engine:
    """An engine that is told what is there, and what no object tells: claims, turns, what was owed or evicted."""
    fresh = engine_of(kind)
    tasks = sorted(engine.state.tasks.values(), key=lambda task: (task.started, task.order))
    for described in final_objects(engine.state):
        if not isinstance(described, TaskSpec):
            fresh.apply(Changed(described))
    for task in tasks:
        fresh.apply(Changed(as_claimed(task)))
        same = fresh.state.tasks[task.key]
        same.owed = task.owed
        if task.evicted and same.job is not None:  # that its job will want it back
            same.job.leave(same)
            same.evicted = True
            same.job.enter(same)
    fresh.context.pipelined.awaited = dict(engine.context.pipelined.awaited)
    fresh.context.last_start = engine.context.last_start
    fresh.prepare()
    turns = {node.path: node.last_turn for node in engine.tree.root.walk()}
    for node in fresh.tree.root.walk():
        node.last_turn = turns.get(node.path, 0)
    fresh.context.changes.usage_changed()  # round once more, with turns
    return fresh


def busy(kind: str, seed: int) -> tuple[Shell, random.Random]:
    """A cluster with jobs that run, tasks that are being released and others that wait for their room."""
    chance = random.Random(seed)
    shell = Shell(engine_of(kind), grace=chance.choice([0, 2, 3]), audited=False)
    world = Restless(shell, seed, Taste(nodes=4, depth=3, bounds=chance.random() < 0.3))
    for _ in range(3):
        for _ in range(3):
            world.job()
        shell.cycle()
    for _ in range(2):
        world.job()
    return shell, chance


@fewer_examples(3)
@given(seed=seeds)
def test_it_decides_what_a_fresh_engine_would(seed: int) -> None:
    chance = random.Random(seed)
    before, after = chance.choice(list(KINDS)), chance.choice(list(KINDS))
    shell, _ = busy(before, seed)
    old = placed(shell.engine)
    engine = under(shell.engine, after)
    assert placed(engine) == old
    engine.prepare()
    fresh = from_scratch(after, engine)
    for i in range(1, 4):
        now = shell.now + i * SECOND
        said, expected = carried_out(engine.cycle(now)), carried_out(fresh.cycle(now))
        assert said == expected, f"{before} -> {after}, cycle {i}"
        seen, should = everything(engine), everything(fresh)
        for one in (seen, should):  # what the two were told differs in form: Bound or Binding, phases
            for job in one["state"]["jobs"].values():
                del job["spec"]
            one["state"]["tasks"] = {
                key: (max(status, TaskStatus.BOUND) if status is not TaskStatus.PIPELINED and status else status, node)
                for key, (status, node, *_) in one["state"]["tasks"].items()
            }
        assert seen == should, f"{before} -> {after}, cycle {i}"


@fewer_examples(3)
@given(seed=seeds)
def test_there_and_back_again(seed: int) -> None:
    # From one kind to another and back between two cycles: nothing has happened.
    chance = random.Random(seed)
    # (Turns are remembered by place in the tree, so it must be the same tree.)
    kind, other = chance.choice(ONE_TREE), chance.choice(ONE_TREE)
    (shell, _), (twin, _) = busy(kind, seed), busy(kind, seed)
    shell.engine = under(under(shell.engine, other), kind)
    for _ in range(3):
        said, expected = carried_out(shell.cycle()), carried_out(twin.cycle())
        # Tasks of one unit may come in another order: those that were moved once more than the others.
        assert sorted(map(repr, said)) == sorted(map(repr, expected)), f"{kind} -> {other} -> {kind}"
        assert placed(shell.engine) == placed(twin.engine)
        shell.engine.validate()


# --- what stays -----------------------------------------------------------------------------------------------------


def taking_in_the_middle() -> Shell:
    """4 cpu of queue a; b's gang of 2 waits for the two that are being released, for three cycles."""
    shell = Shell(taking_engine(), grace=3, audited=False)
    shell.node("n0", 4)
    shell.queue("root/a")
    shell.queue("root/b")
    shell.job("a", [(1,)] * 4, name="a")
    shell.cycle()
    shell.job("b", [(1,)] * 2, 2, name="b")
    shell.cycle()
    assert len(shell.engine.context.pipelined.tasks) == 2 and len(shell.leaving) == 2
    return shell


def waiting_on_nodes(engine: Engine) -> list[str]:
    return [task.key for task in engine.context.pipelined.tasks]


@pytest.mark.parametrize("kind", list(KINDS))
def test_reconfiguration_keeps_running_pipelined_and_evicted_tasks(kind: str) -> None:
    shell = taking_in_the_middle()
    before, pipelined = placed(shell.engine), waiting_on_nodes(shell.engine)
    shell.engine = under(shell.engine, kind)
    assert placed(shell.engine) == before and waiting_on_nodes(shell.engine) == pipelined
    shell.engine.validate()
    evicted = len(shell.evictions)
    bound = [[d.task for d in shell.cycle() if isinstance(d, Bind)] for _ in range(4)]
    assert bound == [[], [], [], ["ns/b-t-0", "ns/b-t-1"]]
    assert len(shell.evictions) == evicted


def test_reconfigured_engine_does_not_repeat_conditions() -> None:
    shell = Shell(taking_engine(), audited=False)
    shell.node("n0", 2)
    shell.queue("root/a")
    shell.job("a", [(1,)] * 3, name="a")
    assert "ns/a" in [getattr(decision, "job", None) for decision in shell.cycle()]
    assert shell.engine.context.decided.conditions
    shell.engine = under(shell.engine, "steer")
    assert shell.cycle() == []


def test_reconfiguration_rebuilds_plugin_state_from_running_tasks() -> None:
    # A configuration without predicates, then one with: it must know of the port that is in use.
    port = Constraints(ports=(("TCP", "", 80),))
    shell = Shell(taking_engine(plugins=("gang",), actions="allocate"), audited=False)
    shell.node("n0", 4)
    shell.queue("root/a")
    shell.job("a", [(1,)], name="first", constraints=port)
    shell.cycle()
    config = taking_engine(plugins=("gang", "predicates"), actions="allocate").policy.config
    shell.engine = reconfigured(shell.engine, config, BUILT_IN)
    shell.job("a", [(1,)], name="second", constraints=port)
    shell.cycle()
    assert (shell.running("ns/first"), shell.running("ns/second")) == (1, 0)
    shell.end("ns/first-t-0")
    shell.cycle()
    assert shell.running("ns/second") == 1


def test_reconfiguration_keeps_anti_affinity_of_terminating_pod() -> None:
    apart = Constraints(anti_affinity=(PodTerm("kubernetes.io/hostname", (Requirement("app", "In", ("x",)),)),))
    shell = Shell(taking_engine(plugins=("gang", "predicates")), grace=2, audited=False)
    shell.node("n0", 4, labels={"kubernetes.io/hostname": "n0"})
    shell.queue("root/a", "1/1")
    shell.queue("root/b", "1/9")
    shell.job("a", [(3,)], name="a", constraints=apart, labels={"app": "x"})
    shell.cycle()
    shell.job("b", [(1,)] * 4, name="b", constraints=apart, labels={"app": "x"})
    assert [d.task for d in shell.cycle() if isinstance(d, Evict)] == ["ns/a-t-0"]
    shell.engine = reconfigured(shell.engine, shell.engine.policy.config, BUILT_IN)
    assert [shell.running("ns/b") for _ in range(3) if shell.cycle() is not None] == [0, 0, 1]


def test_room_that_is_kept_stays_kept_and_nothing_is_said_twice() -> None:
    # 8 cpu full of small tasks; big, entitled to its 6, has held room for a while when the file is read again.
    shell = Shell(
        taking_engine(actions="allocate", arguments={"drf.patience": 3, "drf.holdLimit": 1000}), audited=False
    )
    shell.node("n0", 8)
    shell.queue("root/small")
    shell.queue("root/big", "1/9")
    shell.job("small", [(1,)] * 40)
    shell.cycle()
    shell.job("big", [(6,)], name="big")
    for _ in range(6):
        shell.cycle()
    assert shell.engine.context.reservations is not None
    kept = {leaf.job.key: (hold.since, hold.lack) for leaf, hold in shell.engine.context.reservations.active.items()}
    assert list(kept) == ["ns/big"]
    shell.engine = reconfigured(shell.engine, shell.engine.policy.config, BUILT_IN)
    assert shell.cycle() == []
    assert shell.engine.context.reservations is not None
    assert {
        leaf.job.key: (hold.since, hold.lack) for leaf, hold in shell.engine.context.reservations.active.items()
    } == kept


def test_reconfiguration_does_not_restart_preemption_cooldown() -> None:
    # b is owed from second 2 on and may take after 5 more: in second 7, though the file is read anew in every one.
    shell = Shell(taking_engine(cooldown=PreemptionCooldown(5 * SECOND, 0)), audited=False)
    shell.node("n0", 4)
    shell.queue("root/a")
    shell.queue("root/b")
    shell.job("a", [(1,)] * 8)
    shell.cycle()
    shell.job("b", [(1,)] * 2)
    for _ in range(9):
        shell.cycle()
        shell.engine = reconfigured(shell.engine, shell.engine.policy.config, BUILT_IN)
    assert [second for second, _ in shell.evictions] == [7, 7]


def test_whose_turn_it_was_is_remembered_below_namespaces_too() -> None:
    shell = Shell(taking_engine(namespaces=True), audited=False)
    shell.node("n", 4)
    shell.queue("root/a")
    shell.job("a", [(1,)] * 2, name="j")
    shell.cycle()
    before = {node.path: node.last_turn for node in shell.engine.tree.root.walk()}
    assert before["root/a/ns/ns/j"]
    engine = reconfigured(shell.engine, shell.engine.policy.config, BUILT_IN)
    assert {node.path: node.last_turn for node in engine.tree.root.walk()} == before


# --- refused whole --------------------------------------------------------------------------------------------------


class Refuses(Plugin):
    """A plugin that cannot be used as it is asked to."""

    def __init__(self, arguments: Mapping[str, object]) -> None:
        raise PluginError("size", "too small")


class Fails(Plugin):
    """A plugin with a mistake in it."""

    def queue_order(self, tree: Any, capacity: Any) -> Any:
        raise ZeroDivisionError


class FailsLater(Plugin):
    """One whose mistake shows only when the new engine looks at the cluster for the first time."""

    def set_bounds(self) -> None:
        raise ZeroDivisionError


BAD = {"refuses": Refuses, "fails": Fails, "fails-later": FailsLater}


def bad_config(name: str) -> SchedulerConfig:
    text = f'actions: "allocate"\ntiers:\n- plugins: [{{name: gang}}, {{name: {name}}}, {{name: drf}}]\n'
    return parse_config(text, known_plugins=[*BUILT_IN, *BAD], known_actions=ACTIONS)


@fewer_examples(3)
@given(seed=seeds)
def test_a_bad_configuration_leaves_the_old_engine_as_it_was(seed: int) -> None:
    chance = random.Random(seed)
    kind, name = chance.choice(list(KINDS)), chance.choice(list(BAD))
    (shell, _), (twin, _) = busy(kind, seed), busy(kind, seed)
    with pytest.raises((PluginError, ZeroDivisionError)):
        reconfigured(shell.engine, bad_config(name), {**BUILT_IN, **BAD})
    assert everything(shell.engine) == everything(twin.engine)
    for _ in range(3):  # (that it looks at everybody again may show in what jobs are told, nowhere else)
        assert carried_out(shell.cycle()) == carried_out(twin.cycle())
    assert everything(shell.engine) == everything(twin.engine)


@pytest.mark.parametrize("name", list(BAD))
def test_events_after_a_refusal_reach_the_old_engine(name: str) -> None:
    shell = taking_in_the_middle()
    with pytest.raises((PluginError, ZeroDivisionError)):
        reconfigured(shell.engine, bad_config(name), {**BUILT_IN, **BAD})
    for victim in list(shell.leaving):
        del shell.leaving[victim]
        shell.end(victim)
    assert [d.task for d in shell.cycle() if isinstance(d, Bind)] == ["ns/b-t-0", "ns/b-t-1"]
    shell.engine.validate()
