"""Pending pods say why they wait, as ``kubectl describe`` shows it and as cluster autoscalers read it."""

from __future__ import annotations

from collections.abc import Mapping

from tests.support.autoscalers import is_provisionable, needs_a_node, scheduled
from tests.support.end_to_end import LIMITED, Object, World, gang, job_of, queue

CONFIG = LIMITED.replace(", reclaim, preempt", "")


def conditions(world: World) -> Mapping[str, tuple[str, str]]:
    """Reason and message of the pods that are not scheduled, by name."""
    found = {pod["metadata"]["name"]: scheduled(pod) for pod in world.pods()}
    return {name: (one["reason"], one["message"]) for name, one in found.items() if one.get("status") == "False"}


def need_nodes(world: World) -> set[str]:
    pods = world.pods()
    assert [needs_a_node(pod) for pod in pods] == [is_provisionable(pod) for pod in pods]
    return {pod["metadata"]["name"] for pod in pods if needs_a_node(pod)}


def pod_of(world: World, name: str) -> Object:
    found: Object = world.kubectl.object("pod", name)
    return found


def test_pods_say_why_they_wait_and_autoscalers_act_on_the_right_ones(world: World) -> None:
    world.up(nodes=2, cpu=4)
    world.scheduler(CONFIG)
    world.apply(queue("small", capability={"cpu": 2}), queue("shut"))
    world.becomes("Open", lambda: world.says("shut").get("state"))
    world.apply(*gang("first", "small", 2, least=2), *gang("whole", "default", 5, least=5))
    world.settles({"first": 2, "whole": 5}, job_of)
    world.vcctl("queue", "operate", "shut", "-a", "pause")
    world.becomes("Paused", lambda: world.says("shut")["state"])

    world.apply(*gang("large", "default", 3, least=3), *gang("one", "default", 1, cpu=2))
    world.apply(*gang("limited", "small", 1), *gang("late", "shut", 1))
    full = "0/2 nodes are available: 2 Insufficient cpu."
    together = "1/2 nodes are available, but only for 1 of the 3 pods that must start together: 1 Insufficient cpu."
    limit = "Queue root/small holds cpu 2 of its capability of 2, and the job requests 1 more."
    expected = {
        **{f"large-{number}": ("Unschedulable", together) for number in range(3)},
        "one-0": ("Unschedulable", full),
        "limited-0": ("QueueLimit", limit),
        "late-0": ("QueuePaused", "Queue shut is Paused."),
    }
    world.becomes(expected, lambda: conditions(world))
    assert need_nodes(world) == {"large-0", "large-1", "large-2", "one-0"}

    # As people see it. The Event of a job of several pods is on its podgroup.
    world.becomes(1, lambda: len(failures(world, "pod", "one-0")))
    assert failures(world, "pod", "one-0")[0].endswith(f" pumice {full}")
    world.becomes(1, lambda: len(failures(world, "podgroup", "large")))
    assert "PodScheduled False" in described(world, "pod", "large-0")
    assert failures(world, "pod", "large-0") == []

    # Once bound, the condition says nothing but that.
    world.kubectl("delete", "pod", *(f"whole-{number}" for number in range(5)), "--wait=false")
    world.settles({"first": 2, "large": 3, "one": 1}, job_of)
    world.becomes({"limited-0", "late-0"}, lambda: set(conditions(world)))
    bound = scheduled(pod_of(world, "one-0"))
    assert bound["status"] == "True" and not bound.get("reason") and not bound.get("message")
    assert need_nodes(world) == set()


def described(world: World, kind: str, name: str) -> list[str]:
    """The lines of ``kubectl describe``, with single spaces."""
    return [" ".join(line.split()) for line in world.kubectl("describe", kind, name).splitlines()]


def failures(world: World, kind: str, name: str) -> list[str]:
    """The Events FailedScheduling among them."""
    return [line for line in described(world, kind, name) if line.startswith("Warning FailedScheduling")]
