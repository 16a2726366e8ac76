"""The tree and the jobs as text."""

import click
import pytest

from pumice.cli import render
from pumice.cli.render import BAR, Column, bar, job_lines, legend, table, trace_lines, tree_lines
from pumice.sim.overview import overview_of_run
from tests.sim.samples import job, node, queue, queue_at, ran, scenario


@pytest.fixture(autouse=True)
def blocks(monkeypatch):
    monkeypatch.setattr(render, "can_show", lambda characters: True)


def plain(lines):
    return [click.unstyle(line) for line in lines]


@pytest.mark.parametrize(
    ("used", "entitled", "drawn"),
    [
        (0.5, 0.5, "█" * 10),
        (0.75, 0.5, "█" * 10 + "▓" * 5),
        (0.25, 0.5, "█" * 5 + "░" * 5),
        (0.0, 1.0, "░" * 20),
        (1.0, 0.0, "▓" * 20),
        (0.001, 0.5, "█" + "░" * 9),
        (2.0, 1.0, "█" * 20),
        (0.0, 0.0, ""),
    ],
)
def test_a_bar_is_the_whole_cluster(used, entitled, drawn):
    assert click.unstyle(bar(used, entitled)) == drawn.ljust(BAR)


def test_without_targets_a_bar_is_what_is_used():
    assert bar(0.5, 0.0, targets=False) == "█" * 10 + " " * 10


def test_columns_line_up_and_empty_ones_are_left_out():
    rows = table(
        [
            Column("NAME", [click.style("a", fg="red"), "bcd"]),
            Column("EMPTY", ["", ""]),
            Column("NUMBER", ["5", "100"], right=True),
        ]
    )
    assert plain(rows) == ["NAME  NUMBER", "a          5", "bcd      100"]


def test_a_tree_is_drawn_like_a_tree():
    simulation = ran(
        node(cpu=4), queue("a"), queue("b", parent="a"), queue("c", parent="b"), queue("d"), job("j", "c", 1, cpu=1)
    )
    names = [line.split("  1  ")[0].rstrip() for line in plain(tree_lines(overview_of_run(simulation)))]
    assert [name.rstrip(" 1") for name in names[1:]] == ["root", "|--a", "|  |--b", "|  |  |--c", "|--d"]


def test_namespaces_are_shown_where_there_are_several():
    one = ran(node(cpu=2), queue("q"), job("j", "q", 1, cpu=1))
    assert not any("default" in line for line in tree_lines(overview_of_run(one)))
    assert any("|--default" in line for line in plain(tree_lines(overview_of_run(one), wide=True)))
    two = ran(node(cpu=2), queue("q"), job("j", "q", 1, cpu=1), job("j", "q", 1, ns="other", cpu=1))
    assert sum("|  |--" in line for line in plain(tree_lines(overview_of_run(two)))) == 2


def test_a_state_is_shown_where_a_queue_is_not_open():
    open_queue = ran(node(cpu=1), queue("q"))
    assert "STATE" not in plain(tree_lines(overview_of_run(open_queue)))[0]
    event = {"cycle": 2, "command": {"queue": "q", "action": "PauseQueue"}}
    paused = plain(tree_lines(overview_of_run(ran(scenario(events=[event]), node(cpu=1), queue("q")))))
    assert "STATE" in paused[0] and "Paused" in paused[2]


def test_a_queue_that_is_called_otherwise_than_its_place_says_so():
    simulation = ran(node(cpu=1), queue_at("production", "root/prod", "1/1"))
    assert "prod (production)" in plain(tree_lines(overview_of_run(simulation)))[2]


def test_the_legend_explains_what_is_there():
    # 4 cpu; b is entitled to 2 and asks for 3; a wants 1 of its 2: one is lent.
    documents = (node(cpu=4), queue("a"), queue("b"), job("j", "a", 4, cpu=1), job("k", "b", 4, cpu=1))
    assert legend(overview_of_run(ran(*documents))) == ""
    moved = ran(scenario(events=[{"cycle": 3, "apply": queue("a", weight=3)}]), *documents)
    assert click.unstyle(legend(overview_of_run(moved))) == "█ used   ▓ lent by others   ░ entitled to, not used"


def test_jobs_are_listed_with_their_users_where_these_are_not_the_namespaces():
    document = job("j", "q", 2, cpu=1)
    assert "USER" not in plain(job_lines(overview_of_run(ran(node(cpu=1), queue("q"), document))))[0]
    document["metadata"]["annotations"] = {"volcano.sh/user": "ada"}
    head, line = plain(job_lines(overview_of_run(ran(node(cpu=1), queue("q"), document))))
    assert head.split() == ["JOB", "QUEUE", "USER", "PHASE", "RUNNING", "PENDING", "TARGET", "USED", "ALLOCATED"]
    assert line.split() == ["default/j", "q", "ada", "Running", "1", "1", "1", "100%", "cpu", "1"]


def test_tasks_that_start_together_were_picked_once():
    path = [{"node": "root/a", "key": 1.0, "runnerUp": "root/b", "runnerUpKey": 0.25}]
    decisions = [
        {"cycle": 1, "type": "enqueue", "job": "default/j"},
        {"cycle": 1, "type": "bind", "pod": "default/j-0", "node": "n", "path": path},
        {"cycle": 1, "type": "bind", "pod": "default/j-1", "node": "m", "path": path},
        {"cycle": 2, "type": "condition", "job": "default/k", "message": "no room"},
    ]
    assert plain(trace_lines(decisions, "want")) == [
        "cycle 1",
        "  enqueue   default/j",
        "  bind      default/j-0 to n",
        "  bind      default/j-1 to m",
        "            a  want 1.0000  before b with 0.2500",
        "cycle 2",
        "  condition default/k: no room",
    ]
