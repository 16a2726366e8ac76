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
        """Whether the minimum runs or has succeeded and, where jobs start whole, that of every role.

        Pipelined tasks do not run yet, and may never start.
        """
        starts_whole = self.config.on(Flag.JOB_READY)
        if job.spec is None or not (
            starts_whole or self.config.on(Flag.PREEMPTABLE) or self.config.on(Flag.RECLAIMABLE)
        ):
            return True
        fewer, least, minimums = int(without is not None), job.spec.min_member, job.spec.min_task_member
        if job.running - fewer + job.succeeded < least:
            return False
        if job.shown - fewer + job.succeeded >= least and not (starts_whole and minimums):
            return True
        counted = [t for t in job.each_task() if TaskStatus.BINDING <= t.status <= TaskStatus.SUCCEEDED]
        roles = Counter(t.spec.role for t in counted if t is not without and t.status is not TaskStatus.RELEASING)
        if roles.total() < least:
            return False
        return not starts_whole or all(roles[role] >= needed for role, needed in minimums.items())

    def job_valid(self, job: Job) -> str | None:
        """Reject a job until all pods of its minimum exist."""
        assert job.spec is not None
        have = job.unfinished_tasks + job.succeeded
        if have < job.spec.min_member:
            return f"{have} of {job.spec.min_member} required pods (minMember) exist"
        for role, least in job.spec.min_task_member.items():
            here = sum(1 for task in job.each_task() if task.spec.role == role and task.status <= TaskStatus.SUCCEEDED)
            if here < least:
                return f"{here} of {least} required pods of task '{role}' exist"
        return None
