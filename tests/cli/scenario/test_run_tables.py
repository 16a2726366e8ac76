"""The tree and the jobs as text."""

from dataclasses import replace

import click
import pytest

from pumice.cli.scenario import run_tables
from pumice.cli.scenario.run_tables import (
    BAR_WIDTH,
    ColumnCells,
    bar_legend,
    column_table,
    job_lines,
    notice_lines,
    tree_lines,
    usage_bar,
)
from pumice.sim.run_overview import overview_of_run
from tests.sim.samples import job, node, opened, queue, queue_at, ran, scenario


@pytest.fixture(autouse=True)
def blocks(monkeypatch):
    monkeypatch.setattr(run_tables, "can_encode", lambda characters: True)


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
def test_bar_width_is_the_whole_cluster(used, entitled, drawn):
    assert click.unstyle(usage_bar(used, entitled)) == drawn.ljust(BAR_WIDTH)


def test_bar_without_targets_shows_usage():
    assert usage_bar(0.5, 0.0, targets=False) == "█" * 10 + " " * 10


def test_columns_line_up_and_empty_ones_are_left_out():
    rows = column_table(
        [
            ColumnCells("NAME", [click.style("a", fg="red"), "bcd"]),
            ColumnCells("EMPTY", ["", ""]),
            ColumnCells("NUMBER", ["5", "100"], align_right=True),
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


def test_legend_explains_occurring_characters():
    # 4 cpu; b is entitled to 2 and asks for 3; a wants 1 of its 2: one is lent.
    documents = (node(cpu=4), queue("a"), queue("b"), job("j", "a", 4, cpu=1), job("k", "b", 4, cpu=1))
    assert bar_legend(overview_of_run(ran(*documents))) == ""
    config = "actions: allocate\ntiers:\n- plugins:\n  - {name: drf, enableHierarchy: true}\n"  # nobody is evicted
    moved = ran(scenario(config=config, events=[{"cycle": 3, "apply": queue("a", weight=3)}]), *documents)
    assert click.unstyle(bar_legend(overview_of_run(moved))) == "█ used   ▓ lent by others   ░ entitled to, not used"


def test_jobs_are_listed_with_their_users_where_these_are_not_the_namespaces():
    document = job("j", "q", 2, cpu=1)
    assert "USER" not in plain(job_lines(overview_of_run(ran(node(cpu=1), queue("q"), document))))[0]
    document["metadata"]["annotations"] = {"volcano.sh/user": "ada"}
    head, line = plain(job_lines(overview_of_run(ran(node(cpu=1), queue("q"), document))))
    assert head.split() == ["JOB", "QUEUE", "USER", "PHASE", "RUNNING", "PENDING", "TARGET", "USED", "ALLOCATED"]
    assert line.split() == ["default/j", "q", "ada", "Running", "1", "1", "1", "100%", "cpu", "1"]


CAPACITY = """
actions: allocate, reclaim
tiers:
- plugins:
  - name: capacity
    enableHierarchy: true
"""


def test_tasks_that_wait_for_the_evicted_to_leave_are_not_said_to_run():
    # 4 cpu, two queues of weight 1: of the four tasks of a two go for b.
    late = {"cycle": 2, "apply": job("late", "b", 4, cpu=1)}
    simulation = ran(
        scenario(cycles=2, terminationCycles=3, events=[late]),
        node(cpu=4),
        queue("a"),
        queue("b"),
        job("early", "a", 4, cpu=1),
    )
    overview = overview_of_run(simulation)
    head, root, a, b = plain(tree_lines(overview))
    assert head.split()[-4:] == ["RUNNING", "STARTING", "PENDING", "ALLOCATED"]
    assert [line.split()[-5:] for line in (root, a, b)] == [
        ["2", "2", "2", "cpu", "4"],
        ["2", "0", "0", "cpu", "2"],
        ["0", "2", "2", "cpu", "2"],
    ]
    assert [line.split()[2:6] for line in plain(job_lines(overview))[1:]] == [
        ["Running", "2", "0", "0"],
        ["Inqueue", "0", "2", "2"],
    ]


def test_queue_quantities_are_shown_if_set():
    documents = [
        scenario(config=CAPACITY),
        node(cpu=8),
        queue("eng", deserved={"cpu": 4}, guarantee={"resource": {"cpu": 2}}),
        queue("sci", capability={"cpu": 3}),
    ]
    overview = overview_of_run(ran(*documents))
    assert plain(tree_lines(overview))[0].split()[-1] == "DESERVES"
    head, root, eng, sci = plain(tree_lines(overview, wide=True))
    assert [head.index(word) for word in ("DESERVES", "GUARANTEED", "AT MOST")] == [
        eng.index("cpu 4"),
        eng.index("cpu 2"),
        sci.index("cpu 3"),
    ]
    assert "cpu 8" not in eng  # it may hold all there is: no limit worth a word
    assert root.endswith("cpu 8")


def test_stopped_queues_and_kept_room_are_mentioned():
    queues = queue("eng", deserved={"cpu": 6}), queue("prod", parent="eng", deserved={"cpu": 6})
    simulation = opened(scenario(config=CAPACITY), node(cpu=8), *queues, job("j", "prod", 1, cpu=1))
    cpu, _ = simulation.cluster.objects.queues["eng"].deserved[0]
    # Admission refuses it, so it is written past admission: where the webhooks do not run, people can.
    simulation.cluster.put(replace(simulation.cluster.objects.queues["eng"], deserved=((cpu, 4000),)))
    simulation.run()
    stopped = overview_of_run(simulation)
    (line,) = plain(notice_lines(stopped))
    assert line.startswith("stopped queue eng: the children of queue 'root/eng' have deserved cpu 6 in total")
    assert "queue eng is stopped" in plain(job_lines(stopped, wide=True))[1]
    # 8 cpu on two nodes, half of them are big's; small fills both, and nobody is evicted.
    config = "actions: allocate\ntiers:\n- plugins:\n  - {name: drf, enableHierarchy: true, arguments: %s}\n"
    kept = ran(
        scenario(
            cycles=3,
            config=config % "{drf.patience: 0}",
            events=[{"cycle": 2, "apply": job("big", "b", 1, cpu=4)}],
        ),
        node("n1", cpu=4),
        node("n2", cpu=4),
        queue("a"),
        queue("b"),
        job("small", "a", 8, cpu=1),
    )
    lines = plain(notice_lines(overview_of_run(kept)))
    assert lines == ["kept for default/big, for 2 s now: n1 (cpu 4); 50% of the cluster is lacking there"]
