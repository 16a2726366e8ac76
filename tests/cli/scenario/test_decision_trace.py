"""A trace as text."""

import click
import pytest

from pumice.cli.scenario.decision_trace import trace_lines
from pumice.sim.run_report import decisions_report
from tests.sim.samples import group, node, opened, pod, queue, scenario


def plain(lines):
    return [click.unstyle(line) for line in lines]


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


def test_an_eviction_is_explained_where_the_paths_part():
    eviction = {
        "cycle": 2,
        "type": "evict",
        "node": "n",
        "for": "default/late",
        "action": "reclaim",
        "path": [],
        "ancestor": "root/eng",
        "sides": {"preemptor": "root/eng/prod", "victim": "root/eng/dev"},
        "measure": "share",
        "before": {"preemptor": 0.25, "victim": 2.0},
        "after": {"preemptor": 0.5, "victim": 1.5},
    }
    # Two tasks that go together are explained once, the next one for the same preemptor by its own numbers.
    later = {"before": {"preemptor": 0.5, "victim": 1.5}, "after": {"preemptor": 0.75, "victim": 1.0}}
    decisions = [
        eviction | {"pod": "default/a"},
        eviction | {"pod": "default/b"},
        eviction | later | {"pod": "default/c"},
    ]
    assert plain(trace_lines(decisions, "share")) == [
        "cycle 2",
        "  evict     default/a from n for default/late (reclaim)",
        "  evict     default/b from n for default/late (reclaim)",
        "            they part below root/eng:",
        "              prod  takes: share 0.2500, then 0.5000",
        "              dev   gives: share 2.0000, then 1.5000",
        "  evict     default/c from n for default/late (reclaim)",
        "            they part below root/eng:",
        "              prod  takes: share 0.5000, then 0.7500",
        "              dev   gives: share 1.5000, then 1.0000",
    ]


def test_a_queue_in_which_nothing_starts_and_one_in_which_it_does_again():
    decisions = [
        {"cycle": 1, "type": "condition", "queue": "eng", "message": "too much"},
        {"cycle": 2, "type": "condition", "queue": "eng", "message": ""},
    ]
    assert plain(trace_lines(decisions, "share"))[1::2] == [
        "  condition queue eng: too much",
        "  condition queue eng: nothing is wrong any more",
    ]


@pytest.mark.parametrize(
    ("preemptor", "victim", "takes", "gives"),
    [
        (
            (0.125, 0.0),
            (-0.25, -0.125),
            "12.50% of the cluster below its part, then 0.00%",
            "25.00% of the cluster above its part, then 12.50%",
        ),
        # A task that is larger than what its side has too much.
        (
            (0.5, -0.1),
            (-0.1, 0.5),
            "50.00% of the cluster below its part, then 10.00% above",
            "10.00% of the cluster above its part, then 50.00% below",
        ),
        (
            (0.25, 0.0),
            (0.0, 0.25),
            "25.00% of the cluster below its part, then 0.00%",
            "0.00% of the cluster below its part, then 25.00%",
        ),
        (
            (0.25, 0.0),
            (-0.00001, 0.25),
            "25.00% of the cluster below its part, then 0.00%",
            "0.00% of the cluster below its part, then 25.00%",
        ),
    ],
)
def test_under_steer_each_side_stands_above_or_below_its_part(preemptor, victim, takes, gives):
    eviction = {
        "cycle": 1,
        "type": "evict",
        "pod": "default/a",
        "node": "n",
        "for": "default/late",
        "action": "reclaim",
        "ancestor": "root",
        "sides": {"preemptor": "root/b", "victim": "root/a"},
        "measure": "want",
        "before": {"preemptor": preemptor[0], "victim": victim[0]},
        "after": {"preemptor": preemptor[1], "victim": victim[1]},
    }
    assert plain(trace_lines([eviction], "want"))[2:] == [
        "            they part below root:",
        f"              b  takes: {takes}",
        f"              a  gives: {gives}",
    ]


def test_a_place_within_a_job_goes_by_priority():
    # Two pods of 1 cpu fill the node; a third of the same job is more important, and one makes way. Shares say nothing
    # there, and a priority is no part of the cluster.
    pods = [pod("p0", "g", on="n", cpu=1), pod("p1", "g", on="n", cpu=1), pod("p2", "g", cpu=1)]
    pods[2]["spec"]["priority"] = 10
    sim = opened(scenario(cycles=1), node(cpu=2), queue("a"), group("g", queue="a", minMember=1), *pods)
    sim.cluster.engine.context.tracing = True
    sim.run()
    report = decisions_report(sim)
    (eviction,) = [decision for decision in report if decision["type"] == "evict"]
    assert eviction["measure"] == "priority"
    assert eviction["before"] == eviction["after"] == {"preemptor": 10, "victim": 0}
    lines = plain(trace_lines(report, "want"))
    why = lines.index(f"  evict     {eviction['pod']} from n for default/g (preempt)")
    assert [line.split("  ")[-1] for line in lines[why + 2 : why + 4]] == [
        "takes: priority 10",
        "gives: priority 0",
    ]
