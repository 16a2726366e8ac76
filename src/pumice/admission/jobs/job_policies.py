"""Rules about the policies of a Job and of its tasks. One function per rule."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from pumice.admission.cluster_view import ClusterView
from pumice.admission.jobs.job_tasks import TASKS, tasks_of
from pumice.admission.request import Object, Refusal, Request, spec_of

ANY: Final = "*"
EVENTS: Final = (
    ANY,
    "PodFailed",
    "PodEvicted",
    "PodPending",
    "PodRunning",
    "Unknown",
    "TaskCompleted",
    "TaskFailed",
    "JobUpdated",
)
"""Events that a policy may name; OutOfSync and CommandIssued are internal to the controller."""
ACTIONS: Final = (
    "AbortJob",
    "RestartJob",
    "RestartTask",
    "RestartPod",
    "RestartPartition",
    "TerminateJob",
    "CompleteJob",
    "ResumeJob",
)
"""Actions that a policy may name; SyncJob and EnqueueJob are internal to the controller."""


def policies_name_one_cause(request: Request, world: ClusterView) -> Iterator[Refusal]:
    """A policy names events or an exit code."""
    for where, policies in _lists(request):
        for i, policy in enumerate(policies):
            code = policy.get("exitCode")
            if _events(policy) and code is not None:
                yield Refusal("Forbidden: may not set both events and exitCode; use two policies", f"{where}[{i}]")
            elif not _events(policy) and code is None:
                yield Refusal("Required value: set event, events or exitCode", f"{where}[{i}]")
            elif code == 0:
                yield Refusal("Invalid value: 0: must be a nonzero exit code", f"{where}[{i}].exitCode")


def policies_are_known(request: Request, world: ClusterView) -> Iterator[Refusal]:
    """Events and actions must be known."""
    for where, policies in _lists(request):
        for i, policy in enumerate(policies):
            for event in dict.fromkeys(_events(policy)):
                if event not in EVENTS:
                    yield Refusal(
                        f"Unsupported value: {event[:70]!r}: supported values: {', '.join(EVENTS)}", f"{where}[{i}]"
                    )
            action = policy.get("action") or ""
            if action not in ACTIONS:
                message = f"Unsupported value: {action[:70]!r}: supported values: {', '.join(ACTIONS)}"
                yield Refusal(message, f"{where}[{i}].action")


def policies_differ(request: Request, world: ClusterView) -> Iterator[Refusal]:
    """Each cause has one policy; one for any event excludes others for events."""
    for where, policies in _lists(request):
        seen: set[str | int] = set()
        for i, policy in enumerate(policies):
            code = policy.get("exitCode")
            for cause in [*_events(policy), *([code] if code is not None else [])]:
                if cause in seen:
                    yield Refusal(f"Duplicate value: {cause!r}: another policy handles it already", f"{where}[{i}]")
                seen.add(cause)
        if ANY in seen and sum(isinstance(cause, str) for cause in seen) > 1:
            yield Refusal(f"Forbidden: '{ANY}' matches every event, so no other policy may name an event", where)


def _lists(request: Request) -> Iterator[tuple[str, list[Object]]]:
    yield "spec.policies", spec_of(request.object).get("policies") or []
    for i, task in enumerate(tasks_of(request)):
        yield f"{TASKS}[{i}].policies", task.get("policies") or []


def _events(policy: Object) -> list[str]:
    event = policy.get("event")
    return [*([event] if event else []), *(policy.get("events") or [])]


RULES = (policies_name_one_cause, policies_are_known, policies_differ)
