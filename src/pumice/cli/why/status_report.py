"""The report for a user who may not read the whole cluster: what the scheduler wrote into objects that the user sees.

Without nodes, queues and the jobs of others no engine can repeat the scheduler's decision. But the scheduler writes
the reason into the conditions of the PodGroup and into Events, and the figures of a queue into its status.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from pumice.cli.why.cluster_snapshot import ClusterSnapshot, pod_group_of, timestamp
from pumice.engine.explain.wait_report import WaitReport
from pumice.engine.explain.wording import count, said
from pumice.kube.client.api_errors import ApiError
from pumice.kube.client.sync_client import Client, Document
from pumice.kube.decode.preemption_annotations import USER
from pumice.kube.resources import EVENTS, POD_GROUPS, PODS, QUEUES

FINISHED = "Completed"
MOST_EVENTS = 3
"""How many Events a report repeats, the newest first."""


def status_report(snapshot: ClusterSnapshot, client: Client, key: str, now: int) -> WaitReport:
    """The report about a PodGroup, from the status of objects."""
    namespace, _, name = key.partition("/")
    group: Document = next(
        (one for one in snapshot.in_namespace(POD_GROUPS, namespace) if one["metadata"]["name"] == name), {}
    )
    about, spec, status = (group.get(part) or {} for part in ("metadata", "spec", "status"))
    pods = [pod for pod in snapshot.in_namespace(PODS, namespace) if pod_group_of(pod) == name]
    counts = Counter(map(_state, pods))
    answer = WaitReport(
        key,
        "status",
        queue=str(spec.get("queue") or ""),
        user=str((about.get("annotations") or {}).get(USER) or namespace),
        phase=str(status.get("phase") or "Pending"),
        now=now,
        created=timestamp(about.get("creationTimestamp")) or now,
        running=counts["running"],
        starting=counts["starting"],
        pending=counts["pending"],
        succeeded=counts["succeeded"],
        minimum=int(spec.get("minMember") or 1),
    )
    answer.verdict = f"{key} {_verdict(answer, status)}"
    answer.notes += _queue_notes(snapshot, answer.queue)
    answer.notes += _event_notes(client, group, answer.verdict)
    return answer


def _state(pod: Document) -> str:
    phase = (pod.get("status") or {}).get("phase") or "Pending"
    if phase == "Pending":
        return "starting" if pod["spec"].get("nodeName") else "pending"
    return str(phase).lower()


def _verdict(answer: WaitReport, status: Mapping[str, Any]) -> str:
    if answer.phase == FINISHED:
        return "is not waiting: it is finished"
    if not answer.pending and answer.running + answer.starting:
        return f"is not waiting: {count(answer.running + answer.starting, 'task')} on nodes"
    waits = "waits"
    if answer.running:
        waits = f"runs {answer.running} of {answer.running + answer.starting + answer.pending} tasks and waits"
    condition = next(
        (
            one
            for one in status.get("conditions") or ()
            if one.get("type") == "Unschedulable" and one.get("status") == "True"
        ),
        None,
    )
    if condition is None:
        return f"{waits}: the scheduler has written no reason into its PodGroup yet"
    return f"{waits}: {condition.get('message') or condition.get('reason')}"


def _queue_notes(snapshot: ClusterSnapshot, name: str) -> list[str]:
    """The figures of the queue, as the scheduler wrote them."""
    queue = next((one for one in snapshot.documents[QUEUES.name] if one["metadata"]["name"] == name), None)
    if queue is None:
        return []
    status = queue.get("status") or {}
    figures = [f"{part} {said(_amounts(status.get(field)))}" for part, field in _FIGURES.items() if status.get(field)]
    figures += [f"{status[phase]} {phase}" for phase in ("running", "inqueue", "pending") if status.get(phase)]
    return [f"queue {name} is {status.get('state') or 'Open'}" + (f": {', '.join(figures)}" if figures else "")]


_FIGURES = {"uses": "allocated", "is entitled to": "entitled"}


def _amounts(amounts: object) -> dict[str, str]:
    found = amounts if isinstance(amounts, dict) else {}
    return {name: str(amount) for name, amount in found.items() if name != "pods" and str(amount) != "0"}


def _event_notes(client: Client, group: Document, verdict: str) -> list[str]:
    """The newest Events about the PodGroup that the verdict does not repeat."""
    about = group.get("metadata") or {}
    if not about.get("uid"):
        return []
    try:
        events = client.list(
            EVENTS.path(about["namespace"]), {"fieldSelector": f"involvedObject.uid={about['uid']}"}
        ).items
    except ApiError as error:
        if error.forbidden:
            return ["you may not list events"]
        raise
    newest = sorted(events, key=lambda event: str(event.get("lastTimestamp") or ""), reverse=True)
    news = [event for event in newest if not verdict.endswith(str(event.get("message")))]
    found = dict.fromkeys(f"{event.get('reason')}: {event.get('message')}" for event in news)
    return [f"event {text}" for text in list(found)[:MOST_EVENTS]]
