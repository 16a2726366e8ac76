"""The numbers of the tree: own parts, what is lent, borrowed and owed, and limits."""

from __future__ import annotations

from typing import Any

import pytest

from pumice.ui.board import Board
from pumice.ui.decisions import DecisionFeed
from pumice.ui.queue_documents import queue_document
from tests.support.seen_objects import SeenCluster, node, queue


def status(used: str, entitled: str = "0") -> dict[str, Any]:
    return {"state": "Open", "allocated": {"cpu": used}, "entitled": {"cpu": entitled}}


@pytest.fixture
def cluster() -> SeenCluster:
    """40 cores: eng (weight 3) with research (2) and platform (1), and sales (1)."""
    found = SeenCluster()
    found.put("Node", *(node(f"n{number}", 10) for number in range(4)), node("off", 99, ready=False))
    found.put(
        "Queue",
        queue("root", status=status("36", "36")),
        queue("eng", weight=3, status=status("16", "30"), capability={"cpu": "30"}),
        queue("research", "eng", 2, status=status("4", "20")),
        queue("platform", "eng", 1, status=status("12", "10"), capability={"cpu": "35"}),
        queue("sales", status=status("20", "6"), guarantee={"resource": {"cpu": "2"}}),
    )
    return found


def board_of(cluster: SeenCluster) -> Board:
    board = Board(cluster.picture, DecisionFeed(cluster.picture, "log"))
    board.refresh()
    return board


def test_own_part_follows_weights(cluster: SeenCluster) -> None:
    rows = board_of(cluster).tree_rows
    assert [row["path"] for row in rows.values()] == [
        "root",
        "root/eng",
        "root/eng/platform",
        "root/eng/research",
        "root/sales",
    ]
    assert {path: row["own"]["cpu"] for path, row in rows.items()} == {
        "root": 40_000,
        "root/eng": 30_000,
        "root/eng/platform": 10_000,
        "root/eng/research": 20_000,
        "root/sales": 10_000,
    }
    assert rows["root/eng"]["part"] == 0.75
    assert rows["root/sales"]["guarantee"] == {"cpu": 2_000}


def test_borrowed_and_lent_balance_over_the_leaves(cluster: SeenCluster) -> None:
    rows = board_of(cluster).tree_rows
    assert rows["root/sales"]["borrowed"] == {"cpu": 10_000}
    assert rows["root/eng/platform"]["borrowed"] == {"cpu": 2_000}
    assert rows["root/eng/research"]["lent"]["cpu"] == 12_000  # of 16 unused cores
    assert rows["root/eng/research"]["owed"] == {"cpu": 16_000}
    assert rows["root"]["lent"] == {}


def test_limit_is_the_smallest_on_the_path(cluster: SeenCluster) -> None:
    rows = board_of(cluster).tree_rows
    assert rows["root/eng/platform"]["limit"] == {"cpu": 30_000}
    assert rows["root/eng/platform"]["share"]["limit"] == 0.75
    assert rows["root/sales"]["limit"] == {}
    assert rows["root/sales"]["share"]["limit"] is None


def test_flows_add_up(cluster: SeenCluster) -> None:
    board = board_of(cluster)
    lender = board.forest.find("research")
    borrower = board.forest.find("sales")
    assert lender is not None and borrower is not None
    lends = queue_document(lender, board.forest, cluster.picture, lambda namespace: True)["flows"]["cpu"]
    assert lends == {
        "lendsTo": [
            {"path": "root/sales", "name": "sales", "amount": 10_000},
            {"path": "root/eng/platform", "name": "platform", "amount": 2_000},
        ],
        "borrowsFrom": [],
    }
    borrows = queue_document(borrower, board.forest, cluster.picture, lambda namespace: True)["flows"]["cpu"]
    assert borrows["borrowsFrom"] == [{"path": "root/eng/research", "name": "research", "amount": 10_000}]


def test_deserved_amount_replaces_the_weight(cluster: SeenCluster) -> None:
    cluster.put("Queue", queue("sales", status=status("0"), deserved={"cpu": "4"}))
    rows = board_of(cluster).tree_rows
    assert rows["root/sales"]["own"]["cpu"] == 4_000
    assert rows["root/eng"]["own"]["cpu"] == 36_000


def test_without_targets_nothing_is_entitled(cluster: SeenCluster) -> None:
    for name in ("root", "eng", "research", "platform", "sales"):
        found = cluster.objects["Queue", name]
        cluster.put("Queue", {**found, "status": {**found["status"], "entitled": {"cpu": "0"}}})
    rows = board_of(cluster).tree_rows
    assert {row["entitled"] for row in rows.values()} == {None}
    assert {row["share"]["entitled"] for row in rows.values()} == {None}


def test_queue_without_a_place_is_listed_last_with_a_note(cluster: SeenCluster) -> None:
    cluster.put("Queue", queue("lost", "nowhere"))
    board = board_of(cluster)
    row = list(board.tree_rows.values())[-1]
    assert (row["path"], row["placed"], row["weight"]) == ("lost", False, None)
    assert board.notes == [
        "queue lost: spec.parent: Not found: 'nowhere': create that queue first, or use 'root'",
    ]


def test_inner_node_without_an_object_has_the_figures_of_root(cluster: SeenCluster) -> None:
    team = queue("team", status=status("3"))
    team["metadata"]["annotations"] = {"volcano.sh/hierarchy": "root/dep/team"}
    del team["spec"]["parent"]
    inner = {"path": "root/dep", "weight": 1, "allocated": {"cpu": "3"}, "entitled": {"cpu": "2"}}
    cluster.put("Queue", team, queue("root", status={**status("39", "36"), "innerNodes": [inner]}))
    rows = board_of(cluster).tree_rows
    assert (rows["root/dep"]["object"], rows["root/dep"]["used"]) == (False, {"cpu": 3_000})
    assert rows["root/dep"]["entitled"] == {"cpu": 2_000}


def test_diffs_lead_from_one_tree_to_the_next(cluster: SeenCluster) -> None:
    board = board_of(cluster)
    before, version = dict(board.tree_rows), board.versions["tree"]
    cluster.put("Queue", queue("eng", weight=5, status=status("16", "30")), queue("new"))
    cluster.drop("Queue", "platform")
    events = dict(board.refresh())
    diff = events["tree"]
    assert (diff["base"], diff["version"]) == (version, version + 1)
    after = {path: row for path, row in before.items() if path not in diff["removed"]}
    after |= {row["path"]: row for row in diff["changed"]}
    after |= {path: {**after[path], "lent": amounts} for path, amounts in diff["lent"].items()}
    assert {path: after[path] for path in diff["order"]} == board.tree_rows
    assert board.refresh() == []


def test_rows_in_which_only_lent_changed_are_sent_without_the_rest(cluster: SeenCluster) -> None:
    board = board_of(cluster)
    cluster.put("Queue", queue("sales", status=status("14", "6"), guarantee={"resource": {"cpu": "2"}}))
    diff = dict(board.refresh())["tree"]
    assert [row["path"] for row in diff["changed"]] == ["root/sales"]
    assert diff["lent"] == {"root/eng": {"cpu": 5_250}, "root/eng/research": {"cpu": 6_000}}


def test_rows_that_are_kept_are_those_of_a_new_tree(cluster: SeenCluster) -> None:
    board = board_of(cluster)
    for change in (
        lambda: cluster.put("Node", node("n9", 7)),
        lambda: cluster.put("Queue", queue("eng", weight=1, status=status("16", "30"))),
        lambda: cluster.put("Queue", queue("sales", status=status("3", "6"), capability={"cpu": "5"})),
        lambda: cluster.drop("Queue", "platform"),
        lambda: cluster.put("Node", node("n0", 10, cordoned=True)),
    ):
        change()
        board.refresh()
        fresh = Board(cluster.picture, DecisionFeed(cluster.picture, "log"))
        cluster.picture._changes.tree = True
        fresh.refresh()
        assert board.tree_rows == fresh.tree_rows


def test_cluster_without_a_queue_root_has_a_tree_nevertheless() -> None:
    cluster = SeenCluster()
    cluster.put("Node", node("n1", 10))
    flat = queue("team", status={"state": "Open", "allocated": {"cpu": "4"}})
    del flat["spec"]["parent"]
    cluster.put("Queue", flat)
    board = board_of(cluster)
    rows = board.tree_rows
    assert [(row["path"], row["object"], row["used"].get("cpu", 0)) for row in rows.values()] == [
        ("root", False, 4_000),
        ("root/team", True, 4_000),
    ]
    assert rows["root/team"]["entitled"] is None and rows["root/team"]["own"]["cpu"] == 10_000
