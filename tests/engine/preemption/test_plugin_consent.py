"""Which plugins speak for a preemptor: with their flags off they have no say, and nobody is taken.

See docs/fairness.md, section 9.9.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from kubebase.resource_vector import CPU
from pumice.engine.actions import ACTIONS
from pumice.engine.config.scheduler_config import parse_config
from pumice.engine.engine import Engine
from pumice.engine.plugins.builtin import BUILT_IN
from pumice.engine.preemption.plugin_consent import PluginConsent
from pumice.model.specs import TaskStatus
from tests.support.taking import Shell

CONFIG = """
actions: "allocate, backfill, reclaim, preempt"
tiers:
- plugins: [{{name: priority, {priority}}}, {{name: gang}}, {{name: conformance}}]
- plugins: [{orders}]
"""

STEER = "{name: drf, enableHierarchy: true, enableNamespaceOrder: false, FLAGS}"
PAPER = "{name: drf, enableHierarchy: true, enableNamespaceOrder: false, arguments: {drf.rule: paper}, FLAGS}"
FLAT = "{name: drf, enableNamespaceOrder: false, FLAGS}"
WEIGHTS = "{name: drf, enableNamespaceOrder: false}, {name: proportion, FLAGS}"
AMOUNTS = "{name: drf, enableNamespaceOrder: false}, {name: capacity, FLAGS}"
every_drf = pytest.mark.parametrize("orders", [STEER, PAPER, FLAT], ids=["steer", "paper", "flat"])
every_order = pytest.mark.parametrize(
    "orders", [STEER, PAPER, FLAT, WEIGHTS, AMOUNTS], ids=["steer", "paper", "flat", "proportion", "capacity"]
)


def made(orders: str, flags: str = "", priority: str = "enableJobOrder: true") -> Shell:
    text = CONFIG.format(orders=orders.replace("FLAGS", flags or "enableJobOrder: true"), priority=priority)
    shell = Shell(Engine(parse_config(text, known_plugins=BUILT_IN, known_actions=ACTIONS), BUILT_IN))
    shell.node("n", 8)
    for queue in "ab":
        shell.child(queue, deserved=((CPU, 4),))
    return shell


def late(shell: Shell, queue: str, priority: int | None = None) -> tuple[int, int]:
    """A job of a fills 8 cpu before another asks for as much; returns how many of each run at rest."""
    first = shell.job("a", [(1,)] * 8, priority=1)
    shell.settle()
    second = shell.job(queue, [(1,)] * 8, priority=priority or 1)
    shell.settle()
    return shell.running(first), shell.running(second)


@every_order
def test_between_queues_it_is_up_to_the_plugin_that_orders_them(orders: str) -> None:
    assert late(made(orders), "b") == (4, 4)
    assert late(made(orders, "enableReclaimable: false"), "b") == (8, 0)
    assert late(made(orders, "enablePreemptable: false"), "b") == (4, 4)


@every_drf
def test_between_equals_of_a_queue_it_is_up_to_drf(orders: str) -> None:
    assert late(made(orders), "a") == (4, 4)
    assert late(made(orders, "enablePreemptable: false"), "a") == (8, 0)
    assert late(made(orders, "enableReclaimable: false"), "a") == (4, 4)


@every_drf
def test_higher_priority_job_preempts_without_consent_of_drf(orders: str) -> None:
    assert late(made(orders, "enablePreemptable: false"), "a", priority=5) == (0, 8)


def test_higher_priority_job_gets_equal_share_without_consent_of_priority() -> None:
    off = "enablePreemptable: false"
    assert late(made(FLAT, priority=off), "a", priority=5) == (4, 4)
    assert late(made(FLAT, off, priority=off), "a", priority=5) == (8, 0)


def test_the_less_important_job_takes_nothing_whoever_is_silent() -> None:
    for priority in ("enablePreemptable: true", "enablePreemptable: false"):
        shell = made(FLAT, priority=priority)
        first = shell.job("a", [(1,)] * 8, priority=5)
        shell.settle()
        second = shell.job("a", [(1,)] * 8, priority=1)
        shell.settle()
        assert (shell.running(first), shell.running(second)) == (8, 0)


def test_between_namespaces_of_a_queue_it_is_up_to_drf() -> None:
    for flags, expected in (("enablePreemptable: true", (4, 4)), ("enablePreemptable: false", (8, 0))):
        shell = made(f"{{name: drf, {flags}}}")
        first = shell.job("a", [(1,)] * 8, namespace="one")
        shell.settle()
        second = shell.job("a", [(1,)] * 8, namespace="two")
        shell.settle()
        assert (shell.running(first), shell.running(second)) == expected


@pytest.mark.parametrize(("flag", "swaps"), [("true", 1), ("false", 0)])
def test_inside_a_job_it_is_up_to_priority(flag: str, swaps: int) -> None:
    shell = made(FLAT, priority=f"enablePreemptable: {flag}")
    job = shell.job("a", [(1,)] * 8, priority=1)
    shell.settle()
    spec = shell.tasks[f"{job}-t-0"]
    shell.put(replace(spec, name="urgent", status=TaskStatus.PENDING, node=None, started=0, priority=9))
    shell.settle()
    assert len(shell.evictions) == swaps


def test_a_job_that_may_never_take_does_not_wait_for_its_time_to_do_so() -> None:
    shell = made(STEER, "enableReclaimable: false")
    late(shell, "b")
    assert not shell.engine.context.reclaimers.waits_for_cooldown(shell.now)
    assert all(shell.engine.context.reclaimers.eligible_at(leaf) is None for leaf in shell.engine.tree.jobs.values())


def test_default_plugins_consent_to_every_kind_of_preemption() -> None:
    assert made(STEER).engine.policy.consent == PluginConsent(queues=True, shares=True, classes=True, tasks=True)


def test_capacity_notes_that_parents_always_count() -> None:
    text = "actions: allocate\ntiers:\n- plugins: [{name: capacity, enableHierarchy: %s}]\n"
    read = [
        parse_config(text % said, known_plugins=BUILT_IN, known_actions=ACTIONS).notes for said in ("false", "true")
    ]
    assert read == [("capacity: enableHierarchy: false has no effect here, a queue's parent always counts",), ()]
