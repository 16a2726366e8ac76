"""What is to be done about what has happened: the policies of a task first, then those of its job, the first that fits.

``*`` fits whatever goes wrong or comes to an end. That a pod waits or runs, and that somebody changes the job, is what
happens to every job: that wants to be named.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from pumice.controllers.jobs.lifecycle_events import LifecycleEvent
from pumice.controllers.jobs.spec import Job, Policy

ANY = "*"
ORDINARY = frozenset({"PodPending", "PodRunning", "JobUpdated"})
"""What ``*`` leaves out."""


@dataclass(frozen=True, slots=True)
class Due:
    """What is due now, the first thing first, and when something else may be."""

    now: list[tuple[str, LifecycleEvent]]
    """Actions, and what each is about."""
    next: float | None


def policy_for(job: Job, happening: LifecycleEvent) -> Policy | None:
    """The policy that something falls under."""
    of_task = happening.task.policies if happening.task else ()
    return next((policy for policy in (*of_task, *job.policies) if _fits(policy, happening)), None)


def due(job: Job, happened: Iterable[LifecycleEvent], now: float) -> Due:
    """What is to be done about what has happened, if it has lasted long enough."""
    ready: list[tuple[str, LifecycleEvent]] = []
    waiting: list[float] = []
    for happening in happened:
        policy = policy_for(job, happening)
        if policy is None:
            continue
        if not policy.timeout or now >= happening.since + policy.timeout:
            ready.append((policy.action, happening))
        elif not happening.passed:
            waiting.append(happening.since + policy.timeout)
    return Due(ready, min(waiting, default=None))


def _fits(policy: Policy, happening: LifecycleEvent) -> bool:
    if policy.exit_code:
        return policy.exit_code == happening.exit_code
    if ANY in policy.events:
        return happening.event not in ORDINARY
    return happening.event in policy.events
