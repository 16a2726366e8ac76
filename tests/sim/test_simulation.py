"""How long a scenario runs, and under which policy."""

import pytest

from tests.sim.samples import counts, job, node, opened, queue, ran, scenario

TWO = (node(cpu=2), queue("q"), job("j", "q", 3, cpu=1))


def test_simulation_runs_until_nothing_changes():
    # One cycle to fill, one in which nothing happens any more.
    assert ran(*TWO).cluster.cycles == 2
    assert ran(node(cpu=2)).cluster.cycles == 1


def test_or_as_long_as_it_is_told():
    assert ran(scenario(cycles=1), *TWO).cluster.cycles == 1
    assert ran(scenario(cycles=7), *TWO).cluster.cycles == 7


def test_simulation_does_not_end_before_last_event():
    event = {"cycle": 120, "finish": {"job": "default/j", "tasks": 1}}
    simulation = ran(scenario(events=[event]), *TWO)
    assert simulation.cluster.cycles == 121
    assert counts(simulation) == {"default/j": (2, 0)}


def test_a_scenario_that_never_rests_is_stopped(monkeypatch):
    simulation = opened(*TWO)
    monkeypatch.setattr(simulation, "step", lambda: simulation.cluster.cycle() or ["something"])
    simulation.run()
    assert simulation.cluster.cycles == 100


def test_watch_is_called_after_every_cycle():
    seen = []
    simulation = opened(scenario(cycles=3), *TWO)
    simulation.run(lambda now: seen.append(now.cluster.cycles))
    assert seen == [1, 2, 3]


def test_events_of_one_cycle_happen_in_their_order():
    simulation = ran(
        scenario(events=[{"cycle": 2, "apply": queue("r")}, {"cycle": 2, "apply": job("k", "r", 1, cpu=1)}]),
        node(cpu=1),
    )
    assert not simulation.errors
    assert counts(simulation) == {"default/k": (1, 0)}


def test_event_after_the_last_cycle_is_reported():
    event = {"cycle": 9, "finish": {"job": "default/j", "tasks": 1}}
    simulation = ran(scenario(events=[event], churn={"seed": 1, "completions": 3}), *TWO)
    assert [error.reason for error in simulation.errors] == [
        "spec.events[0].cycle: cycle 9 was not reached: the run ended after cycle 5"
    ]


@pytest.mark.parametrize(
    ("plugin", "key", "targets"),
    [
        ("{name: drf, enableHierarchy: true}", "want", True),
        ("{name: drf, enableHierarchy: true, arguments: {drf.rule: paper}}", "share", True),
        ("{name: drf}", "share", False),
        ("{name: gang}", "share", False),
    ],
)
def test_key_and_targets_depend_on_configured_plugin(plugin, key, targets):
    config = f"actions: enqueue, allocate\ntiers:\n- plugins:\n  - {plugin}\n"
    simulation = ran(scenario(config=config), *TWO)
    assert (simulation.key_name, simulation.has_targets) == (key, targets)
    entitled = simulation.cluster.engine.tree.jobs["default/j"].entitled[0]
    assert entitled == (2000 if targets else 0)
