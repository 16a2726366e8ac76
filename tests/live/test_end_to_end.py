"""What users do with queues and jobs, and what becomes of it, from end to end.

``long`` are those that other tests look at more closely on the embedded server; on a real one all of them are run.
"""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from tests.support.end_to_end import BY_SHARE, Object, World, gang, job_of, queue, queue_of

MANIFESTS = Path(__file__).parent / "manifests"


def manifest(name: str) -> list[Object]:
    return list(yaml.safe_load_all((MANIFESTS / name).read_text()))


# --- gangs -----------------------------------------------------------------------------------------------------------


def test_a_gang_waits_until_all_of_it_can_start(world: World) -> None:
    # 2 nodes of 4 cpu. The first has 5; 3 are left, which is insufficient for a gang of 4 and enough for a job of 2.
    # Nothing is taken from anybody.
    world.up(nodes=2, cpu=4)
    world.scheduler(BY_SHARE.replace(", reclaim, preempt", ""))
    world.apply(*gang("first", "default", 5, least=5))
    world.settles({"first": 5}, job_of)
    world.apply(*gang("whole", "default", 4, least=4))
    world.becomes("Unschedulable", lambda: condition(world, "whole"))
    world.apply(*gang("small", "default", 2))
    world.settles({"first": 5, "small": 2}, job_of)
    pods = [f"first-{number}" for number in range(5)]
    world.kubectl("delete", "pod", *pods, "--wait=false")
    world.settles({"whole": 4, "small": 2}, job_of)
    world.becomes("Running", lambda: world.kubectl.object("podgroup", "whole")["status"]["phase"])


def condition(world: World, group: str) -> str:
    """What a podgroup says about itself."""
    found = world.kubectl.object("podgroup", group).get("status", {}).get("conditions", ())
    return ", ".join(str(entry["type"]) for entry in found if entry["status"] == "True")


# --- the states of queues --------------------------------------------------------------------------------------------


@pytest.mark.long
def test_queues_are_closed_opened_paused_and_resumed(world: World) -> None:
    world.up(cpu=8)
    world.scheduler()
    world.apply(queue("eng"), queue("dev", "eng"))
    world.becomes("Open", lambda: world.says("dev").get("state"))
    world.vsub("one", "-q", "dev", "-r", "2", "-R", "cpu=1")
    world.settles({"one": 2}, job_of)
    # Closing a parent closes what is below it: what runs goes on, nothing new is let in.
    world.vcctl("queue", "operate", "eng", "-a", "close")
    world.becomes("Closing", lambda: world.says("dev")["state"])
    status, said = world.kubectl.tried("create", "-f", "-", given=gang("two", "dev", 1)[0])
    assert status and "dev" in said and "Closing" in said, said
    world.settles({"one": 2}, job_of)
    world.vcctl("queue", "operate", "eng", "-a", "open")
    world.becomes("Open", lambda: world.says("dev")["state"])
    # One that is paused lets jobs in and starts none.
    world.vcctl("queue", "operate", "dev", "-a", "pause")
    world.becomes("Paused", lambda: world.says("dev")["state"])
    world.vsub("three", "-q", "dev", "-r", "2", "-R", "cpu=1")
    world.settles({"one": 2}, job_of)
    world.vcctl("queue", "operate", "dev", "-a", "resume")
    world.settles({"one": 2, "three": 2}, job_of)


# --- routing ---------------------------------------------------------------------------------------------------------


def test_jobs_for_a_parent_go_to_the_leaf_that_is_used_least(world: World) -> None:
    # Below eng: a deserves 8 and has 4 of it; b deserves 8 and has nothing. Of five jobs of 2 the first two go to b,
    # until it is even with a (ties by name: a), and then by turns: b b a b a. A job without a queue goes to the least
    # used of all: default, where there is nothing.
    world.up(cpu=16)
    world.apply(queue("eng"), *(queue(name, "eng", deserved={"cpu": 8}) for name in "ab"))
    world.becomes("Open", lambda: world.says("b").get("state"))
    world.scheduler()
    world.vsub("first", "-q", "a", "-r", "1", "-R", "cpu=4")
    world.settles({"first": 1}, job_of)
    world.becomes("4", lambda: world.says("a")["allocated"]["cpu"])
    for number in range(5):
        group = gang(f"j{number}", "eng", 0)[0]
        group["spec"]["minResources"] = {"cpu": 2}
        world.apply(group)
    went = {name: world.kubectl.object("podgroup", name)["spec"]["queue"] for name in ("j0", "j1", "j2", "j3", "j4")}
    assert went == {"j0": "b", "j1": "b", "j2": "a", "j3": "b", "j4": "a"}
    world.kubectl("create", "-f", "-", given={**gang("any", "", 0)[0], "spec": {"minMember": 1}})
    assert world.kubectl.object("podgroup", "any")["spec"]["queue"] == "default"
    world.becomes(True, lambda: "Routed to queue 'b'" in world.kubectl("events", "--for", "podgroup/j0"))


# --- the whole tree in one object ------------------------------------------------------------------------------------


@pytest.mark.long
def test_a_root_that_describes_its_tree_makes_it(world: World) -> None:
    # default and dev 5 : 5, below dev test1 and test2 1 : 2. Of 12 cpu that is 6, 2 and 4.
    world.up(cpu=12)
    world.scheduler()
    described = [
        {"name": "default", "parameters": [{"name": "weight", "value": 5}]},
        {
            "name": "dev",
            "parameters": [{"name": "weight", "value": 5}],
            "hierarchy": [{"name": "test1"}, {"name": "test2", "parameters": [{"name": "weight", "value": "2"}]}],
        },
    ]
    root: Object = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue", "metadata": {"name": "root"}}
    world.apply({**root, "spec": {"hierarchy": described}})
    world.becomes({"default", "dev", "root", "test1", "test2"}, lambda: queues(world))
    world.becomes("Open", lambda: world.says("test2").get("state"))
    world.apply(*(each for name in ("default", "test1", "test2") for each in gang(name, name, 12)))
    world.settles({"default": 6, "test1": 2, "test2": 4}, queue_of)
    assert world.kubectl.object("queue", "test2")["spec"]["parent"] == "dev"
    # What is edited is followed: test1 weighs 2 as well, so 3 and 3.
    described[1]["hierarchy"][0]["parameters"] = [{"name": "weight", "value": 2}]
    world.apply({**root, "spec": {"hierarchy": described}})
    world.settles({"default": 6, "test1": 3, "test2": 3}, queue_of)
    # What is taken out is closed, and goes when its jobs have.
    world.apply(
        {**root, "spec": {"hierarchy": [described[0], {**described[1], "hierarchy": described[1]["hierarchy"][:1]}]}}
    )
    world.becomes("Closing", lambda: world.says("test2").get("state"))
    world.kubectl("delete", "podgroup", "test2")
    world.kubectl("delete", "pods", "-l", "queue=test2", "--wait=false")
    world.becomes({"default", "dev", "root", "test1"}, lambda: queues(world))
    world.settles({"default": 6, "test1": 6}, queue_of)


def queues(world: World) -> set[str]:
    return {found["metadata"]["name"] for found in world.kubectl.object("queues")["items"]}


# --- manifests that were written for Volcano ----------------------------------------------------------------------


def test_manifests_written_for_volcano_run_to_completion(world: World) -> None:
    world.up(nodes=2, cpu=4)
    world.scheduler()
    world.apply(*manifest("queue.yaml"))
    world.becomes("Open", lambda: world.says("test").get("state"))
    world.apply(*manifest("podgroup.yaml"), *manifest("jobs.yaml"))
    ends = {"mpi": "Completed", "hopeless": "Failed", "broken": "Terminated"}
    world.becomes(ends, lambda: {name: phase(world, name) for name in ends})
    world.becomes("Completed", lambda: world.kubectl.object("podgroup", "qj-1")["status"]["phase"])
    # Steps has come to its end and left nothing behind.
    world.becomes(set(ends), lambda: {job["metadata"]["name"] for job in world.kubectl.object("vcjob")["items"]})
    world.becomes([], lambda: [p["metadata"]["name"] for p in world.pods() if job_of(p) == "steps"])
    assert world.kubectl.object("vcjob", "hopeless")["status"]["retryCount"] == 2
    pods = {pod["metadata"]["name"]: pod["status"]["phase"] for pod in world.pods()}
    assert pods == {
        "qj-1-a": "Succeeded",
        "qj-1-b": "Succeeded",
        "mpi-master-0": "Succeeded",
        "hopeless-worker-0": "Failed",
        "broken-checker-0": "Failed",
    }


@pytest.mark.long
def test_a_job_that_loses_a_pod_begins_again(world: World) -> None:
    world.up(nodes=2, cpu=4)
    world.scheduler()
    job = next(job for job in manifest("jobs.yaml") if job["metadata"]["name"] == "mpi")
    job["spec"]["tasks"][0]["template"]["metadata"]["annotations"]["pumice.dev/run-seconds"] = "400"  # time to look
    world.apply(*manifest("queue.yaml"), job)
    world.becomes("Running", lambda: phase(world, "mpi"))
    world.kubectl("delete", "pod", "mpi-worker-1", "--wait=false")
    world.becomes("Completed", lambda: phase(world, "mpi"))
    assert world.kubectl.object("vcjob", "mpi")["status"]["retryCount"] == 1
    assert "configmap/mpi-svc" in world.kubectl("get", "configmap", "-o", "name")
    status, said = world.kubectl.tried("get", "service", "-o", "name")
    assert status or "service/mpi" in said, "where there are services, its pods find each other by one"
    world.kubectl("delete", "vcjob", "mpi")
    world.becomes([], lambda: [pod["metadata"]["name"] for pod in world.pods()])
    world.becomes(False, lambda: "mpi" in world.kubectl("get", "configmap,podgroup", "-o", "name"))


def phase(world: World, job: str) -> str:
    found = world.kubectl.object("vcjob")["items"]
    states = [each.get("status", {}).get("state", {}) for each in found if each["metadata"]["name"] == job]
    return str(states[0].get("phase", "")) if states else "gone"
