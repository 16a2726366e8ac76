"""The phases of a job and the transitions between them.

    Pending ──> Running ──> Completed | Failed          its pods decide
       ^           │
       └─ Restarting ─ Aborting ──> Aborted             actions decide: of policies and Commands
                      Completing ──> Completed
                      Terminating ──> Terminated

A restart without retries left is a failure: a job with ``maxRetry: 3`` runs three times at most. Resuming an aborted
job is no retry: it was stopped, it has not failed.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final


class Phase(StrEnum):
    """Phase of a job."""

    PENDING = "Pending"
    RUNNING = "Running"
    RESTARTING = "Restarting"
    ABORTING = "Aborting"
    ABORTED = "Aborted"
    COMPLETING = "Completing"
    COMPLETED = "Completed"
    TERMINATING = "Terminating"
    TERMINATED = "Terminated"
    FAILED = "Failed"

    @property
    def is_active(self) -> bool:
        """Whether its pods should exist."""
        return self in {Phase.PENDING, Phase.RUNNING}

    @property
    def is_final(self) -> bool:
        """Whether the phase is final."""
        return self in {Phase.COMPLETED, Phase.TERMINATED, Phase.FAILED}

    @property
    def is_over(self) -> bool:
        """Whether nothing runs any more, unless a user resumes the job."""
        return self.is_final or self is Phase.ABORTED


ABORT: Final = "AbortJob"
RESUME: Final = "ResumeJob"
RESTART: Final = "RestartJob"
TERMINATE: Final = "TerminateJob"
COMPLETE: Final = "CompleteJob"
RESTART_TASK: Final = "RestartTask"
RESTART_PARTITION: Final = "RestartPartition"
RESTART_POD: Final = "RestartPod"
RESTARTS_PART: Final = frozenset({RESTART_TASK, RESTART_PARTITION, RESTART_POD})

_ENDINGS = {ABORT: Phase.ABORTING, TERMINATE: Phase.TERMINATING, COMPLETE: Phase.COMPLETING}

AFTER: Final[dict[Phase, dict[str, Phase]]] = {
    Phase.PENDING: {**_ENDINGS, RESTART: Phase.RESTARTING},
    Phase.RUNNING: {**_ENDINGS, RESTART: Phase.RESTARTING},
    Phase.RESTARTING: {**_ENDINGS},
    Phase.ABORTING: {RESUME: Phase.RESTARTING, TERMINATE: Phase.TERMINATING},
    Phase.ABORTED: {RESUME: Phase.RESTARTING, TERMINATE: Phase.TERMINATING},
}
"""The phase that an action leads to from a phase. Missing actions, and repeated ones, lead nowhere."""

SETTLES: Final = {
    Phase.ABORTING: Phase.ABORTED,
    Phase.COMPLETING: Phase.COMPLETED,
    Phase.TERMINATING: Phase.TERMINATED,
}
"""The phase of a stopping job once nothing of it runs any more."""
