"""Jobs in real containers, with Pumice installed by ``pumice install``."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.node.cluster import NODES, SLOTS, NodeCluster, is_ready
from tests.node.installation import (
    CHECKOUT_IMAGE,
    COMPONENTS,
    CORE,
    ENDLESS,
    NOTES,
    STUBBORN,
    WORK,
    Installation,
    ending,
    names,
    nodes,
    saving,
    uids,
)
from tests.node.web_page import viewer, web_page

pytestmark = pytest.mark.node
ALL = SLOTS * len(NODES)
HALF = ALL // 2
FAILED = "PodFailed"
OUT_OF_SERVICE = "node.kubernetes.io/out-of-service"
CONFIGURATION = """\
actions: "enqueue, allocate, backfill, reclaim, preempt"
tiers:
- plugins: [{name: priority}, {name: gang}, {name: conformance}]
- plugins: [{name: drf, enableHierarchy: true}, {name: predicates}, {name: nodeorder}, {name: overcommit}]
configurations:
- {name: reclaim, arguments: {reclaim.patience: 1, reclaim.minRuntime: 1}}
"""


@pytest.fixture(scope="module")
def installation(real_nodes: NodeCluster, work_folder: Path) -> Iterator[Installation]:
    installation = Installation(real_nodes)
    configuration = work_folder / "scheduler.yaml"
    configuration.write_text(CONFIGURATION)
    installation.command("install", "--image", CHECKOUT_IMAGE, "--config", str(configuration), "--wait", "150")
    installation.create_namespace()
    yield installation
    installation.remove()


@pytest.fixture
def pumice(installation: Installation) -> Iterator[Installation]:
    yield installation
    installation.clear()


def test_install_runs_the_image_of_the_checkout(pumice: Installation) -> None:
    assert pumice.images() == {name: {CHECKOUT_IMAGE} for name in COMPONENTS}


@pytest.mark.parametrize("component", COMPONENTS)
def test_component_has_no_rights_on_its_node(pumice: Installation, component: str) -> None:
    """What the deployment asks for is in force: no root, no capabilities, system calls filtered, nothing written."""
    look = "print(open('/proc/1/status').read()); open('/usr/written', 'w')"
    status, said = pumice.home.tried("exec", f"deployment/pumice-{component}", "--", "python", "-c", look)
    facts = dict(line.split(":\t") for line in said.splitlines() if ":\t" in line)
    assert facts["Uid"].split() == ["65532"] * 4
    assert (int(facts["CapEff"], 16), facts["NoNewPrivs"], facts["Seccomp"]) == (0, "1", "2")
    assert status == 1 and "Read-only file system" in said


def test_job_runs_in_a_container_and_completes(pumice: Installation) -> None:
    pumice.submit("hello", "print('hello from a container')")
    assert pumice.await_phase("hello", "Completed")["succeeded"] == 1
    assert pumice.kubectl("logs", "hello-task-0") == "hello from a container\n"


# ---- the web page ----------------------------------------------------------------------------------------------


def test_page_shows_the_cluster_and_says_why_a_job_waits(pumice: Installation) -> None:
    pumice.submit("running", ENDLESS, ALL - 1)
    pumice.await_running("running", ALL - 1)
    pumice.submit("waiting", ENDLESS, 2)
    with viewer(pumice, "operator", "cluster-admin", everywhere=True) as token, web_page(pumice) as page:
        assert "<title>Pumice</title>" in page.text("/jobs/work/waiting")
        page.await_job("running", token, running=ALL - 1)
        page.await_job("waiting", token, running=0)
        tree = page.document("/api/tree", token)
        assert {row["name"] for row in tree["queues"]} >= {"root", "default"}
        assert {row["name"] for row in page.document("/api/nodes", token)["nodes"]} == set(NODES)
        why = page.document(f"/api/jobs/{WORK}/waiting/why", token)  # a command of its own in the page's container
        assert (why["cause"], why["pending"]) == ("room", 2), why


def test_page_shows_users_their_own_namespaces(pumice: Installation) -> None:
    pumice.submit("running", ENDLESS)
    pumice.await_running("running", 1)
    with viewer(pumice, "reader", "view") as token, web_page(pumice) as page:
        page.await_job("running", token, running=1)
        about = page.document("/api/about", token)["viewer"]
        assert (about["namespaces"], about["canListQueues"], about["canListNodes"]) == ([WORK], False, False)
        assert (page.status("/api/tree", token), page.status("/api/about", "forged")) == (403, 401)


# ---- gangs -------------------------------------------------------------------------------------------------


def test_gang_takes_no_room_before_it_fits_whole(pumice: Installation) -> None:
    pumice.submit("first", ENDLESS, ALL - 1)
    assert set(nodes(pumice.await_running("first", ALL - 1))) == set(NODES)
    pumice.submit("second", ENDLESS, 2)
    pumice.remain_pending("second")
    pumice.submit("single", ENDLESS)
    pumice.await_running("single", 1)  # one slot was free all the time
    pumice.delete("first")
    pumice.await_running("second", 2)
    assert pumice.refused() == []


# ---- reclaim -----------------------------------------------------------------------------------------------


@pytest.fixture
def queues(installation: Installation) -> Iterator[None]:
    made = ("lender", "taker")
    for name in made:
        installation.create_queue(name, weight=1)
    yield
    installation.clear(made)


def reclaimed(pumice: Installation, program: str, grace: int) -> tuple[set[str], float]:
    """Let a gang take back half of the cluster: the victims, and when the first container of the gang started."""
    pumice.submit("lender", program, ALL, minimum=1, queue="lender", grace=grace)
    before = pumice.await_running("lender", ALL)
    pumice.submit("taker", ENDLESS, HALF, queue="taker")
    started = [pumice.await_notes(name, "started")[0] for name in names(pumice.await_running("taker", HALF))]
    kept = pumice.await_running("lender", HALF)
    assert set(uids(kept)) < set(uids(before))
    assert pumice.refused() == []
    return set(names(before)) - set(names(kept)), min(started)


@pytest.mark.usefixtures("queues")
def test_victim_saves_its_work_before_its_room_is_used(pumice: Installation) -> None:
    victims, started = reclaimed(pumice, saving(3), grace=20)
    assert len(victims) == HALF
    assert max(pumice.notes(victim, "ended")[0] for victim in victims) < started


@pytest.mark.usefixtures("queues")
def test_victim_that_ignores_sigterm_has_its_grace_and_is_gone_before_its_room_is_used(pumice: Installation) -> None:
    victims, started = reclaimed(pumice, STUBBORN, grace=4)
    assert len(victims) == HALF
    for victim in victims:
        (asked,) = pumice.notes(victim, "asked")
        assert asked + 3 < pumice.notes(victim, "alive")[-1] < started


# ---- resizing ----------------------------------------------------------------------------------------------


def test_room_of_a_pod_that_shrinks_is_used_once_its_kubelet_has_shrunk_it(pumice: Installation) -> None:
    """Until then the kubelet would reject another pod for good (OutOfcpu)."""
    node = NODES[1]
    there = {"nodeSelector": {"kubernetes.io/hostname": node}}
    half = pumice.free_cpu(node) // 2
    pumice.submit("large", ENDLESS, resources={"requests": {"cpu": f"{half + 100}m"}}, pod=there)
    pumice.await_running("large", 1)
    pumice.submit("next", ENDLESS, resources={"requests": {"cpu": f"{half}m"}}, pod=there)
    pumice.remain_pending("next")
    shrunk = {"spec": {"containers": [{"name": "main", "resources": {"requests": {"cpu": "50m"}}}]}}
    with pumice.cluster.nodes[node].frozen("kubelet"):
        pumice.kubectl("patch", "pod", "large-task-0", "--subresource=resize", "--patch", json.dumps(shrunk))
        pumice.remain_pending("next")
    pumice.await_running("next", 1)
    assert pumice.refused() == []


# ---- how containers end ------------------------------------------------------------------------------------


def test_failed_container_aborts_its_job(pumice: Installation) -> None:
    pumice.submit("failing", ending(7), policies=[{"event": FAILED, "action": "AbortJob"}])
    assert pumice.await_phase("failing", "Aborted")["failed"] == 1


def test_exit_code_restarts_a_job_until_its_retries_are_used_up(pumice: Installation) -> None:
    pumice.submit("again", ending(3), maxRetry=3, policies=[{"exitCode": 3, "action": "RestartJob"}])
    pumice.await_phase("again", "Failed")
    assert len(pumice.notes("again-task-0", "started")) == 3


def test_container_out_of_memory_terminates_its_job(pumice: Installation) -> None:
    """The kernel kills it with SIGKILL: exit code 128 + 9."""
    greedy = f"{NOTES}\nbytearray(1 << 30)\nnote('survived')"
    pumice.submit("greedy", greedy, 1, policies=[{"exitCode": 137, "action": "TerminateJob"}])
    pumice.await_phase("greedy", "Terminated")
    (pod,) = pumice.pods("greedy")
    ended = pod["status"]["containerStatuses"][0]["state"]["terminated"]
    assert (ended["reason"], ended["exitCode"]) == ("OOMKilled", 137)
    assert pumice.notes("greedy-task-0", "survived") == []


def test_suspended_job_ends_its_containers_and_resumes(pumice: Installation) -> None:
    pumice.submit("paused", ENDLESS, 2)
    before = pumice.await_running("paused", 2)
    pumice.command("job", "suspend", "paused", "-n", WORK)
    pumice.await_phase("paused", "Aborted")
    pumice.until(lambda: not pumice.pods("paused"), "all containers ended")
    assert all(len(pumice.notes(name, "ended")) == 1 for name in names(before))
    pumice.command("job", "resume", "paused", "-n", WORK)
    pumice.await_running("paused", 2)


# ---- failures ----------------------------------------------------------------------------------------------


def test_leader_that_is_killed_is_replaced_and_its_gang_starts_whole(pumice: Installation) -> None:
    leader = pumice.until(lambda: pumice.leader("scheduler"), "the scheduler has a leader")
    pumice.submit("gang", ENDLESS, ALL)
    pumice.kill_container(leader)
    gang = pumice.await_running("gang", ALL)
    assert nodes(gang) == sorted(NODES * SLOTS)
    # What the new leader knows agrees with the nodes: the next gang gets the room that is free, and no more.
    pumice.submit("next", ENDLESS, 2)
    pumice.remain_pending("next")
    assert uids(pumice.running("gang")) == uids(gang)
    pumice.delete("gang")
    pumice.await_running("next", 2)
    assert pumice.refused() == []


def test_drained_node_gives_its_pods_to_the_other(pumice: Installation) -> None:
    """Pumice's own pods move too, one at a time: their disruption budgets hold."""
    pumice.submit("moving", ENDLESS, SLOTS, minimum=1)
    drained = nodes(pumice.await_running("moving", SLOTS))[0]
    (other,) = set(NODES) - {drained}
    try:
        options = ("--delete-emptydir-data", "--force", "--ignore-daemonsets", "--timeout=110s")
        pumice.kubectl("drain", drained, *options)
        assert nodes(pumice.await_running("moving", SLOTS)) == [other] * SLOTS
    finally:
        pumice.kubectl("uncordon", drained)
    assert pumice.refused() == []


def test_job_goes_on_elsewhere_when_its_node_dies(pumice: Installation) -> None:
    unreachable = {"key": "node.kubernetes.io/unreachable", "operator": "Exists", "effect": "NoExecute"}
    at_once = [{**unreachable, "tolerationSeconds": 0}]
    pumice.submit("lasting", ENDLESS, SLOTS - 1, minimum=1, pod={"tolerations": at_once})
    dying = nodes(pumice.await_running("lasting", SLOTS - 1))[0]
    (other,) = set(NODES) - {dying}
    pumice.cluster.kill_node(dying)
    try:
        pumice.until(lambda: not is_ready(pumice.client.get(f"{CORE}/nodes/{dying}")), f"{dying} counts as dead")
        # What is on a node that is only silent may still run: Kubernetes waits until it hears that it does not.
        pumice.kubectl("taint", "node", dying, f"{OUT_OF_SERVICE}=crashed:NoExecute")
        pumice.until(lambda: nodes(pumice.running("lasting")) == [other] * (SLOTS - 1), "all pods run elsewhere")
        pumice.submit("new", ENDLESS)
        assert nodes(pumice.await_running("new", 1)) == [other]
    finally:
        pumice.kubectl("taint", "node", dying, f"{OUT_OF_SERVICE}-")
        pumice.cluster.revive_node(dying)
    pumice.submit("gang", ENDLESS, SLOTS)
    assert nodes(pumice.await_running("gang", SLOTS)) == [dying] * SLOTS
    assert pumice.refused() == []
