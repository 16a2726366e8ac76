"""What is to be said of a job before the scheduler comes into it.

It may run no more; or the API refuses what a controller makes for it, which the controller says in Events.
"""

from __future__ import annotations

from pumice.kube.client.api_errors import ApiError
from pumice.kube.client.sync_client import Client, Document
from pumice.kube.resources import EVENTS, PODS

SUSPENDED_PHASES = frozenset({"Aborting", "Aborted"})
ENDED_PHASES = frozenset({"Failed", "Terminating", "Terminated"})
"""Phases whose jobs have no group any more; that of a complete job stays, and tells more."""


def phase_of(job: Document) -> str:
    """Where a job stands; empty: nobody has looked at it yet."""
    return str(_state(job).get("phase") or "")


def ended_message(job: Document) -> tuple[str, list[str]] | None:
    """Of a job that nobody will start: that it is so, and what would help; None if it is to run."""
    about, phase = job["metadata"], phase_of(job)
    if phase not in SUSPENDED_PHASES | ENDED_PHASES:
        return None
    why = f" ({_state(job)['message']})" if _state(job).get("message") else ""
    subject = f"vcjob {about['namespace']}/{about['name']}"
    if phase in SUSPENDED_PHASES:
        return f"{subject} is suspended: its phase is {phase}{why}", [f"resume it with vresume {about['name']}"]
    return f"{subject} is not waiting: it has finished, its phase is {phase}{why}", []


def creation_refusal(client: Client, found: Document, kind: str) -> str:
    """Why the API refused, the last time it did, to let an object of a kind be made for another; empty: it did not."""
    query = {"fieldSelector": f"involvedObject.uid={found['metadata']['uid']},reason=FailedCreate"}
    try:
        events = client.list(EVENTS.path(found["metadata"]["namespace"]), query).items
    except ApiError:  # not everybody may read them; what else is known is worth saying
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
