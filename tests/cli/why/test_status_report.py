"""Why a job waits, for a user who may read one namespace: from what the scheduler wrote into objects."""

from __future__ import annotations

from typing import Any

import pytest

from pumice.cli.why.cluster_snapshot import ClusterSnapshot
from pumice.cli.why.status_report import status_report
from pumice.kube.client.api_errors import ApiError
from pumice.kube.client.kubeconfig import Access
from pumice.kube.client.sync_client import Client, Listing
from pumice.kube.resources import EVENTS, POD_GROUPS, PODS, QUEUES

Document = dict[str, Any]
NOON = 1_767_268_800 * 1_000_000
NAMESPACED = (POD_GROUPS.path("team"), PODS.path("team"), EVENTS.path("team"))


class Restricted(Client):
    """A cluster in which the user may list some collections."""

    def __init__(self, lists: dict[str, list[Document]], allowed: tuple[str, ...] = NAMESPACED) -> None:
        super().__init__(Access("http://nowhere"))
        self.lists, self.allowed = lists, allowed

    def list(self, path: str, query: Any = None, *, page: int = 0) -> Listing:
        if path not in self.allowed:
            raise ApiError(403, "Forbidden", f"{path} is forbidden")
        return Listing(self.lists.get(path, []), "1")


def group(*conditions: Document, phase: str = "Inqueue") -> Document:
    about = {"name": "g", "namespace": "team", "uid": "u", "creationTimestamp": "2026-01-01T11:59:00Z"}
    return {
        "metadata": about,
        "spec": {"queue": "q", "minMember": 2},
        "status": {"phase": phase, "conditions": [*conditions]},
    }


def pod(name: str, phase: str = "Pending", node: str = "") -> Document:
    about = {"name": name, "namespace": "team", "annotations": {"scheduling.k8s.io/group-name": "g"}}
    return {"metadata": about, "spec": {"nodeName": node} if node else {}, "status": {"phase": phase}}


def event(reason: str, message: str, time: str) -> Document:
    return {"reason": reason, "message": message, "lastTimestamp": f"2026-01-01T{time}Z"}


WAITS = {"type": "Unschedulable", "status": "True", "reason": "NoRoom", "message": "no node has 2 cpu"}


def report(found: Document, *pods: Document, **more: Any) -> Any:
    client = Restricted({NAMESPACED[0]: [found], NAMESPACED[1]: [*pods], **more.pop("lists", {})}, **more)
    snapshot = ClusterSnapshot(client, "team")
    assert not snapshot.can_explain
    return status_report(snapshot, client, "team/g", NOON), snapshot


def test_the_reason_is_that_of_the_condition() -> None:
    answer, snapshot = report(group(WAITS), pod("a", "Running", "n"), pod("b"), pod("c", node="n"))
    assert answer.verdict == "team/g runs 1 of 3 tasks and waits: no node has 2 cpu"
    assert (answer.running, answer.starting, answer.pending, answer.minimum, answer.queue) == (1, 1, 1, 2, "q")
    assert answer.now - answer.created == 60 * 1_000_000
    assert snapshot.denied_notes("team") == [
        "you may not list nodes, queues and outside namespace team podgroups, pods; "
        "the answer is what the scheduler wrote into objects that you may read"
    ]


@pytest.mark.parametrize(
    ("found", "pods", "verdict"),
    [
        (group(), [pod("a")], "waits: the scheduler has written no reason into its PodGroup yet"),
        (group({**WAITS, "status": "False"}), [pod("a")], "waits: the scheduler has written no reason"),
        (
            group(phase="Running"),
            [pod("a", "Running", "n"), pod("b", "Running", "n")],
            "is not waiting: 2 tasks on nodes",
        ),
        (group(WAITS, phase="Completed"), [pod("a", "Succeeded", "n")], "is not waiting: it is finished"),
    ],
)
def test_status_report_verdict_follows_podgroup_and_pods(found: Document, pods: list[Document], verdict: str) -> None:
    assert report(found, *pods)[0].verdict.startswith(f"team/g {verdict}")


def test_events_are_repeated_unless_they_say_the_same() -> None:
    events = [
        event("Unschedulable", "no node has 2 cpu", "11:59:30"),
        event("Routed", "Routed to queue 'q'", "11:59:00"),
    ]
    answer, _ = report(group(WAITS), pod("a"), lists={NAMESPACED[2]: events})
    assert answer.notes == ["event Routed: Routed to queue 'q'"]
    answer, _ = report(group(WAITS), pod("a"), allowed=NAMESPACED[:2])
    assert answer.notes == ["you may not list events"]


def test_the_queue_is_shown_to_users_who_may_read_queues() -> None:
    status = {"state": "Open", "allocated": {"cpu": "4", "pods": "9"}, "entitled": {"cpu": "8"}, "pending": 3}
    queues = [{"metadata": {"name": "q"}, "status": status}]
    answer, snapshot = report(
        group(WAITS), pod("a"), lists={QUEUES.path(): queues}, allowed=(*NAMESPACED, QUEUES.path())
    )
    assert answer.notes == ["queue q is Open: uses cpu 4, is entitled to cpu 8, 3 pending"]
    assert snapshot.denied_notes("team")[0].startswith(
        "you may not list nodes and outside namespace team podgroups, pods;"
    )


def test_a_missing_budget_alone_is_noted_and_no_obstacle() -> None:
    class Most(Restricted):
        def list(self, path: str, query: Any = None, *, page: int = 0) -> Listing:
            if "poddisruptionbudgets" in path:
                raise ApiError(403, "Forbidden", "forbidden")
            return Listing([], "1")

    snapshot = ClusterSnapshot(Most({}), "team")
    assert snapshot.can_explain
    assert snapshot.denied_notes("team") == [
        "you may not list outside namespace team poddisruptionbudgets; the answer disregards them"
    ]
