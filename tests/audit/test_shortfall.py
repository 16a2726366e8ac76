"""Why a queue was below its entitlement, on small clusters with the arithmetic of each expected value."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pumice.audit.certificate import audit
from pumice.audit.shortfall import QueueShortfall
from pumice.decision_log.writer import DecisionLog
from pumice.engine.preemption.cooldown import PreemptionCooldown
from pumice.model.specs import TaskStatus
from tests.support.recorded import Recorded
from tests.support.taking import SECOND, Shell, taking_engine


class Recording:
    """Two equal queues on nodes of 8 cpu, whose log is audited at the end."""

    def __init__(self, folder: Path, *, nodes: int = 1, grace: int = 0, **settings: Any) -> None:
        self._folder, self._log = folder, DecisionLog(folder)
        engine = Recorded(taking_engine(**settings), self._log)
        self.shell = Shell(engine, grace=grace, audited=False)  # type: ignore[arg-type]  # stands for its engine
        for number in range(nodes):
            self.shell.node(f"n{number}", 8)
        for queue in ("a", "b"):
            self.shell.child(queue)

    def pass_seconds(self, count: int) -> None:
        for _ in range(count):
            self.shell.cycle()

    def of_queue(self, name: str) -> QueueShortfall:
        self._log.close()
        found = audit(self._folder)
        assert found.clean, found.findings.kept
        return found.shortfall[f"root/{name}"]


def test_a_queue_waits_for_its_patience_and_then_for_tasks_that_have_just_started(tmp_path: Path) -> None:
    # a holds all 8 cpu from second 1 on; b wants its half from second 3 on. It may evict 4 s later, and tasks of a have
    # to run for 10 s: half of the cluster is short for 4 s of patience, and until second 11 for what protects tasks.
    # They start some microseconds apart, so only the first can be evicted at second 11, the others a second later.
    recording = Recording(tmp_path, cooldown=PreemptionCooldown(4 * SECOND, 10 * SECOND))
    recording.shell.job("a", [(1,)] * 8)
    recording.pass_seconds(2)
    recording.shell.job("b", [(1,)] * 8)
    recording.pass_seconds(12)
    b = recording.of_queue("b")
    assert b.short == {
        "patience": pytest.approx(0.5 * 4),
        "brakes": pytest.approx(0.5 * 4),
        "room is being freed": pytest.approx(0.375),
    }
    assert b.worst == 0.5


def test_a_queue_waits_for_room_that_others_free(tmp_path: Path) -> None:
    # a holds all 8 cpu in four tasks that nobody may evict, and b waits for its half in one task. At second 6 the owner
    # of a deletes a task, which takes 3 s to end: until then room is being freed, before and after b does not fit.
    recording = Recording(tmp_path, grace=3)
    shell = recording.shell
    shell.job("a", [(2,)] * 4)
    for task in list(shell.tasks.values()):
        shell.put(replace(task, preemptable=False))
    recording.pass_seconds(1)
    shell.job("b", [(4,)])
    recording.pass_seconds(4)
    leaving = shell.running_tasks("a")[0]
    shell.put(replace(shell.tasks[leaving], status=TaskStatus.RELEASING))
    shell.leaving[leaving] = shell.cycles + 3
    recording.pass_seconds(8)
    b = recording.of_queue("b")
    assert b.short == {"does not fit": pytest.approx(0.5 * 8), "room is being freed": pytest.approx(0.5 * 3)}


def test_room_may_be_kept_for_a_job_that_has_waited_longer(tmp_path: Path) -> None:
    # 8 cpu: a holds 7 in tasks that nobody may evict. Of b's half a job of high priority waits for tasks of 2, and room
    # is kept for it after 2 s. A task of 1 cpu that comes at second 5 would fit, and has to leave the room alone.
    recording = Recording(tmp_path, arguments={"drf.patience": 2})
    shell = recording.shell
    shell.job("a", [(1,)] * 7)
    for task in list(shell.tasks.values()):
        shell.put(replace(task, preemptable=False))
    recording.pass_seconds(1)
    shell.job("b", [(2,)] * 4, priority=5)
    recording.pass_seconds(4)
    shell.job("b", [(1,)])
    recording.pass_seconds(9)
    assert shell.running("b") == 0
    b = recording.of_queue("b")
    assert b.short == {"does not fit": pytest.approx(0.5 * 4), "kept for others": pytest.approx(0.5 * 8)}
