"""Reasons why a job waits before it reaches the scheduler.

The job may be suspended or finished, or the API refuses the objects that a controller creates for it, which the
controller reports in Events.
"""

from __future__ import annotations

from pumice.kube.client.api_errors import ApiError
from pumice.kube.client.sync_client import Client, Document
from pumice.kube.resources import EVENTS, PODS

SUSPENDED_PHASES = frozenset({"Aborting", "Aborted"})
WAITS_FOR_JOBS = "WaitsForJobs"
"""The reason in the state of a job that starts after others and has no PodGroup yet."""
ENDED_PHASES = frozenset({"Failed", "Terminating", "Terminated"})
"""Phases in which a job has no PodGroup any more. The PodGroup of a completed job is kept."""


def phase_of(job: Document) -> str:
    """The phase of a job; empty before the controller has set one."""
    return str(_state(job).get("phase") or "")


def ended_message(job: Document) -> tuple[str, list[str]] | None:
    """For a job that the scheduler does not know: an explanation and hints; None if it is to run now."""
    about, phase = job["metadata"], phase_of(job)
    if _state(job).get("reason") == WAITS_FOR_JOBS:
        return f"vcjob {about['namespace']}/{about['name']} has not started: it {_state(job)['message']}", []
    if phase not in SUSPENDED_PHASES | ENDED_PHASES:
        return None
    why = f" ({_state(job)['message']})" if _state(job).get("message") else ""
    subject = f"vcjob {about['namespace']}/{about['name']}"
    if phase in SUSPENDED_PHASES:
        return f"{subject} is suspended: its phase is {phase}{why}", [f"resume it with vresume {about['name']}"]
    return f"{subject} is not waiting: it has finished, its phase is {phase}{why}", []


def creation_refusal(client: Client, found: Document, kind: str) -> str:
    """The latest refusal of the API to create an object of a kind for another; empty if there is none."""
    query = {"fieldSelector": f"involvedObject.uid={found['metadata']['uid']},reason=FailedCreate"}
    try:
        events = client.list(EVENTS.path(found["metadata"]["namespace"]), query).items
    except ApiError:  # Events may not be readable for this user; the other findings are still useful
        return ""
    said = [event for event in events if str(event.get("message")).startswith(f"{kind} ")]
    newest = max(said, key=lambda event: (event.get("lastTimestamp") or "", event["metadata"]["name"]), default=None)
    return str(newest["message"]) if newest else ""


def missing_pods_message(client: Client, job: Document, there: int) -> list[str]:
    """Pods that a job should have and that the API does not let it have."""
    wanted = sum(task.get("replicas", 1) for task in job["spec"].get("tasks") or ())
    why = creation_refusal(client, job, PODS.kind) if there < wanted else ""
    return [f"{wanted - there} of its {wanted} pods could not be created: {why}"] if why else []


def _state(job: Document) -> Document:
    found: Document = (job.get("status") or {}).get("state") or {}
    return found
