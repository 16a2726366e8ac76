"""Queues as tables: the table of the design note, and what else there may be."""

from __future__ import annotations

from typing import Any

import click
import pytest

from pumice.cli.cluster.queue_table import QueueTable
from pumice.cli.text_table import Table

NOTE = """\
Name             Weight  State  Inqueue  Pending  Running  Unknown
root                  1   Open        6        0        6        0
|--default            5   Open        3        0        3        0
|--dev                5   Open        3        0        3        0
|  |--test1           1   Open        1        0        1        0
|  |--test2           2   Open        2        0        2        0
"""


def queue(name: str, parent: str = "root", weight: int = 1, annotations: Any = None, **status: Any) -> dict[str, Any]:
    spec = {"weight": weight, **({"parent": parent} if name != "root" and parent else {})}
    about = {"name": name, "annotations": annotations or {}, "creationTimestamp": "2026-01-01T00:00:00Z"}
    return {"metadata": about, "spec": spec, "status": {"state": "Open", **status}}


def five(counted_above: bool) -> list[dict[str, Any]]:
    """The queues of the note; a parent's own counts must not matter."""
    above = {"inqueue": 6, "running": 6} if counted_above else {}
    return [
        queue("test2", "dev", 2, inqueue=2, running=2),
        queue("root", **above),
        queue("dev", weight=5, **({"inqueue": 3, "running": 3} if counted_above else {"inqueue": 99})),
        queue("default", weight=5, inqueue=3, running=3),
        queue("test1", "dev", 1, inqueue=1, running=1, pending=0),
    ]


def printed(view: QueueTable, queues: list[dict[str, Any]]) -> str:
    rows = view.rows(queues).values()
    table = Table(view.columns)
    table.widen(row.cells for row in rows)
    return "".join(click.unstyle(line) + "\n" for line in (table.heading(), *(table.line(row.cells) for row in rows)))


@pytest.mark.parametrize("counted_above", [True, False])
def test_the_table_of_the_note(counted_above: bool) -> None:
    assert printed(QueueTable("tree"), five(counted_above)) == NOTE


def test_a_subtree_begins_at_the_left() -> None:
    assert printed(QueueTable("tree", ["dev"]), five(True)) == (
        "Name             Weight  State  Inqueue  Pending  Running  Unknown\n"
        "dev                   5   Open        3        0        3        0\n"
        "|--test1              1   Open        1        0        1        0\n"
        "|--test2              2   Open        2        0        2        0\n"
    )


def test_long_names_and_big_numbers_keep_the_columns_in_line() -> None:
    queues = [queue("root"), queue("a" * 40, weight=65535, running=1234567), queue("büro", parent="a" * 40, inqueue=10)]
    queues[1]["status"]["state"] = "Closing"
    assert printed(QueueTable("tree"), queues) == (
        # 3 + 40 places for the longest name; the parent shows what is below it
        f"{'Name':43}  Weight    State  Inqueue  Pending  Running  Unknown\n"
        f"{'root':43}       1     Open       10        0        0        0\n"
        f"|--{'a' * 40}   65535  Closing       10        0        0        0\n"
        f"{'|  |--büro':43}       1     Open       10        0        0        0\n"
    )


def test_queue_tree_without_queues_has_no_rows() -> None:
    assert QueueTable("tree").rows([]) == {}


def test_a_queue_without_status_is_open_and_one_that_goes_says_so() -> None:
    fresh, leaving = queue("fresh"), queue("leaving")
    del fresh["status"]
    leaving["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    rows = QueueTable("list").rows([fresh, leaving])
    assert [click.unstyle(row.cells[3]) for row in rows.values()] == ["Open", "Deleting"]


def test_paths_in_annotations_make_nodes_without_an_object() -> None:
    path = {"volcano.sh/hierarchy": "root/eng/prod", "volcano.sh/hierarchy-weights": "1/2/8"}
    queues = [queue("root"), queue("q", parent="", annotations=path, running=4)]
    assert printed(QueueTable("tree"), queues) == (
        "Name             Weight  State  Inqueue  Pending  Running  Unknown\n"
        "root                  1   Open        0        0        4        0\n"
        "|--eng                2      -        0        0        4        0\n"
        "|  |--q               8   Open        0        0        4        0\n"
    )
    assert printed(QueueTable("children", ["eng"]), queues).splitlines()[1].split()[:2] == ["q", "eng"]


def test_a_queue_without_a_place_comes_last_with_a_reason() -> None:
    view = QueueTable("tree")
    rows = view.rows([queue("lost", parent="gone", running=2), queue("root")])
    assert [row.cells[0] for row in rows.values()] == ["root", "lost"]
    assert view.notes == ["queue lost: spec.parent: Not found: 'gone': create that queue first, or use 'root'"]
    assert [row.cells[0] for row in QueueTable("tree", ["lost"]).rows([queue("lost", parent="gone")]).values()] == [
        "lost"
    ]


def test_a_circle_is_no_reason_to_turn_for_ever() -> None:
    view = QueueTable("tree")
    rows = view.rows([queue("a", parent="b"), queue("b", parent="a"), queue("root")])
    assert list(rows) == ["root", "a", "b"]
    assert "cycle" in view.notes[0]


def test_wide_adds_usage_and_entitlement() -> None:
    dev = queue("dev", share=0.0312, allocated={"cpu": "3", "pods": "3"}, entitled={"cpu": "10666m", "memory": "0"})
    dev["spec"] |= {"deserved": {"cpu": 8}, "guarantee": {"resource": {"cpu": 2}}, "capability": {"nvidia.com/gpu": 0}}
    dev["spec"] |= {"minUserLimitPercent": 25, "userLimitFactor": 0.5}
    dev["status"]["namespaces"] = [{"name": "a", "share": 0.01}, {"name": "b", "share": 0.0212}]
    view = QueueTable("names", ["dev"], wide=True)
    assert printed(view, [dev, queue("other")]) == (
        "Name             Parent  Weight  State  Inqueue  Pending  Running  Unknown  Share  Allocated  Entitled    "
        "Deserved  Guarantee  Capability        UserLimits          Namespaces\n"
        "dev              root         1   Open        0        0        0        0   3.1%  cpu=3      cpu=10.666  "
        "cpu=8     cpu=2      nvidia.com/gpu=0  min=25%,factor=0.5  b=2.1%,a=1.0%\n"
    )


def test_named_queues_keep_the_given_order() -> None:
    view = QueueTable("names", ["test2", "nope", "dev"])
    assert list(view.rows(five(True))) == ["test2", "dev"]
    assert "nope" not in view.existing_names and "root" in view.existing_names


# ---- hierarchy annotations -------------------------------------------------------------------------------------------


def annotated(name: str, path: str, weights: str = "", **about: Any) -> dict[str, Any]:
    annotations = {"volcano.sh/hierarchy": path, **({"volcano.sh/hierarchy-weights": weights} if weights else {})}
    return queue(name, "", annotations=annotations, **about)


def test_the_weight_shown_is_the_one_that_counts() -> None:
    """The last number of hierarchy-weights, whatever spec.weight says; without that annotation spec.weight."""
    queues = [
        queue("root", weight=7),  # it has no siblings, so its weight counts nowhere
        annotated("prod", "root/eng/prod", "1/2/8", weight=3),
        annotated("half", "eng/half", "2/0.5"),
        annotated("sci", "root/sci", weight=3),
        annotated("wrong", "root/eng/wrong", "1/2", weight=4),  # two weights for three levels: it has no place
    ]
    flat = printed(QueueTable("list"), queues).splitlines()[1:]
    assert [line.split()[:3] for line in flat[:3]] == [
        ["half", "eng", "0.5"],
        ["prod", "eng", "8"],
        ["root", "1", "Open"],
    ]
    assert [line.split()[:3] for line in flat[3:]] == [["sci", "root", "3"], ["wrong", "eng", "-"]]
    tree = printed(QueueTable("tree"), queues).splitlines()[1:]
    assert [line.split()[:2] for line in tree] == [
        ["root", "1"],
        ["|--eng", "2"],
        ["|", "|--half"],
        ["|", "|--prod"],
        ["|--sci", "3"],
        ["wrong", "-"],
    ]


def test_inner_nodes_of_one_name_have_lines_of_their_own_with_the_figures_of_root() -> None:
    figures = {"share": 0.5, "allocated": {"cpu": "4"}, "entitled": {"cpu": "6"}}
    inner = [{"path": "root/a/eng", **figures}, {"path": "root/b/eng", **figures, "share": 0.25}]
    queues = [
        queue("root", innerNodes=inner),
        annotated("one", "root/a/eng/one", running=1),
        annotated("two", "root/b/eng/two", running=2),
    ]
    view = QueueTable("tree", wide=True)
    lines = [line.split() for line in printed(view, queues).splitlines()[1:]]
    eng = [line for line in lines if "|--eng" in line]
    # name, weight, state, four counts (Running is the third), share, allocated, entitled
    assert [line[2:10] for line in eng] == [
        ["1", "-", "0", "0", "1", "0", "50%", "cpu=4"],
        ["1", "-", "0", "0", "2", "0", "25%", "cpu=4"],
    ]
    below = QueueTable("tree", ["root/b/eng"])
    assert [line.split()[0] for line in printed(below, queues).splitlines()[1:]] == ["eng", "|--two"]


def test_wide_queue_table_names_only_largest_namespaces() -> None:
    many = [{"name": f"n{i}", "share": i / 100} for i in range(8)]
    cell = printed(QueueTable("list", wide=True), [queue("dev", namespaces=many)]).split()[-2:]
    assert cell == ["n7=7.0%,n6=6.0%,n5=5.0%,n4=4.0%,n3=3.0%,3", "more"]
