"""Keeps the status of podgroups: their phase, and how many of their pods run, succeeded or failed.

Recomputed after each cycle for the jobs that changed, and written only where it differs from the object's status.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pumice.engine.cycle_status import phase_of
from pumice.engine.decisions import Bind, Decision, Evict
from pumice.engine.events import BindFailed, Changed, Event, EvictFailed
from pumice.engine.state.job import Job
from pumice.kube.decode import api_types
from pumice.kube.decode.pods import GROUP_NAME
from pumice.kube.watch.change_queue import Change
from pumice.model.specs import JobPhase, TaskStatus

if TYPE_CHECKING:
    from pumice.engine.engine import Engine
    from pumice.scheduler.binder import Binder

COUNTED = {"running": TaskStatus.RUNNING, "succeeded": TaskStatus.SUCCEEDED, "failed": TaskStatus.FAILED}


class PodGroupStatusUpdater:
    """Computes and writes the status of podgroups."""

    def __init__(self, binder: Binder) -> None:
        self._binder = binder
        self._written: dict[str, dict[str, Any]] = {}

    def refresh(
        self, engine: Engine, changes: Iterable[Change[Any]], decisions: Iterable[Decision], heard: Iterable[Event] = ()
    ) -> Iterator[Event]:
        """Update the jobs affected by changes, decisions or failed decisions (``heard``).

        Yields events that report changed phases to the engine.
        """
        moved = dict.fromkeys(decision.job for decision in decisions if isinstance(decision, Bind | Evict))
        for event in heard:
            failed = engine.state.tasks.get(event.task) if isinstance(event, BindFailed | EvictFailed) else None
            if failed is not None and failed.job is not None:
                moved[failed.job.key] = None
        tasks = engine.state.tasks
        for change in changes:
            if change.resource == "podgroups.scheduling.volcano.sh":
                self._note(change)
                moved[change.key] = None
            elif change.resource == "pods":
                task = tasks.get(change.key)
                job = task.job if task is not None else None
                if job is not None:
                    moved[job.key] = None
                old = change.old.metadata.annotations.get(GROUP_NAME) if change.old is not None else None
                new = change.new.metadata.annotations.get(GROUP_NAME) if change.new is not None else None
                if job is not None and old == new:
                    continue  # as nearly always: the pod stays with the job that has its task
                for group in (old, new):
                    if group:
                        moved[f"{change.key.partition('/')[0]}/{group}"] = None
        waiting = Counter(task.job for task in engine.context.pipelined.tasks)
        for key in moved:
            job = engine.state.jobs.get(key)
            if job is not None and job.spec is not None:
                phase = phase_of(job, waiting[job])
                if phase is not job.phase:
                    yield Changed(replace(job.spec, phase=phase))
                self._write(job, phase)

    def _note(self, change: Change[Any]) -> None:
        """Adopt the status of a podgroup when it is first seen, and when another writer has changed what we wrote."""
        if change.new is None:
            self._written.pop(change.key, None)
        elif change.old is None or _said(change.old) == self._written.get(change.key):
            self._written[change.key] = _said(change.new)

    def _write(self, job: Job, phase: JobPhase) -> None:
        found = [task.status for task in job.each_task()]
        # Write Running only once the gang was seen complete: after a crash the phase tells how far its start came.
        said = (
            JobPhase.INQUEUE if phase in (JobPhase.RUNNING, JobPhase.UNKNOWN) and not job.gang_was_complete else phase
        )
        status: dict[str, Any] = {"phase": said.value}
        status |= {name: found.count(each) for name, each in COUNTED.items()}
        before = self._written.get(job.key, {})
        changed = {name: value for name, value in status.items() if before.get(name) != value}
        if changed:
            self._written[job.key] = status
            self._binder.write_podgroup_status(job.key, changed)


def _said(group: api_types.PodGroup) -> dict[str, Any]:
    """The fields of a podgroup's status that are kept here; a missing count is zero."""
    status = group.status
    return {"phase": status.phase or "", **{name: getattr(status, name) or 0 for name in COUNTED}}
