"""Brakes: how long a job must have been owed, and a task have run, before anybody is evicted.

See docs/fairness.md, section 9.1.
"""

from __future__ import annotations

from typing import Any

import pytest

from pumice.engine.actions import ACTIONS
from pumice.engine.config.scheduler_config import ConfigError, SchedulerConfig, parse_config
from pumice.engine.decisions import Evict
from pumice.engine.engine import Engine
from pumice.engine.plugins.builtin import BUILT_IN
from pumice.engine.preemption.cooldown import LIVE, NO_COOLDOWN, PreemptionCooldown, configured_cooldown
from tests.sim.samples import job, node, queue, ran, scenario
from tests.support.taking import SECOND, Shell

TEXT = """actions: "allocate, reclaim"
tiers:
- plugins: [{{name: gang}}, {{name: drf, enableHierarchy: true}}]
configurations:
- name: reclaim
  arguments:
    reclaim.patience: {patience}
    reclaim.minRuntime: {min_runtime}
"""
SILENT = TEXT.partition("configurations")[0].format()


def config_of(patience: object = 0, min_runtime: object = 0) -> SchedulerConfig:
    text = TEXT.format(patience=patience, min_runtime=min_runtime)
    return parse_config(text, source="file", known_plugins=BUILT_IN, known_actions=ACTIONS)


def bounded(max_lost_work: object) -> SchedulerConfig:
    text = f"{TEXT.format(patience=0, min_runtime=0)}    reclaim.maxLostWork: {max_lost_work}\n"
    return parse_config(text, source="file", known_plugins=BUILT_IN, known_actions=ACTIONS)


def silent() -> SchedulerConfig:
    return parse_config(SILENT, known_plugins=BUILT_IN, known_actions=ACTIONS)


def first_eviction(config: SchedulerConfig, cooldown: PreemptionCooldown = NO_COOLDOWN, cycles: int = 30) -> int | None:
    """Queue a fills 4 cpu in the first second; b comes for its half in the fifth. When is the first eviction?"""
    shell = Shell(Engine(config, BUILT_IN, cooldown=cooldown))
    shell.node("n0", 4)
    shell.queue("root/a")
    shell.queue("root/b")
    shell.job("a", [(1,)] * 4, name="a")
    for second in range(1, cycles):
        if second == 5:
            shell.job("b", [(1,)] * 2, 2, name="b")
        if any(isinstance(decision, Evict) for decision in shell.cycle()):
            return second
    return None


@pytest.mark.parametrize(
    ("patience", "min_runtime", "second"),
    [
        (0, 0, 5),  # at once
        (3, 0, 8),  # owed since 5, for 3 s at 8
        (0, 3, 5),  # started at 1, has run for 4 s at 5
        (0, 9.5, 11),  # started at 1, has run for 9 s at 10
        (8, 9.5, 13),  # both: 5 + 8 and 1 + 9.5
        (2, 9.5, 11),
        (100, 0, None),
        (0, 100, None),
        ("0.5", 0, 6),  # half a second is over in the cycle after
    ],
)
def test_first_eviction_waits_for_patience_and_min_runtime(
    patience: object, min_runtime: object, second: int | None
) -> None:
    assert first_eviction(config_of(patience, min_runtime)) == second
    # The same by what the shell says where the file is silent.
    cooldown = PreemptionCooldown(int(float(str(patience)) * SECOND), int(float(str(min_runtime)) * SECOND))
    assert first_eviction(silent(), cooldown) == second


def test_cooldown_of_configuration_file_overrides_default_of_shell() -> None:
    assert first_eviction(config_of(0, 0), LIVE) == 5
    assert first_eviction(silent(), LIVE, 100) in (61, 62)  # 60 s after the start; the 30 s of being owed are over then


def test_patience_begins_anew_when_it_was_not_owed_meanwhile() -> None:
    shell = Shell(Engine(config_of(3), BUILT_IN))
    shell.node("n0", 4)
    shell.queue("root/a")
    shell.queue("root/b")
    shell.job("a", [(1,)] * 4, name="a")
    shell.cycle()
    shell.job("b", [(1,)] * 2, 2, name="b")
    for _ in range(3):
        shell.cycle()
    shell.end_job("ns/b")
    shell.cycle()
    shell.job("b", [(1,)] * 2, 2, name="b")  # one of the same name, but another
    for _ in range(3):
        assert not any(isinstance(decision, Evict) for decision in shell.cycle())
    assert any(isinstance(decision, Evict) for decision in shell.cycle())


def test_preempt_does_not_brake() -> None:
    # Inside a queue it is somebody's own priority that decides.
    text = TEXT.format(patience=100, min_runtime=100).replace('reclaim"', 'preempt"')
    text = text.replace("{name: gang}", "{name: priority}")
    shell = Shell(Engine(parse_config(text, known_plugins=BUILT_IN, known_actions=ACTIONS), BUILT_IN))
    shell.node("n0", 4)
    shell.queue("root/a")
    shell.job("a", [(1,)] * 4, name="low", priority=1)
    shell.cycle()
    shell.job("a", [(1,)], name="high", priority=5)
    assert any(isinstance(decision, Evict) for decision in shell.cycle())


# --- reading them ---------------------------------------------------------------------------------------------------


def test_seconds_as_people_write_them() -> None:
    assert configured_cooldown(config_of(30, '"60"')) == PreemptionCooldown(30_000_000, 60_000_000) == LIVE
    assert configured_cooldown(bounded("3600")).max_lost_work == 3_600_000_000
    assert configured_cooldown(bounded(-1)).max_lost_work < 0
    assert configured_cooldown(config_of(0.25, "1e1")) == PreemptionCooldown(250_000, 10_000_000)
    assert configured_cooldown(silent()) == NO_COOLDOWN
    assert configured_cooldown(silent(), LIVE) == LIVE


@pytest.mark.parametrize(
    ("patience", "min_runtime", "line", "argument"),
    [
        ("-1", 0, 7, "reclaim.patience"),
        ("soon", 0, 7, "reclaim.patience"),
        ("[]", 0, 7, "reclaim.patience"),
        (0, "-5", 8, "reclaim.minRuntime"),
        (0, "1m", 8, "reclaim.minRuntime"),
    ],
)
def test_invalid_cooldown_is_refused_with_argument_and_line(
    patience: object, min_runtime: object, line: int, argument: str
) -> None:
    with pytest.raises(ConfigError) as refused:
        configured_cooldown(config_of(patience, min_runtime))
    assert (refused.value.line, refused.value.source) == (line, "file")
    assert argument in refused.value.message and "seconds" in refused.value.message
    with pytest.raises(ConfigError):
        Engine(config_of(patience, min_runtime), BUILT_IN)


# --- in a scenario --------------------------------------------------------------------------------------------------


def evicted_in(**spec: Any) -> list[int]:
    simulation = ran(
        scenario(cycles=12, events=[{"cycle": 3, "apply": job("late", "b", 2, least=2, cpu=1)}], **spec),
        node(cpu=4),
        queue("a"),
        queue("b"),
        job("early", "a", 4, cpu=1),
    )
    return sorted({cycle for cycle, decision in simulation.decisions if isinstance(decision, Evict)})


def test_scenario_has_no_cooldown_unless_it_sets_one() -> None:
    assert evicted_in() == [3]
    assert evicted_in(config=TEXT.format(patience=4, min_runtime=0)) == [7]
    assert evicted_in(config=TEXT.format(patience=4, min_runtime=0), cycleSeconds=2) == [5]
    assert evicted_in(config=TEXT.format(patience=0, min_runtime=8.5)) == [10]  # started in cycle 1


def evicted_by(*arrivals: int, max_lost_work: object, gang: int = 6) -> int:
    """8 cpu; a gang of a has run for ten seconds when b asks for so many cpu, and a for a second gang of 4."""
    shell = Shell(Engine(bounded(max_lost_work), BUILT_IN))
    shell.node("n0", 8)
    shell.queue("root/a")
    shell.queue("root/b")
    shell.job("a", [(1,)] * 6, gang, name="long")
    for _ in range(10):
        shell.cycle()
    shell.job("a", [(1,)] * 4, 4, name="other")
    for size in arrivals:
        shell.job("b", [(size,)])
    shell.settle()
    return len(shell.evictions)


@pytest.mark.parametrize(
    ("max_lost_work", "evicted"),
    [
        (-1, 6),  # b is entitled to 4 of 8, and 2 are idle: the gang goes, and the other gang of a starts beside b
        (0, 0),
        (20, 0),  # lost: 6 cpu for 10 s or more; gained: 2 cpu, for 20 s as much work as 40
        (40, 6),  # as much as 80
    ],
)
def test_gang_goes_only_if_it_loses_little_work(max_lost_work: object, evicted: int) -> None:
    assert evicted_by(1, 1, 1, 1, max_lost_work=max_lost_work) == evicted


def test_bound_on_lost_work_counts_tasks_that_go_alone_too() -> None:
    # b deserves 4 of 8 and takes 2 single tasks, which have run for 10 s and more, one for each of its own
    assert evicted_by(1, 1, 1, 1, max_lost_work=9, gang=1) == 0
    assert evicted_by(1, 1, 1, 1, max_lost_work=13, gang=1) == 2
