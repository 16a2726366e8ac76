"""What podgroups say of themselves is what is so, whoever said something else before."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from pumice.engine.decisions import Bind, Decision
from pumice.engine.events import BindFailed, Event
from pumice.kube.decode import api_types
from pumice.kube.resources import POD_GROUPS
from pumice.kube.watch.change_queue import Change
from pumice.model.specs import JobPhase
from pumice.scheduler.podgroup_status_updater import PodGroupStatusUpdater
from tests.support.taking import SECOND, Shell, taking_engine


class FakeBinder:
    """Keeps what is written of groups."""

    def __init__(self) -> None:
        self.written: list[dict[str, Any]] = []

    def write_podgroup_status(self, job: str, status: dict[str, Any]) -> None:
        assert job == "ns/g"
        self.written.append(status)


def group(phase: str = "", **counts: int) -> api_types.PodGroup:
    return api_types.PodGroup(
        api_types.Metadata("g", "ns"), api_types.PodGroupSpec(), api_types.PodGroupStatus(phase, **counts)
    )


def seen(old: api_types.PodGroup | None, new: api_types.PodGroup | None) -> Change[Any]:
    return Change(POD_GROUPS.name, "ns/g", "u1", "1", old, new)


@pytest.fixture
def shell() -> Shell:
    """Two pods of one group on two cpu."""
    shell = Shell(taking_engine(), audited=False)
    shell.node("n", 2)
    shell.queue("root/q")
    shell.job("q", [(1,)] * 2, 1, name="g")
    return shell


def phase_now(shell: Shell) -> JobPhase:
    return shell.engine.state.jobs["ns/g"].phase


def told(
    phases: PodGroupStatusUpdater,
    shell: Shell,
    *changes: Change[Any],
    decisions: Sequence[Decision] = (),
    heard: Sequence[Event] = (),
) -> None:
    for event in phases.refresh(shell.engine, changes, decisions, heard):
        shell.engine.apply(event)


def test_stale_pod_group_status_is_corrected_when_first_seen(shell: Shell) -> None:
    # So it was left by a scheduler that is gone: of three that ran none does, and the two that are there wait.
    binder = FakeBinder()
    told(PodGroupStatusUpdater(binder), shell, seen(None, group("Inqueue", running=3, failed=1)))  # type: ignore[arg-type]  # all it needs
    assert binder.written == [{"running": 0, "failed": 0}]


def test_foreign_pod_group_status_is_corrected_without_duplicate_writes(shell: Shell) -> None:
    binder = FakeBinder()
    phases = PodGroupStatusUpdater(binder)  # type: ignore[arg-type]  # all it needs
    told(phases, shell, seen(None, group()))
    shell.cycle()
    told(phases, shell, decisions=[Bind("ns/g-t-0", "n", "ns/g")])
    assert binder.written == [{"phase": "Inqueue"}, {"phase": "Running", "running": 2}]
    inqueue, running = group("Inqueue"), group("Running", running=2)
    told(phases, shell, seen(group(), inqueue))  # which is late
    told(phases, shell, seen(inqueue, running))
    assert len(binder.written) == 2
    told(phases, shell, seen(running, group("Pending", running=7)))
    assert binder.written[2:] == [{"phase": "Running", "running": 2}]


def test_a_job_whose_binding_was_refused_does_not_run(shell: Shell) -> None:
    engine = shell.engine
    phases = PodGroupStatusUpdater(FakeBinder())  # type: ignore[arg-type]  # all it needs
    binds = [decision for decision in engine.cycle(SECOND) if isinstance(decision, Bind)]
    assert len(binds) == 2 and phase_now(shell) is JobPhase.RUNNING
    heard: list[Event] = [BindFailed(bind.task) for bind in binds]
    for event in heard:
        engine.apply(event)
    told(phases, shell, heard=heard)
    assert phase_now(shell) is JobPhase.INQUEUE
