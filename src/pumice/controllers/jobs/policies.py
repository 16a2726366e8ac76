"""The action for a lifecycle event: the first matching policy of the task, then of its job.

``*`` matches failures and completions. Pending and running pods and updates of the job happen to every job: a policy
must name them explicitly.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from pumice.controllers.jobs.lifecycle_events import LifecycleEvent
from pumice.controllers.jobs.spec import Job, Policy

ANY = "*"
ORDINARY = frozenset({"PodPending", "PodRunning", "JobUpdated"})
"""Events that ``*`` does not match."""


@dataclass(frozen=True, slots=True)
class Due:
    """The actions that are due now, in order, and when the next may be."""

    now: list[tuple[str, LifecycleEvent]]
    """Actions, and the event that each responds to."""
    next: float | None


def policy_for(job: Job, happening: LifecycleEvent) -> Policy | None:
    """The policy that matches an event."""
    of_task = happening.task.policies if happening.task else ()
    return next((policy for policy in (*of_task, *job.policies) if _fits(policy, happening)), None)


def due(job: Job, happened: Iterable[LifecycleEvent], now: float) -> Due:
    """The actions for these events, if they have lasted long enough."""
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
