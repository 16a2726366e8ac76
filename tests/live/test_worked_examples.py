"""The worked examples of the rules through the live system: kubectl and vsub in, pods that run out.

Each has a cluster of its own, with one node as large as the example says. Taking back has no cooldown here, so that
nobody has to wait for minutes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from tests.support.end_to_end import (
    BY_QUANTITY,
    LIMITED,
    VOLCANO,
    Counts,
    Object,
    World,
    by_path,
    gang,
    namespace,
    namespace_of,
    queue,
    queue_of,
    user_of,
)

# --- section 3: H-DRF ------------------------------------------------------------------------------------------------


def test_a_complementary_sibling_does_not_starve_anybody(world: World) -> None:
    # 10 cpu, 10 gpu. n1 and n2 have half of what they compete for: cpu 5 and 5. n22 is alone with gpu: 10.
    world.up(cpu=10, **{"nvidia.com/gpu": 10})
    gpu = {"nvidia.com/gpu": 1}
    world.apply(
        by_path("root/n1/n11", "1/1/1"), by_path("root/n2/n21", "1/1/1"), by_path("root/n2/n22", "1/1/1"),
        *gang("a", "n11", 12), *gang("b", "n21", 12), *gang("c", "n22", 12, **gpu),
    )  # fmt: skip
    world.scheduler()
    world.settles({"n11": 5, "n21": 5, "n22": 10}, queue_of)
    # And it stays so when tasks end and others start: plain sums would give n21's part to n11, little by little.
    for job, queue_name in (("b", "n21"), ("a", "n11")):
        pods = [f"{job}-{number}" for number in range(12)]
        placed = [p for p in world.kubectl.object("pods", *pods)["items"] if p["spec"].get("nodeName")][:3]
        names = [pod["metadata"]["name"] for pod in placed]
        world.kubectl("delete", "pod", *names, "--grace-period=0", "--force")
        world.apply(*(each for each in gang(job, queue_name, 12) if each["metadata"]["name"] in names))
        world.settles({"n11": 5, "n21": 5, "n22": 10}, queue_of)


@pytest.mark.long
def test_blocked_branches_leave_the_rest_to_the_others(world: World) -> None:
    # 30 cpu, 30 gpu. Three branches compete for cpu: 10 each. n32 and n41 share gpu, which nobody else wants: 15 each.
    world.up(cpu=30, **{"nvidia.com/gpu": 30})
    gpu = {"nvidia.com/gpu": 1}
    paths = ("root/n1/n11", "root/n2/n21", "root/n3/n31", "root/n3/n32", "root/n4/n41")
    jobs = [*gang("a", "n11", 31), *gang("b", "n21", 31), *gang("c", "n31", 31)]
    jobs += [*gang("d", "n32", 31, **gpu), *gang("e", "n41", 31, **gpu)]
    world.apply(*(by_path(path, "1/1/1") for path in paths), *jobs)
    world.scheduler()
    world.settles({"n11": 10, "n21": 10, "n31": 10, "n32": 15, "n41": 15}, queue_of)


@pytest.mark.long
def test_weights_and_two_resources(world: World) -> None:
    # 9 cpu, 18 GiB. A (weight 2) asks for 1 and 4, B for 3 and 1. 54/13 and 18/13 tasks; whole tasks: 4 and 1.
    world.up(cpu=9, memory="18Gi")
    world.apply(
        queue("a", weight=2),
        queue("b"),
        *gang("a", "a", 9, cpu=1, memory="4Gi"),
        *gang("b", "b", 9, cpu=3, memory="1Gi"),
    )
    world.scheduler()
    world.settles({"a": 4, "b": 1}, queue_of)


@pytest.mark.long
def test_a_company(world: World) -> None:
    # 60 : 40, below it 70 : 30 and 50 : 50; of 50 cpu that is 21, 9, 10 and 10.
    world.up(cpu=50)
    tree = [queue("ads", weight=60), queue("ads-prod", "ads", weight=70), queue("ads-test", "ads", weight=30)]
    tree += [queue("dev", weight=40), queue("dev-prod", "dev", weight=50), queue("dev-test", "dev", weight=50)]
    leaves = ("ads-prod", "ads-test", "dev-prod", "dev-test")
    world.apply(*tree, *(each for name in leaves for each in gang(name, name, 25)))
    world.scheduler()
    world.settles({"ads-prod": 21, "ads-test": 9, "dev-prod": 10, "dev-test": 10}, queue_of)


# --- section 6: capacity ---------------------------------------------------------------------------------------------


def test_quantities_on_a_tree_and_what_was_lent_comes_back(world: World) -> None:
    # 16 cpu. eng deserves 10 and may hold 14; below it prod is guaranteed 2 and deserves 6, dev deserves 4 and may hold
    # 12. sci deserves 6. While prod sleeps dev has 11: 2 of eng's 14 stay reserved, and sci runs all it wants, 3 (14 of
    # 16: nobody may take the rest). When prod wakes it has 2 at once, and 4 more, up to the 6 it deserves, from dev.
    world.up(cpu=16)

    def quantities(**lists: int) -> Object:
        nested = {"guarantee": lambda cpu: {"resource": {"cpu": cpu}}}
        return {name: nested.get(name, lambda cpu: {"cpu": cpu})(cpu) for name, cpu in lists.items()}

    world.apply(
        queue("eng", **quantities(deserved=10, capability=14)), queue("sci", **quantities(deserved=6)),
        queue("prod", "eng", **quantities(guarantee=2, deserved=6)),
        queue("dev", "eng", **quantities(deserved=4, capability=12)), *gang("s", "sci", 3),
    )  # fmt: skip
    world.scheduler(BY_QUANTITY)
    world.vsub("dev", "-q", "dev", "-r", "20", "-R", "cpu=1")
    world.settles({"dev": 11, "sci": 3}, queue_of)
    world.vsub("prod", "-q", "prod", "-r", "10", "-R", "cpu=1")
    world.settles({"prod": 6, "dev": 7, "sci": 3}, queue_of)
    world.kubectl.until(lambda: world.says("eng")["allocated"]["cpu"] == "13")


# --- section 7: namespaces -------------------------------------------------------------------------------------------


def namespaces(
    world: World, queues: Counts, weights: Counts, asks: Mapping[str, tuple[str, int]], **first: Any
) -> None:
    world.up(cpu=16)
    objects = [each for name, weight in weights.items() for each in namespace(name, weight)]
    objects += [queue(name, weight=weight, **first.get(name, {})) for name, weight in queues.items()]
    for space, (leaf, pods) in asks.items():
        objects += gang("work", leaf, pods, namespace=space)
    world.apply(*objects)


def test_namespaces_with_weights_on_both_levels(world: World) -> None:
    # q1 has 4 of 16, 3 : 1 for ns1 and ns2. q2 has 12; ns4 wants only 2 of its 9, ns3 has the rest.
    asks = {"ns1": ("q1", 5), "ns2": ("q1", 10), "ns3": ("q2", 10), "ns4": ("q2", 2)}
    namespaces(world, {"q1": 1, "q2": 3}, {"ns1": 3, "ns2": 1, "ns3": 2, "ns4": 6}, asks)
    world.scheduler()
    world.settles({"ns1": 3, "ns2": 1, "ns3": 10, "ns4": 2}, namespace_of)


@pytest.mark.long
def test_namespaces_that_are_equal(world: World) -> None:
    # Half of 16 for each queue. In q1 half each; in q2 ns4 wants 2, ns3 has the other 6.
    asks = {"ns1": ("q1", 5), "ns2": ("q1", 10), "ns3": ("q2", 10), "ns4": ("q2", 2)}
    namespaces(world, {"q1": 1, "q2": 1}, dict.fromkeys(asks, 1), asks)
    world.scheduler()
    world.settles({"ns1": 4, "ns2": 4, "ns3": 6, "ns4": 2}, namespace_of)


@pytest.mark.long
def test_namespaces_have_on_loan_what_another_queue_leaves_until_it_wants_it(world: World) -> None:
    # All 16 while q1 sleeps: 2 : 6 would be 4 and 12. Then q1 has its 4 back: 12 by 2 : 6 is 3 and 9.
    asks = {"ns1": ("q2", 5), "ns2": ("q2", 20)}
    namespaces(world, {"q1": 1, "q2": 3}, {"ns1": 2, "ns2": 6, "other": 1}, asks)
    world.scheduler()
    world.settles({"ns1": 4, "ns2": 12}, namespace_of)
    world.vsub("owner", "-q", "q1", "-r", "8", "-R", "cpu=1", namespace="other")
    world.settles({"ns1": 3, "ns2": 9, "other": 4}, namespace_of)


@pytest.mark.long
def test_a_guarantee_is_not_lent_to_namespaces(world: World) -> None:
    # q1 is guaranteed 4 of 16; the other 12 by 2 : 6.
    asks = {"ns1": ("q2", 5), "ns2": ("q2", 20)}
    guaranteed = {"guarantee": {"resource": {"cpu": 4}}}
    namespaces(world, {"q1": 1, "q2": 3}, {"ns1": 2, "ns2": 6}, asks, q1=guaranteed)
    world.scheduler(LIMITED)
    world.settles({"ns1": 3, "ns2": 9}, namespace_of)


# --- section 8: users ------------------------------------------------------------------------------------------------


def test_users_of_a_queue_share_it_and_nobody_has_more_than_a_quarter_if_there_are_many(world: World) -> None:
    # lab deserves 12 of 24 cpu, the other queue has the rest. minUserLimitPercent 25: two users half of it each, three
    # a third, four a quarter.
    world.up(cpu=24)
    world.apply(queue("lab", minUserLimitPercent=25, deserved={"cpu": 12}), queue("ops"))
    world.scheduler()
    world.vsub("erins", "-q", "ops", "-r", "24", "-R", "cpu=1", "--user", "erin")
    world.settles({"erin": 24}, user_of)
    users = ("alice", "bob", "carol", "dave")
    for number, user in enumerate(users, 1):
        world.vsub(f"{user}s", "-q", "lab", "-r", "12", "-R", "cpu=1", "--user", user)
        world.settles({"erin": 12, **dict.fromkeys(users[:number], 12 // number)}, user_of)


@pytest.mark.long
def test_user_limit_factor_caps_allocation_of_user(world: World) -> None:
    # dev deserves 12 of 24; userLimitFactor 0.5: dave has 6 of them, alone or not. The other queue has the rest.
    world.up(cpu=24)
    world.apply(queue("dev", userLimitFactor=0.5, deserved={"cpu": 12}), queue("ops"))
    world.scheduler()
    world.vsub("daves", "-q", "dev", "-r", "12", "-R", "cpu=1", "--user", "dave")
    world.settles({"dave": 6}, user_of)
    world.vsub("erins", "-q", "ops", "-r", "24", "-R", "cpu=1", "--user", "erin")
    world.settles({"dave": 6, "erin": 18}, user_of)


# --- section 9: taking back ------------------------------------------------------------------------------------------


def test_a_queue_that_wakes_takes_from_its_sibling_alone(world: World) -> None:
    # Two organisations with half of 16 cpu each, two queues in each, all weights 1. queue4 sleeps: 4, 4, 8, 0. When it
    # asks it has its quarter from queue3; org-a keeps its half: 4, 4, 4, 4.
    world.up(cpu=16)
    tree = [{"name": "org-a", "hierarchy": [{"name": "queue1"}, {"name": "queue2"}]}]
    tree += [{"name": "org-b", "hierarchy": [{"name": "queue3"}, {"name": "queue4"}]}, {"name": "default"}]
    root = {"apiVersion": VOLCANO, "kind": "Queue", "metadata": {"name": "root"}, "spec": {"hierarchy": tree}}
    world.apply(root)
    world.kubectl.until(lambda: "queue4" in world.kubectl("get", "queues", "-o", "name"))
    world.scheduler()
    for number in (1, 2, 3):
        world.vsub(f"queue{number}", "-q", f"queue{number}", "-r", "16", "-R", "cpu=1")
    world.settles({"queue1": 4, "queue2": 4, "queue3": 8}, queue_of)
    before = {pod: node for pod, node in placed(world).items() if not pod.startswith("queue3")}
    world.vsub("queue4", "-q", "queue4", "-r", "16", "-R", "cpu=1")
    world.settles({"queue1": 4, "queue2": 4, "queue3": 4, "queue4": 4}, queue_of)
    after = placed(world)
    assert {pod: after.get(pod) for pod in before} == before, "nobody in org-a has moved"


def placed(world: World) -> dict[str, str]:
    """Which pod is on a node, by name and with its uid."""
    pods = world.kubectl.object("pods")["items"]
    return {pod["metadata"]["name"]: pod["metadata"]["uid"] for pod in pods if pod["spec"].get("nodeName")}
