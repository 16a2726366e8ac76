"""proportion in the engine: the cluster by weight, level by level; never together with H-DRF's order."""

from __future__ import annotations

import random

import pytest

from kubebase.resource_vector import CPU, MEMORY
from pumice.engine.config.scheduler_config import ConfigError, parse_config
from pumice.engine.fairness.share_tree.share_node import ShareNode
from pumice.engine.plugins.builtin.proportion import ProportionPlugin
from pumice.model.specs import JobPhase, Queue
from tests.support.queue_worlds import QueueWorld, cpu, let_in
from tests.support.taking import Shell, taking_engine


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


def test_queue_starts_no_task_beyond_its_deserved_while_another_waits_within_its_own() -> None:
    # 4 each of 12. c holds 7, a 2, and 3 are idle. The gang of 4 of b is within what b deserves and waits for one more.
    # With a task of 3 a would hold 5, so it may not use them.
    world = world_of(Queue("a"), Queue("b"), Queue("c"), room=12)
    world.job("a", 2, running=2)
    world.job("a", 1, asks=(3, 0))
    world.job("b", 4, min_member=4)
    ends = world.job("c", 9, running=7)
    world.cycle()
    assert (world.held("a"), world.held("b"), world.held("c")) == (2, 0, 7)
    world.finish(ends, 1)
    world.cycle()
    assert (world.held("a"), world.held("b"), world.held("c")) == (2, 4, 6)


def test_what_no_unit_fits_within_its_deserved_is_lent() -> None:
    # 5 each of 10: three tasks of 2 would be 6, so a can't use its last cpu. No waiting unit is within what its queue
    # deserves, and b, whose tasks ask for 1, borrows it.
    world = world_of(Queue("a"), Queue("b"))
    world.job("a", 9, asks=(2, 0))
    world.job("b", 9)
    world.cycle()
    assert (world.held("a"), world.held("b")) == (4, 6)


def test_gangs_larger_than_what_their_queues_deserve_start_one_after_another() -> None:
    # 5 each of 10, gangs of 6
    world = world_of(Queue("a"), Queue("b"))
    first = world.job("a", 6, min_member=6)
    world.job("b", 6, min_member=6)
    world.cycle()
    assert (world.held("a"), world.held("b")) == (6, 0)
    world.finish(first, 6)
    world.cycle()
    assert (world.held("a"), world.held("b")) == (0, 6)


def test_nothing_is_lent_of_what_a_job_waits_for_that_deserves_it() -> None:
    # b deserves memory and waits for it; that keeps no cpu from a
    world = QueueWorld(Queue("a"), Queue("b"), room=10, memory=10, policy="proportion")
    world.job("a", 4, running=4, asks=(1, 1))
    world.job("b", 5, min_member=5, asks=(0, 1))
    world.job("b", 2, running=2, asks=(0, 1))
    world.job("a", 9, asks=(1, 0))
    world.job("b", 9, asks=(1, 0))
    world.job("a", 9, asks=(1, 1))
    world.cycle()
    assert world.held("a") + world.held("b") == 10
    memory = world.engine.tree.root.held[MEMORY]
    assert memory == 4 + 2  # 4 idle: the gang of 5 is short of one, and a may not use them


def test_hard_limits_do_not_give_way() -> None:
    world = world_of(Queue("a", capability=cpu(5)), Queue("b", guarantee=cpu(4)))
    world.job("a", 6, min_member=6)
    world.job("b", 7, min_member=7)
    world.cycle()
    assert (world.held("a"), world.held("b")) == (0, 7)


def test_lent_capacity_is_reclaimed_by_a_unit_that_its_queue_deserves() -> None:
    shell = Shell(taking_engine("proportion", actions="allocate, backfill, reclaim"))
    shell.node("pool", 8, 8)
    for queue in "ab":
        shell.queue(f"root/{queue}")
    shell.job("a", [(1, 0)] * 5, 5)
    shell.job("b", [(1, 0)] * 5, 5)
    shell.settle()
    assert (shell.running("a"), shell.running("b")) == (5, 0)
    shell.job("b", [(1, 0)] * 4, 4)
    shell.settle()
    assert (shell.running("a"), shell.running("b")) == (0, 4)  # 4 are left, too few for a gang of 5
    assert len(shell.evictions) == 5


def idle_for_nobody(shell: Shell) -> list[str]:
    """Waiting units that would fit one idle pool, while nobody waits for their resources that deserves them."""
    engine = shell.engine
    engine.prepare()
    plugin = next(plugin for _, plugin in engine.policy.plugins if plugin.name == "proportion")
    assert isinstance(plugin, ProportionPlugin)
    waiting = [leaf for leaf in engine.tree.jobs.values() if leaf.unit is not None]
    within = [leaf for leaf in waiting if plugin.beyond_deserved(leaf.queue, leaf.unit) is None]
    awaited = {j for leaf in within for j, _ in leaf.unit.ask}
    idle = [total - held for total, held in zip(engine.state.capacity, engine.tree.root.held, strict=True)]
    return [leaf.name for leaf in waiting if all(amount <= idle[j] and j not in awaited for j, amount in leaf.unit.ask)]


@pytest.mark.parametrize("seed", range(30))
def test_at_rest_nothing_is_idle_that_nobody_deserves(seed: int) -> None:
    rng = random.Random(seed)
    shell = Shell(taking_engine("proportion"))
    shell.node("pool", rng.randint(6, 20), rng.randint(6, 20))
    for queue in "abc":
        shell.queue(f"root/{queue}", f"1/{rng.choice([1, 1, 2, 3])}")
    for _ in range(3):
        for _ in range(rng.randint(1, 5)):
            tasks = rng.randint(1, 8)
            asks = [rng.choice([(1, 0), (1, 1), (0, 1), (3, 1)])] * tasks
            shell.job(rng.choice("abc"), asks, rng.choice([1, tasks]))
        last = shell.settle(60)
        assert last < 50  # evictions have stopped
        assert idle_for_nobody(shell) == []
        running = sorted(key for key, task in shell.engine.state.tasks.items() if task.status.held)
        for key in running[:: rng.randint(2, 4)]:
            shell.end(key)


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
