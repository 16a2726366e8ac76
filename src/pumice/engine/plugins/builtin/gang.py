"""gang: a job starts all of its minimum or nothing (docs/fairness.md, section 10.1)."""

from __future__ import annotations

from collections import Counter

from pumice.engine.config.scheduler_config import Flag
from pumice.engine.plugins.plugin import Plugin
from pumice.engine.state.job import Job
from pumice.engine.state.task import Task
from pumice.model.specs import TaskStatus


class GangPlugin(Plugin):
    """minMember and the minimum of each role, placed in one transaction."""

    name = "gang"
    takes = ()

    def job_key(self, job: Job, priority: int, started: bool) -> int | None:
        """Jobs that have not started go before those that have: a tie-break, it defines no classes."""
        return 1 if started else 0

    def start_size(self, job: Job) -> int:
        """The minimum, or the sum of the roles' minimums where that is more."""
        assert job.spec is not None
        return job.spec.minimum

    def can_go_on(self, job: Job, without: Task | None = None) -> bool:
        """Whether the minimum runs or has succeeded and, where jobs start whole, that of every role."""
        starts_whole = self.config.on(Flag.JOB_READY)
        if job.spec is None or not (
            starts_whole or self.config.on(Flag.PREEMPTABLE) or self.config.on(Flag.RECLAIMABLE)
        ):
            return True
        if job.running - (without is not None) + job.succeeded < job.spec.min_member:
            return False
        if not starts_whole or not job.spec.min_task_member:
            return True
        counted = [t for t in job.tasks.values() if t.status.held or t.status is TaskStatus.SUCCEEDED]
        roles = Counter(task.spec.role for task in counted if task is not without)
        return all(roles[role] >= least for role, least in job.spec.min_task_member.items())

    def job_valid(self, job: Job) -> str | None:
        """Reject a job until all pods of its minimum exist."""
        assert job.spec is not None
        have = sum(job.unfinished.values()) + job.succeeded
        if have < job.spec.min_member:
            return f"{have} of {job.spec.min_member} required pods (minMember) exist"
        for role, least in job.spec.min_task_member.items():
            here = sum(
                1 for task in job.tasks.values() if task.spec.role == role and task.status <= TaskStatus.SUCCEEDED
            )
            if here < least:
                return f"{here} of {least} required pods of task '{role}' exist"
        return None
