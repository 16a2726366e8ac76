"""The condition of pending pods: its text, and whether autoscalers may act on it."""

from __future__ import annotations

import random

import pytest

from kubebase.label_selector import Requirement
from kubebase.resource_vector import Registry
from pumice.engine.actions import ACTIONS
from pumice.engine.config.scheduler_config import parse_config
from pumice.engine.engine import Engine
from pumice.engine.explain.pending_reason import UNSCHEDULABLE, PendingReason, PendingReasons
from pumice.engine.plugins.builtin import BUILT_IN
from pumice.engine.preemption.cooldown import NO_COOLDOWN
from pumice.model.hyper_nodes import NetworkTopology
from pumice.model.specs import (
    Attachment,
    Constraints,
    JobPhase,
    JobSpec,
    NodeSpec,
    NodeTerm,
    Queue,
    QueueState,
    Taint,
    TaskSpec,
    VolumeDemand,
    VolumeNodes,
)
from tests.support.taking import Shell

CPU = 1000
CONFIG = """
actions: "enqueue, allocate, backfill"
tiers:
- plugins: [{name: priority}, {name: gang}]
- plugins: [ORDER, {name: predicates}, {name: nodeorder}]
"""
SHARES = "{name: drf, enableHierarchy: true}, {name: capacity, enableHierarchy: true}"


def shell_of(order: str = SHARES) -> Shell:
    text = CONFIG.replace("ORDER", order)
    config = parse_config(text, known_plugins=BUILT_IN, known_actions=ACTIONS)
    return Shell(Engine(config, BUILT_IN, Registry(), NO_COOLDOWN), audited=False)


@pytest.fixture
def shell() -> Shell:
    """Three nodes of 4 cpu, and a queue q."""
    shell = shell_of()
    for name in ("n1", "n2", "n3"):
        node(shell, name)
    shell.child("q")
    return shell


def node(shell: Shell, name: str, cpu: int = 4, **more: object) -> None:
    shell.put(NodeSpec(name, (cpu * CPU, 2**40, 110), **more))  # type: ignore[arg-type]  # fields of a node


def job(
    shell: Shell, name: str, tasks: int = 1, *, cpu: int = 1, gang: int = 1, queue: str = "q", **more: object
) -> str:
    return shell.job(queue, [(cpu * CPU,)] * tasks, gang, name=name, **more)  # type: ignore[arg-type]  # its options


def reason(shell: Shell, key: str) -> PendingReason | None:
    shell.settle()
    return PendingReasons(shell.engine).of(shell.engine.state.jobs[key])


# ---- nodes ------------------------------------------------------------------------------------------------------


def test_nodes_are_counted_in_the_manner_of_kube_scheduler(shell: Shell) -> None:
    node(shell, "n3", taints=(Taint("dedicated", "db", "NoSchedule"),))
    message = "0/3 nodes are available: 2 Insufficient cpu, 1 node(s) had untolerated taint {dedicated: db}."
    assert reason(shell, job(shell, "large", cpu=5)) == PendingReason(UNSCHEDULABLE, message)


def test_a_node_that_lacks_two_resources_counts_for_both(shell: Shell) -> None:
    key = shell.job("q", [(5 * CPU, 2**41)], name="large")
    found = reason(shell, key)
    assert found == PendingReason(UNSCHEDULABLE, "0/3 nodes are available: 3 Insufficient cpu, 3 Insufficient memory.")


def test_unschedulable_and_unready_nodes_and_selectors(shell: Shell) -> None:
    node(shell, "n1", unschedulable=True)
    node(shell, "n2", ready=False)
    constraints = Constraints(node_selector=(("disk", "ssd"),))
    found = reason(shell, job(shell, "picky", constraints=constraints))
    assert found is not None and found.reason == UNSCHEDULABLE
    assert found.message == (
        "0/3 nodes are available: 1 node(s) didn't match Pod's node affinity/selector, "
        "1 node(s) were not ready, 1 node(s) were unschedulable."
    )


def test_what_other_plugins_say_of_nodes(shell: Shell) -> None:
    shell.put(JobSpec("ns", "near", "q", topology=NetworkTopology(highest_tier=2), phase=JobPhase.INQUEUE))
    shell.put(TaskSpec("ns", "near-0", (CPU, 0, 1), job="ns/near"))
    found = reason(shell, "ns/near")
    message = "0/3 nodes are available: 3 node(s) rejected: in no HyperNode of tier <= 2."
    assert found == PendingReason(UNSCHEDULABLE, message)


def test_full_nodes_have_too_many_pods(shell: Shell) -> None:
    for name in ("n1", "n2", "n3"):
        shell.put(NodeSpec(name, (4 * CPU, 2**40, 1)))
    job(shell, "first", 3)
    shell.settle()
    found = reason(shell, job(shell, "more"))
    assert found == PendingReason(UNSCHEDULABLE, "0/3 nodes are available: 3 Too many pods.")


def test_a_gang_says_how_many_of_its_pods_fit(shell: Shell) -> None:
    found = reason(shell, job(shell, "large", 13, gang=13))
    message = "3/3 nodes are available, but only for 12 of the 13 pods that must start together."
    assert found == PendingReason(UNSCHEDULABLE, message)
    whole = reason(shell, job(shell, "whole", 2, cpu=5, gang=2))
    message = "0/3 nodes are available: 3 Insufficient cpu. 2 pods must start together."
    assert whole == PendingReason(UNSCHEDULABLE, message)


def test_pending_reason_without_nodes_is_unschedulable(shell: Shell) -> None:
    empty = shell_of()
    empty.child("q")
    found = reason(empty, job(empty, "early"))
    assert found == PendingReason(UNSCHEDULABLE, "no nodes available to schedule pods")


def test_a_job_that_runs_has_nothing_to_say(shell: Shell) -> None:
    assert reason(shell, job(shell, "small")) is None


# ---- volumes ----------------------------------------------------------------------------------------------------


def wants_volume(**demand: object) -> Constraints:
    return Constraints(volumes=VolumeDemand(**demand))  # type: ignore[arg-type]  # fields of a demand


def test_claim_that_is_missing_is_no_reason_for_nodes(shell: Shell) -> None:
    constraints = wants_volume(waits_for='persistentvolumeclaim "data" not found')
    found = reason(shell, job(shell, "early", constraints=constraints))
    message = '0/3 nodes are available: persistentvolumeclaim "data" not found.'
    assert found == PendingReason("WaitingForVolume", message)


def test_nodes_that_cannot_use_a_volume_are_counted(shell: Shell) -> None:
    here = NodeTerm(fields=(Requirement("metadata.name", "In", ("n1",)),))
    volume = VolumeNodes((here,), "node(s) didn't match PersistentVolume's node affinity")
    found = reason(shell, job(shell, "local", cpu=5, constraints=wants_volume(nodes=(volume,))))
    elsewhere = "2 node(s) didn't match PersistentVolume's node affinity"
    message = f"0/3 nodes are available: {elsewhere}, 1 Insufficient cpu."
    assert found == PendingReason(UNSCHEDULABLE, message)


def test_a_larger_cluster_attaches_more_volumes(shell: Shell) -> None:
    for name in ("n1", "n2", "n3"):
        node(shell, name, volume_limits=(("disk", 1),))
    attaches = wants_volume(attached=(Attachment("disk", private=1),))
    job(shell, "first", 3, constraints=attaches)
    shell.settle()
    found = reason(shell, job(shell, "fourth", constraints=attaches))
    assert found == PendingReason(UNSCHEDULABLE, "0/3 nodes are available: 3 node(s) exceed max volume count.")


# ---- queues: no node would help ----------------------------------------------------------------------------------


def test_a_queue_at_its_capability_is_no_reason_for_nodes(shell: Shell) -> None:
    shell.child("limited", capability=((0, 2 * CPU),))
    job(shell, "first", 2, queue="limited")
    shell.settle()
    found = reason(shell, job(shell, "more", queue="limited"))
    message = "Queue root/limited holds cpu 2 of its capability of 2, and the job requests 1 more."
    assert found == PendingReason("QueueLimit", message)


def test_also_if_there_is_no_room_either(shell: Shell) -> None:
    shell.child("limited", capability=((0, 2 * CPU),))
    job(shell, "first", 2, queue="limited")
    shell.settle()
    job(shell, "rest", 10)
    found = reason(shell, job(shell, "more", queue="limited"))
    assert found is not None and found.reason == "QueueLimit"


def test_a_gang_larger_than_the_capability(shell: Shell) -> None:
    shell.child("limited", capability=((0, 2 * CPU),))
    found = reason(shell, job(shell, "large", 3, gang=3, queue="limited"))
    message = "The job must start with cpu 3; the capability of queue root/limited is 2."
    assert found == PendingReason("QueueLimit", message)


def test_a_share_that_is_used_up(shell: Shell) -> None:
    by_weight = shell_of("{name: proportion}, {name: drf}")
    node(by_weight, "n1", 4)
    by_weight.child("q", weight=1)
    by_weight.child("other", weight=1)
    job(by_weight, "first", 4, queue="other", cpu=1)
    job(by_weight, "second", 2)
    job(by_weight, "third", 4)
    for key in ("ns/first", "ns/third"):
        found = reason(by_weight, key)
        assert found is not None and found.reason == "WaitingForShare", key


@pytest.mark.parametrize("state", [QueueState.CLOSED, QueueState.CLOSING, QueueState.PAUSED])
def test_a_queue_that_is_not_open(shell: Shell, state: QueueState) -> None:
    shell.child("shut", state=state)
    found = reason(shell, job(shell, "late", queue="shut"))
    assert found == PendingReason(f"Queue{state.value}", f"Queue shut is {state.value}.")


def test_queues_that_take_no_jobs(shell: Shell) -> None:
    shell.child("parent")
    shell.child("leaf", "parent")
    assert reason(shell, job(shell, "lost", queue="absent")) == PendingReason(
        "QueueNotFound", "Queue absent does not exist."
    )
    assert reason(shell, job(shell, "high", queue="parent")) == PendingReason(
        "QueueNotLeaf", "Queue root/parent is not a leaf queue: only leaf queues start jobs."
    )


def test_guarantees_of_others_are_a_reason_for_nodes(shell: Shell) -> None:
    shell.child("vip", guarantee=((0, 8 * CPU),))
    job(shell, "first", 4)
    shell.settle()
    found = reason(shell, job(shell, "more"))
    assert found is not None and found.reason == UNSCHEDULABLE and "guaranteed" in found.message


def test_a_fifo_queue_waits_like_its_head(shell: Shell) -> None:
    shell.child("line", fifo=True)
    job(shell, "head", cpu=5, queue="line")
    found = reason(shell, job(shell, "next", queue="line"))
    assert found == PendingReason(UNSCHEDULABLE, "Queue root/line is FIFO, and job ns/head is at its head.")
    shell.child("limited", fifo=True, capability=((0, CPU),))
    job(shell, "one", queue="limited")
    job(shell, "two", queue="limited")
    found = reason(shell, job(shell, "three", queue="limited"))
    assert found == PendingReason("QueueLimit", "Queue root/limited is FIFO, and job ns/two is at its head.")


# ---- jobs ---------------------------------------------------------------------------------------------------------


def test_a_gang_without_all_its_pods(shell: Shell) -> None:
    found = reason(shell, job(shell, "few", 2, gang=5))
    assert found is not None and found.reason == "WaitingForGang" and "2 of 5 required pods" in found.message


def test_pods_without_a_podgroup(shell: Shell) -> None:
    shell.put(TaskSpec("ns", "p", (CPU, 0, 1), job="ns/absent"))
    assert reason(shell, "ns/absent") == PendingReason("PodGroupNotFound", "PodGroup ns/absent does not exist.")


@pytest.mark.parametrize(("capability", "expected"), [((), UNSCHEDULABLE), (((0, 14 * CPU),), "QueueLimit")])
def test_a_job_that_is_not_admitted(capability: tuple[tuple[int, int], ...], expected: str) -> None:
    shell = shell_of("{name: overcommit}, {name: capacity, enableHierarchy: true}")
    for name in ("n1", "n2", "n3", "n4"):
        node(shell, name)
    shell.put(Queue("q", 1, parent="root", capability=capability))
    job(shell, "first", 12, gang=12)
    shell.settle()
    shell.put(JobSpec("ns", "more", "q", 9, 8, phase=JobPhase.PENDING, min_resources=(8 * CPU, 0, 0)))
    for number in range(8):
        shell.put(TaskSpec("ns", f"more-t-{number}", (CPU, 0, 1), job="ns/more", created=9))
    found = reason(shell, "ns/more")
    assert found is not None and found.reason == expected
    assert found.message.startswith("The job is not admitted to queue root/q: ")


# ---- what autoscalers make of it ----------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(60))
def test_nodes_help_exactly_those_that_ask_for_them(seed: int) -> None:
    chance = random.Random(seed)
    shell = shell_of()
    for number in range(chance.randint(1, 3)):
        node(shell, f"n{number}", chance.randint(1, 4))
    for name in "abc":
        limit = ((0, chance.randint(1, 6) * CPU),) if chance.random() < 0.6 else ()
        shell.child(name, capability=limit, fifo=chance.random() < 0.3)
    for number in range(chance.randint(3, 7)):
        tasks = chance.randint(1, 4)
        job(
            shell,
            f"j{number}",
            tasks,
            cpu=chance.randint(1, 3),
            gang=chance.randint(1, tasks),
            queue=chance.choice("abc"),
        )
    shell.settle()
    jobs = shell.engine.state.jobs
    waiting = {key: len(found.tasks) - found.running for key, found in jobs.items() if found.pending}
    reasons = PendingReasons(shell.engine)
    said = {key: reasons.of(jobs[key]) for key in waiting}
    assert None not in said.values()
    for number in range(8):
        node(shell, f"added{number}", 64)
    shell.settle()
    started = {key for key, before in waiting.items() if len(jobs[key].tasks) - jobs[key].running < before}
    asking = {key for key, found in said.items() if found is not None and found.reason == UNSCHEDULABLE}
    assert started <= asking
    assert {shell.queue_of[key] for key in asking} == {shell.queue_of[key] for key in started}
