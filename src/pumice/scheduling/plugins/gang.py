"""gang: a job starts all of its minimum or nothing (fairness.md 10)."""

from __future__ import annotations

from pumice.model.accounts import Job
from pumice.scheduling.plugin import Plugin


class GangPlugin(Plugin):
    """minMember and the minimum of each role, placed in one transaction."""

    name = "gang"

    def job_key(self, job: Job, priority: int, started: bool) -> int | None:
        """Jobs that have not started go before those that have: a tie-break, it makes no classes."""
        return 1 if started else 0

    def start_size(self, job: Job) -> int:
        """The minimum, or the sum of the roles' minimums where that is more."""
        assert job.spec is not None
        return max(job.spec.min_member, sum(job.spec.min_task_member.values()))

    def job_valid(self, job: Job) -> str | None:
        """A job whose pods are not all there yet can't start."""
        assert job.spec is not None
        have = sum(job.unfinished.values()) + job.succeeded
        if have < job.spec.min_member:
            return f"{have} of the {job.spec.min_member} pods of its minimum exist"
        for role, least in job.spec.min_task_member.items():
            here = sum(1 for task in job.tasks.values() if task.spec.role == role and task.status.value <= 6)
            if here < least:
                return f"{here} of the {least} pods of role '{role}' exist"
        return None
