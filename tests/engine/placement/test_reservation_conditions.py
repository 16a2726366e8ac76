"""What is said about room that is kept: when it begins, moves and ends; and that it ends.

See docs/fairness.md, section 3.4.
"""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from pumice.engine.decisions import Condition, Decision
from pumice.model.specs import TaskStatus
from tests.cli.command import pumice_command
from tests.sim.samples import job, node, queue, scenario
from tests.support.examples import fewer_examples
from tests.support.restless import Restless, Taste
from tests.support.taking import SECOND, Shell, taking_engine

seeds = st.integers(0, 2**32 - 1)


def small_and_big(nodes: int = 1, limit: int = 120, patience: int = 0) -> Shell:
    """Nodes of 8 cpu full of tasks of 1 cpu, with more waiting; then a task of 4 cpu that is entitled to its room."""
    arguments = {"drf.patience": patience, "drf.holdLimit": limit}
    shell = Shell(taking_engine(actions="allocate", arguments=arguments), audited=False)
    for i in range(nodes):
        shell.node(f"n{i}", 8)
    shell.queue("root/small")
    shell.queue("root/big")
    shell.job("small", [(1,)] * 24 * nodes, name="small")
    shell.cycle()
    shell.job("big", [(4,)], name="big")
    return shell


def end_on(shell: Shell, name: str) -> None:
    """A small task on a node is done, and an equal one waits."""
    running = [task for task in shell.tasks.values() if task.node == name and task.status is TaskStatus.RUNNING]
    shell.end(min(task.key for task in running if task.job == "ns/small"), again=True)


def news(decisions: list[Decision], job: str = "ns/big") -> list[tuple[str, str]]:
    said = [d for d in decisions if isinstance(d, Condition) and d.job == job]
    return [(d.reason, d.message) for d in said if d.reason in ("HoldsRoom", "HoldEnded")]


def test_reservation_reports_begin_move_and_end_once_each() -> None:
    shell = small_and_big(nodes=2)
    # 4 of 16 cpu are lacking wherever it looks.
    first = "capacity is reserved on n0; 25.0% of the cluster still has to become idle there"
    assert news(shell.cycle()) == [("HoldsRoom", first)]
    end_on(shell, "n0")
    assert news(shell.cycle()) == []  # less is lacking, but that is no news
    assert shell.cycle() == []
    # On n1 two come free at once: 2 of 16 cpu are lacking there, 3 on n0. It moves.
    end_on(shell, "n1")
    end_on(shell, "n1")
    moved = "capacity is reserved on n1; 12.5% of the cluster still has to become idle there"
    assert news(shell.cycle()) == [("HoldsRoom", moved)]
    end_on(shell, "n1")
    end_on(shell, "n1")
    decisions = shell.cycle()
    assert shell.running("ns/big") == 1
    assert news(decisions) == [("HoldEnded", "the reservation has ended")]
    end_on(shell, "n1")
    assert news(shell.cycle()) == []


def test_reservation_does_not_move_to_node_lacking_equally() -> None:
    shell = small_and_big(nodes=2)
    shell.cycle()
    end_on(shell, "n0")
    shell.cycle()
    end_on(shell, "n1")
    assert news(shell.cycle()) == []  # 3 are lacking on either now, but what came free on n1 was lent at once


def test_a_job_that_is_gone_needs_no_news() -> None:
    shell = small_and_big()
    assert news(shell.cycle())
    shell.end_job("ns/big")
    assert news(shell.cycle()) == []
    assert shell.engine.context.reservations is not None and not shell.engine.context.reservations.active


def test_reservation_without_progress_ends_and_doubles_next_wait() -> None:
    # Patience 4, limit 5. It waits from 2 on, holds from 6 on and gives up at 12, more than 5 after it began; then it
    # waits for 8 and holds from 20 to 26, then for 16 and holds from 42 to 48.
    shell = small_and_big(limit=5, patience=4)
    said = {}
    for _ in range(60):
        for reason, _ in news(shell.cycle()):
            said[shell.now // SECOND] = reason
    assert [at for at, reason in said.items() if reason == "HoldsRoom"] == [6, 20, 42]
    assert [at for at, reason in said.items() if reason == "HoldEnded"] == [12, 26, 48]


def test_reservation_without_patience_waits_its_limit_before_first_retry() -> None:
    # Twice nothing is nothing. Limit 5: it holds from 2 on and gives up at 8; then it waits 5, 10 and 20.
    shell = small_and_big(limit=5)
    said = {}
    for _ in range(62):
        for reason, _ in news(shell.cycle()):
            said[shell.now // SECOND] = reason
    assert [at for at, reason in said.items() if reason == "HoldsRoom"] == [2, 13, 29, 55]
    assert [at for at, reason in said.items() if reason == "HoldEnded"] == [8, 19, 35, 61]


@fewer_examples(3)
@given(seed=seeds)
def test_a_hold_never_lasts_without_progress(seed: int) -> None:
    # Whatever comes and goes: as long as it is active its lack has shrunk within the limit, and everybody was told.
    chance = random.Random(seed)
    limit = chance.choice([2, 4])
    arguments = {"drf.patience": chance.choice([0, 1, 2]), "drf.holdLimit": limit}
    shell = Shell(taking_engine(actions="allocate", arguments=arguments), audited=False)
    world = Restless(shell, seed, Taste(nodes=4, depth=2))
    engine, told = shell.engine, set()
    shrunk: dict[Any, tuple[int, float]] = {}  # by job and unit, when what it lacks last shrank as far as can be seen
    for _ in range(16):
        if chance.random() < 0.6:
            world.job()
        running = sorted(task.key for task in shell.tasks.values() if task.status is TaskStatus.RUNNING)
        for key in running:
            if chance.random() < 0.1:
                shell.end(key, again=chance.random() < 0.7)
        for decision in shell.cycle():
            if isinstance(decision, Condition) and decision.reason == "HoldsRoom":
                told.add(decision.job)
            elif isinstance(decision, Condition) and decision.reason == "HoldEnded":
                told.discard(decision.job)
        assert engine.context.reservations is not None
        active = {leaf.job.key: hold for leaf, hold in engine.context.reservations.active.items()}
        assert set(active) == told
        held = {(key, hold.parts): hold for key, hold in active.items()}
        shrunk = {key: since for key, since in shrunk.items() if key in held}
        for which, hold in held.items():
            since, lack = shrunk.get(which, (shell.now, 2.0))
            shrunk[which] = (shell.now if hold.lack < lack else since, hold.lack)
            assert shell.now - shrunk[which][0] <= limit * SECOND


# --- in a scenario --------------------------------------------------------------------------------------------------

CONFIG = """
actions: "enqueue, allocate"
tiers:
- plugins: [{name: gang}]
- plugins:
  - name: drf
    enableHierarchy: true
    arguments: {drf.patience: 2}
"""


@pytest.mark.process
def test_holds_stand_in_the_report(tmp_path: Path) -> None:
    # small fills 4 cpu at second 0 and wants 4 more; big, from cycle 2, is entitled to 2 cpu in one task. It waits for
    # 2 s, then room is kept for it. One small task ends before cycle 6: half of what it lacks.
    documents = [
        scenario(
            config=CONFIG,
            cycles=7,
            events=[
                {"cycle": 2, "apply": job("big", "b", 1, cpu=2)},
                {"cycle": 6, "finish": {"job": "default/small", "tasks": 1}},
            ],
        ),
        node(cpu=4),
        queue("a"),
        queue("b"),
        job("small", "a", 8, cpu=1),
    ]
    file = tmp_path / "hold.yaml"
    file.write_text(yaml.safe_dump_all(documents), encoding="utf-8")
    done = pumice_command("run", "-o", "json", file)
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    # 1 of 4 cpu is lacking still; seconds of the run: cycle 4 is at 3, cycle 6 at 5.
    expected = {"job": "default/big", "nodes": {"n": {"cpu": "2", "pods": "1"}}, "lack": 0.25, "since": 3.0}
    (hold,) = report["holds"]
    assert hold == expected | {"progress": 5.0}
    told = [d for d in report["decisions"] if d["type"] == "condition" and d["reason"] == "HoldsRoom"]
    assert [(d["cycle"], d["job"]) for d in told] == [(4, "default/big")]
    assert "capacity is reserved" in pumice_command("run", "--trace", file).stdout
