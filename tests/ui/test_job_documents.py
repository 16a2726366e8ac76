"""The list of jobs: filters, order and pages; one job with its tasks."""

from __future__ import annotations

from typing import Any

import pytest

from pumice.ui.board import Board
from pumice.ui.decisions import DecisionFeed
from pumice.ui.job_documents import InvalidQueryError, job_document, jobs_document, parse_query
from pumice.ui.node_documents import node_document
from pumice.ui.queue_documents import queue_document
from pumice.ui.viewer import ViewerScope
from pumice.ui.why import status_document
from tests.support.seen_objects import SeenCluster, group, node, pod, queue


@pytest.fixture
def board() -> Board:
    cluster = SeenCluster()
    cluster.put("Node", node("n1", 10))
    cluster.put("Queue", queue("root"), queue("eng"), queue("research", "eng"), queue("sales"))
    cluster.put(
        "PodGroup",
        group("train-1", "research", user="user-1"),
        group("sweep-1", "research", "Inqueue", user="user-2"),
        group("report-1", "sales", "Completed", user="user-3", namespace="office"),
    )
    cluster.put(
        "Pod",
        pod("train-0", "train-1", "n1", cpu="4"),
        pod("train-1", "train-1", cpu="4"),
        pod("sweep-0", "sweep-1"),
        pod("report-0", "report-1", "n1", "Succeeded", namespace="office"),
    )
    made = Board(cluster.picture, DecisionFeed(cluster.picture, "log"))
    made.refresh()
    return made


def listed(board: Board, phases: tuple[str, ...] = (), scope: ViewerScope | None = None, **query: str) -> Any:
    reads = (scope or ViewerScope()).reads
    return jobs_document(parse_query(query, phases), board.picture, board.forest, reads)


def keys(document: Any) -> list[str]:
    return [row["key"] for row in document["jobs"]]


def test_filters_combine(board: Board) -> None:
    assert keys(listed(board)) == ["default/sweep", "default/train", "office/report"]
    assert keys(listed(board, queue="eng")) == ["default/sweep", "default/train"]
    assert keys(listed(board, queue="root/sales")) == ["office/report"]
    assert keys(listed(board, queue="none")) == []
    assert keys(listed(board, user="user-1")) == ["default/train"]
    assert keys(listed(board, namespace="office")) == ["office/report"]
    assert keys(listed(board, ("Completed",))) == ["office/report"]
    assert keys(listed(board, ("waiting",))) == ["default/sweep", "default/train"]
    assert keys(listed(board, text="RES")) == ["default/sweep", "default/train"]
    assert keys(listed(board, queue="eng", user="user-3")) == []


def test_pages_follow_one_another(board: Board) -> None:
    first = listed(board, limit="2", sort="name")
    assert (keys(first), first["matched"], first["total"]) == (["office/report", "default/sweep"], 3, 3)
    second = listed(board, limit="2", sort="name", **{"continue": first["continue"]})
    assert (keys(second), second["continue"]) == (["default/train"], None)
    assert keys(listed(board, sort="used"))[0] == "default/train"
    assert listed(board)["users"] == ["user-1", "user-2", "user-3"]


@pytest.mark.parametrize("query", [{"limit": "501"}, {"limit": "a"}, {"sort": "x"}, {"continue": "AAAA"}])
def test_invalid_query_is_named(query: dict[str, str]) -> None:
    with pytest.raises(InvalidQueryError, match=next(iter(query))):
        parse_query(query, ())


def test_row_and_tasks_of_a_job(board: Board) -> None:
    found = job_document("default/train-1", board.picture, board.forest, [])
    row = found["job"]
    assert (row["queuePath"], row["user"], row["phase"], row["share"]) == (
        "root/eng/research",
        "user-1",
        "Running",
        0.4,
    )
    assert row["used"] == row["waiting"] == {"cpu": 4_000}
    assert {state: number for state, number in row["tasks"].items() if number} == {
        "running": 1,
        "waiting": 1,
        "minimum": 1,
    }
    assert [(task["name"], task["state"], task["node"]) for task in found["tasks"]] == [
        ("train-0", "running", "n1"),
        ("train-1", "waiting", None),
    ]
    assert found["places"] == [{"node": "n1", "tasks": 1}]


def test_restricted_viewer_sees_only_readable_namespaces(board: Board) -> None:
    scope = ViewerScope(namespaces=frozenset({"office"}))
    assert keys(listed(board, scope=scope)) == ["office/report"]
    research = board.forest.find("research")
    assert research is not None
    found = queue_document(research, board.forest, board.picture, scope.reads)
    assert (found["jobs"], found["users"], found["namespaces"], found["jobsTotal"]) == ([], [], [], 0)
    assert found["queue"]["tasks"] == {"running": 1, "waiting": 2}
    there = node_document("n1", board.picture, board.picture.schedulers, scope.reads)
    assert (there["pods"], there["podsTotal"], there["podsHidden"]) == ([], 1, 1)


def test_reason_without_the_right_to_see_everything(board: Board) -> None:
    assert status_document("office/report-1", board.picture)["verdict"] == (
        "office/report is not waiting: it is finished"
    )
    waits = status_document("default/sweep-1", board.picture)
    assert waits["verdict"] == "default/sweep waits: the scheduler has written no reason into its PodGroup yet"
    assert waits["contest"] is None and "you may not list" in waits["notes"][0]
