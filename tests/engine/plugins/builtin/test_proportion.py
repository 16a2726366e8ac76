"""proportion in the engine: the cluster by weight, level by level; never together with H-DRF's order."""

from __future__ import annotations

import pytest

from kubebase.resource_vector import CPU
from pumice.engine.config.scheduler_config import ConfigError, parse_config
from pumice.engine.fairness.share_tree.tree import ShareNode
from pumice.engine.plugins.builtin.proportion import ProportionPlugin
from pumice.model.specs import JobPhase, Queue
from tests.support.queue_worlds import QueueWorld, cpu, let_in


def world_of(*queues: Queue, room: int = 10) -> QueueWorld:
    return QueueWorld(*queues, room=room, policy="proportion")


def plugin_of(world: QueueWorld) -> ProportionPlugin:
    found = next(plugin for _, plugin in world.engine.policy.plugins if plugin.name == "proportion")
    assert isinstance(found, ProportionPlugin)
    return found


def test_queues_hold_cluster_in_proportion_to_weight() -> None:
    world = world_of(Queue("a", weight=1), Queue("b", weight=4))
    world.job("a", 20)
    world.job("b", 20)
    world.cycle()
    assert (world.held("a"), world.held("b")) == (2, 8)


def test_undemanded_share_goes_to_queues_with_demand() -> None:
    world = world_of(Queue("a"), Queue("b"), Queue("c"))
    world.job("a", 1)
    world.job("b", 20)
    world.cycle()
    assert (world.held("a"), world.held("b")) == (1, 9)  # c asks for nothing


def test_level_by_level() -> None:
    # eng : ops = 3 : 1 of 16; of eng's 12 dev : ci = 1 : 2, but ci wants 5 only
    world = world_of(
        Queue("eng", weight=3),
        Queue("ops"),
        Queue("dev", parent="eng"),
        Queue("ci", parent="eng", weight=2),
        room=16,
    )
    for queue, tasks in (("ops", 20), ("dev", 20), ("ci", 5)):
        world.job(queue, tasks)
    world.cycle()
    assert (world.held("ops"), world.held("eng", "dev"), world.held("eng", "ci")) == (4, 7, 5)


def test_queue_starts_no_task_beyond_its_deserved() -> None:
    # 5 each of 10: three tasks of 2 would be 6
    world = world_of(Queue("a"), Queue("b"))
    world.job("a", 9, asks=(2, 0))
    world.job("b", 9)
    world.cycle()
    assert (world.held("a"), world.held("b")) == (4, 5)


def test_a_queue_with_all_it_deserves_is_overused() -> None:
    world = world_of(Queue("a"), Queue("b"))
    world.job("a", 9, running=5)
    world.job("b", 9)
    world.engine.prepare()
    a, b = world.engine.tree.root.children.values()
    plugin = plugin_of(world)
    assert plugin.overused(a) == "queue a already holds all that it deserves"
    assert plugin.overused(b) is None


def test_a_queue_that_deserves_the_cluster_is_left_to_the_nodes() -> None:
    world = world_of(Queue("a"), Queue("b"))
    world.job("a", 30)
    world.cycle()
    (a, _) = world.engine.tree.root.children.values()
    assert a.held[CPU] == 10
    assert plugin_of(world).overused(a) is None


def test_guarantees_stay_with_their_queues() -> None:
    world = world_of(Queue("a", guarantee=cpu(4)), Queue("b", weight=9))
    world.job("b", 20)
    world.cycle()
    assert world.held("b") == 6


def test_limits_hold_beside_weights() -> None:
    world = world_of(Queue("a", weight=9, capability=cpu(2)), Queue("b"))
    world.job("a", 20)
    world.job("b", 20)
    world.cycle()
    assert (world.held("a"), world.held("b")) == (2, 8)


def test_priority_of_queues_counts_first() -> None:
    world = world_of(Queue("a"), Queue("b", priority=5))
    order = world.engine.order
    world.job("a", 9)
    world.job("b", 9)
    world.engine.prepare()
    picked = order.next_job()
    assert picked is not None and picked.queue.name == "b"


def test_a_job_is_let_in_up_to_what_its_queue_may_hold() -> None:
    world = world_of(Queue("a", capability=cpu(5)), Queue("b"))
    world.job("b", 10, running=10, phase=JobPhase.RUNNING, min_member=10, min_resources=(10,))
    first = world.job("a", 0, phase=JobPhase.PENDING, min_resources=(5,))
    world.job("a", 0, phase=JobPhase.PENDING, min_resources=(1,))
    assert let_in(world) == {first}  # a deserves 5 of what b holds


def test_queue_does_not_reclaim_beyond_its_deserved() -> None:
    world = world_of(Queue("a"), Queue("b"))
    within = world.job("a", 9, running=4)
    world.job("b", 9, running=5)
    world.engine.prepare()
    plugin, leaf = plugin_of(world), world.engine.tree.jobs[within]
    assert plugin.preemptive(leaf, leaf.unit) is None
    world.engine.tree.charge(leaf, cpu(1), 9)
    assert plugin.preemptive(leaf, leaf.unit) == "queue a deserves cpu 5m now"
    world.engine.tree.uncharge(leaf, cpu(1), 9)


def test_queues_below_root_add_up() -> None:
    world = world_of(Queue("a", weight=3), Queue("b", weight=2), Queue("c", weight=2))
    for queue in "abc":
        world.job(queue, 30)
    world.engine.prepare()
    deserved = plugin_of(world).deserved
    parts: list[tuple[ShareNode, int]] = [(node, dict(items)[CPU]) for node, items in deserved.items()]
    # 10 by 3 : 2 : 2 = 4.29, 2.86, 2.86: the odd ones go to the largest fractions
    assert [part for _, part in parts] == [10, 4, 3, 3]


# --- configuration ----------------------------------------------------------------------------------------------------

TOGETHER = """\
actions: allocate
tiers:
- plugins:
  - name: {first}
- plugins:
  - name: gang
  - name: {second}
"""
DRF = "drf\n    enableHierarchy: true"


@pytest.mark.parametrize(("first", "second", "line"), [(DRF, "proportion", 8), ("proportion", DRF, 7)])
def test_two_orders_by_weight_are_refused(first: str, second: str, line: int) -> None:
    with pytest.raises(ConfigError) as refused:
        parse(TOGETHER.format(first=first, second=second))
    assert refused.value.line == line
    for name in ("drf", "proportion"):
        assert f'"{name}"' in refused.value.message
    assert "(line 4)" in refused.value.message and f"(line {line})" in refused.value.message


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (DRF + "\n    enableQueueOrder: false", "proportion"),
        (DRF, "proportion\n    enableQueueOrder: false"),
        ("drf", "proportion"),
        (DRF, "capacity"),
    ],
)
def test_config_with_single_queue_order_by_weight_is_accepted(first: str, second: str) -> None:
    parse(TOGETHER.format(first=first, second=second))


def parse(text: str) -> None:
    parse_config(text, known_plugins=["drf", "gang", "proportion", "capacity"], known_actions=["allocate"])
