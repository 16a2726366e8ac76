"""Pods on simulated nodes, through the real API."""

from __future__ import annotations

import asyncio
from itertools import groupby
from unittest.mock import patch

import pytest

from kubesim.clock import parse_time
from kubesim.kubelet.kubelets import Kubelets
from kubesim.kubelet.node_template import make_nodes, parse_capacity
from kubesim.storage import Change
from tests.support.simulated import CAPACITY, cluster, eventually, lasting, pod, run
from tests.support.still_clock import StillClock


def conditions(found):
    return {entry["type"]: entry["status"] for entry in found["status"]["conditions"]}


def test_pod_succeeds_after_run_seconds():
    async def scenario():
        async with cluster() as c:
            phases = []

            async def watch():
                async for batch in c.api.follow("pods"):
                    phases.extend(change.object["status"]["phase"] for change in batch)

            task = asyncio.create_task(watch())
            await c.run_pod("p", annotations=lasting(20), restartPolicy="Never")
            await eventually(lambda: c.phase("p") == "Running")
            up = c.pod("p")
            await eventually(lambda: phases[-1:] == ["Succeeded"])
            task.cancel()
            return phases, up, c.pod("p"), c.node("node-000")

    phases, up, done, node = run(scenario())
    assert [phase for phase, _ in groupby(phases)] == ["Pending", "Running", "Succeeded"]
    assert up["status"]["hostIP"] == node["status"]["addresses"][0]["address"]
    assert up["status"]["podIP"].startswith(node["spec"]["podCIDR"].removesuffix("0/24"))
    assert conditions(up)["Ready"] == "True"
    entry = up["status"]["containerStatuses"][0]
    assert (entry["ready"], entry["started"], entry["restartCount"]) == (True, True, 0)
    assert conditions(done)["Ready"] == "False"
    end = done["status"]["containerStatuses"][0]["state"]["terminated"]
    assert (end["exitCode"], end["reason"]) == (0, "Completed")


@pytest.mark.parametrize(("delay", "writes"), [(0.0, ["Pending", "Running"]), (60.0, ["Running"])])
def test_a_kubelet_that_is_late_reports_admission_and_start_in_one_write(delay, writes):
    async def scenario():
        async with cluster(kubelets=False) as c:
            kubelets = Kubelets(c.api, clock := StillClock(speed=1), make_nodes(1, parse_capacity(CAPACITY)))
            await kubelets.register()
            kubelets.on_node_change(await read("nodes/node-000", c))
            await c.run_pod("p")
            kubelets.on_pod_change(await read("pods/default/p", c))
            phases, bound = [], clock.now()
            clock.time += delay
            while await kubelets.run_due_steps():
                phases.append(c.phase("p"))
                kubelets.on_pod_change(await read("pods/default/p", c))
                clock.time += 0.1
            return phases, bound, c.pod("p")["status"]

    async def read(key, c):
        record = c.api.store.latest(key)
        return Change(record.revision, key, record.value)

    phases, bound, status = run(scenario())
    assert phases == writes
    assert parse_time(status["startTime"]) == bound  # when it would have happened
    assert parse_time(status["containerStatuses"][0]["state"]["running"]["startedAt"]) == bound


def test_kubelets_pause_between_batches_while_clients_send_requests():
    async def scenario(requests):
        async with cluster(kubelets=False) as c:
            kubelets, pauses = Kubelets(c.api, c.clock), []

            async def take_steps():
                c.api.requests += requests
                return 1

            async def pause(seconds):
                pauses.append(seconds)

            kubelets._take_due_steps = take_steps
            with patch("kubesim.kubelet.kubelets.asyncio.sleep", pause):
                assert await kubelets._run_batch()
            return len(pauses)

    assert run(scenario(requests=1)) == 1
    assert run(scenario(requests=0)) == 0


@pytest.mark.parametrize(("said", "code"), [("true", 1), ("42", 42)])
def test_pod_fails_by_annotation(said, code):
    async def scenario():
        async with cluster() as c:
            await c.run_pod("p", annotations=lasting(1, fail=said), restartPolicy="Never")
            await eventually(lambda: c.phase("p") == "Failed")
            return c.pod("p")["status"]["containerStatuses"][0]["state"]["terminated"]["exitCode"]

    assert run(scenario()) == code


def test_command_fails_on_a_node_without_its_program():
    async def scenario():
        async with cluster() as c:
            script = [{"name": "main", "image": "i", "command": ["sh", "-c", "sleep 1 && train"]}]

            def lack(node):
                node["metadata"].setdefault("annotations", {})["kubesim.dev/missing-programs"] = "train test"

            await c.run_pod("before", containers=script, restartPolicy="Never")
            await eventually(lambda: c.phase("before") == "Running")
            await c.api.modify("nodes", "", "node-000", lack)
            await c.run_pod("after", containers=script, restartPolicy="Never")
            await eventually(lambda: c.phase("after") == "Failed")
            entry = c.pod("after")["status"]["containerStatuses"][0]
            return c.phase("before"), entry["state"]["terminated"]["exitCode"]

    assert run(scenario()) == ("Running", 127)


def test_a_container_that_fails_is_restarted_with_growing_pauses():
    async def scenario():
        async with cluster() as c:
            await c.run_pod("p", annotations=lasting(1, fail="true"), restartPolicy="OnFailure")

            def waits():
                found = c.pod("p")
                entry = (found["status"].get("containerStatuses") or [{}])[0]
                return entry.get("restartCount") == 2 and "waiting" in entry["state"]

            await eventually(waits)
            return c.pod("p")["status"]

    status = run(scenario())
    entry = status["containerStatuses"][0]
    assert status["phase"] == "Running"
    assert entry["state"]["waiting"]["reason"] == "CrashLoopBackOff"
    assert entry["state"]["waiting"]["message"].startswith(
        "back-off 20s restarting failed container=main pod=p_default("
    )
    assert entry["lastState"]["terminated"]["exitCode"] == 1
    assert not entry["ready"]


def test_a_pod_that_does_not_fit_is_refused_by_its_node():
    async def scenario():
        async with cluster() as c:
            big = [{"name": "main", "image": "i", "resources": {"requests": {"cpu": "5"}}}]
            await c.run_pod("first", containers=big)
            await eventually(lambda: c.phase("first") == "Running")
            await c.run_pod("second", containers=big)
            await eventually(lambda: c.phase("second") == "Failed")
            refused = c.pod("second")["status"]
            await c.api.delete("pods", "default", "first", grace=0)
            await eventually(lambda: c.pod("first") is None)
            await c.run_pod("third", containers=big)
            await eventually(lambda: c.phase("third") == "Running")
            return refused, c.api.list("events", "default")

    refused, events = run(scenario())
    text = "Node didn't have enough resource: cpu, requested: 5000, used: 5000, capacity: 8000"
    assert refused["reason"] == "OutOfcpu"
    assert refused["message"] == f"Pod was rejected: {text}"
    assert [event["message"] for event in events if event["reason"] == "OutOfcpu"] == [text]


def test_a_pod_whose_admission_could_not_be_written_counts_once():
    # 5 of 8 cpu: counted twice they would be too many.
    async def scenario():
        async with cluster() as c:
            write, failures = c.api.modify, [ConnectionError("nobody answers")]

            async def unsteady(resource, *rest, **more):
                if resource == "pods" and failures:
                    raise failures.pop()
                return await write(resource, *rest, **more)

            with patch.object(c.api, "modify", unsteady):
                big = [{"name": "main", "image": "i", "resources": {"requests": {"cpu": "5"}}}]
                await c.run_pod("once", containers=big)
                await eventually(lambda: c.phase("once") != "Pending")
            return failures, c.phase("once")

    assert run(scenario()) == ([], "Running")


def test_deletion_waits_for_the_grace_period():
    async def scenario():
        async with cluster() as c:
            await c.run_pod("stubborn", terminationGracePeriodSeconds=60)
            await c.run_pod("quick", annotations={"kubesim.dev/stop-seconds": "0"}, terminationGracePeriodSeconds=60)
            await eventually(lambda: c.phase("stubborn") == c.phase("quick") == "Running")
            await asyncio.gather(*(c.api.delete("pods", "default", name) for name in ("stubborn", "quick")))
            await eventually(lambda: c.pod("quick") is None)
            waiting = c.pod("stubborn")
            await eventually(lambda: c.pod("stubborn") is None)
            # A second deletion may shorten the grace.
            await c.run_pod("again", terminationGracePeriodSeconds=1_000_000)
            await eventually(lambda: c.phase("again") == "Running")
            await c.api.delete("pods", "default", "again")
            await c.api.delete("pods", "default", "again", grace=1)
            await eventually(lambda: c.pod("again") is None)
            return waiting

    waiting = run(scenario())
    assert waiting["metadata"]["deletionGracePeriodSeconds"] == 60
    assert waiting["status"]["phase"] == "Running"


def test_a_deleted_pod_with_a_finalizer_stays_as_failed():
    async def scenario():
        async with cluster() as c:
            made = pod("p", node="node-000", annotations={"kubesim.dev/stop-seconds": "0"})
            made["metadata"]["finalizers"] = ["example.com/keep"]
            await c.api.create("pods", "default", made)
            await eventually(lambda: c.phase("p") == "Running")
            await c.api.delete("pods", "default", "p")
            await eventually(lambda: c.pod("p")["metadata"]["deletionGracePeriodSeconds"] == 0)
            return c.pod("p")

    found = run(scenario())
    assert found["status"]["phase"] == "Failed"
    assert found["status"]["containerStatuses"][0]["state"]["terminated"]["exitCode"] == 143


def test_malformed_annotation_is_reported_and_can_be_corrected():
    async def scenario():
        async with cluster() as c:
            await c.run_pod("p", annotations={"kubesim.dev/run-seconds": "soon"}, restartPolicy="Never")

            def state():
                return (c.pod("p")["status"].get("containerStatuses") or [{"state": {}}])[0]["state"]

            await eventually(lambda: state().get("waiting", {}).get("reason") == "CreateContainerConfigError")
            text = state()["waiting"]["message"]
            await c.api.modify("pods", "default", "p", lambda p: p["metadata"]["annotations"].update(lasting(1)))
            await eventually(lambda: c.phase("p") == "Succeeded")
            return text, [(e["type"], e["reason"], e["message"]) for e in c.api.list("events", "default")]

    text, events = run(scenario())
    assert text == "kubesim.dev/run-seconds: 'soon' has no number of seconds; write for example 30, or 0.5"
    assert events == [("Warning", "Failed", text)]


def test_the_deadline_of_a_pod():
    async def scenario():
        async with cluster() as c:
            await c.run_pod("p", activeDeadlineSeconds=150)
            await eventually(lambda: c.phase("p") == "Failed")
            return c.pod("p")["status"]["reason"]

    assert run(scenario()) == "DeadlineExceeded"


def test_running_pods_go_on_after_a_restart(tmp_path):
    async def begin():
        async with cluster(2, path=tmp_path, speed=1) as c:
            await c.run_pod("long", annotations=lasting(1000), restartPolicy="Never")
            await c.run_pod("endless", node="node-001")
            await eventually(lambda: c.phase("long") == c.phase("endless") == "Running")
            return c.pod("long"), [n["metadata"]["uid"] for n in c.api.list("nodes")]

    async def go_on():
        # At speed 1000 the thousand seconds since the recorded start are over after one, or sooner.
        async with cluster(3, path=tmp_path, speed=1000) as c:
            await eventually(lambda: c.phase("long") == "Succeeded")
            return c.pod("long"), c.phase("endless"), [n["metadata"]["uid"] for n in c.api.list("nodes")]

    before, uids = run(begin())
    after, endless, uids_after = run(go_on())
    assert after["status"]["startTime"] == before["status"]["startTime"]
    started = after["status"]["containerStatuses"][0]["state"]["terminated"]["startedAt"]
    assert started == before["status"]["containerStatuses"][0]["state"]["running"]["startedAt"]
    assert after["status"]["podIP"] == before["status"]["podIP"]
    assert endless == "Running"
    assert uids_after[:2] == uids  # taken over, not made anew
    assert len(uids_after) == 3


def test_a_lost_node_does_nothing_and_catches_up_when_it_is_back():
    async def scenario():
        async with cluster(2) as c:

            def lose(node):
                node["metadata"]["annotations"] = {"kubesim.dev/lost": "true"}

            def restore(node):
                node["metadata"]["annotations"]["kubesim.dev/lost"] = "false"

            stays = [{"operator": "Exists"}]
            await c.run_pod("p", annotations=lasting(100), restartPolicy="Never", tolerations=stays)
            await c.run_pod("r", annotations={"kubesim.dev/stop-seconds": "1"}, tolerations=stays)
            await c.run_pod("q", "node-001", annotations=lasting(150), restartPolicy="Never")
            await eventually(lambda: c.phase("p") == c.phase("q") == c.phase("r") == "Running")
            await c.api.modify("nodes", "", "node-000", lose)
            await c.api.delete("pods", "default", "r", grace=5)
            await eventually(lambda: c.phase("q") == "Succeeded")
            while_lost = c.phase("p"), c.phase("r")
            await c.api.modify("nodes", "", "node-000", restore)
            await eventually(lambda: c.phase("p") == "Succeeded" and c.pod("r") is None)
            return while_lost, c.pod("p"), c.pod("q")

    while_lost, p, q = run(scenario())
    assert while_lost == ("Running", "Running")
    ends = [found["status"]["containerStatuses"][0]["state"]["terminated"]["finishedAt"] for found in (p, q)]
    assert parse_time(ends[0]) <= parse_time(ends[1])  # reported late, but as it was


def test_created_node_is_simulated_unless_annotated():
    async def scenario():
        async with cluster(0) as c:
            await c.api.create("nodes", "", {"metadata": {"name": "mine"}})
            await c.api.create(
                "nodes", "", {"metadata": {"name": "theirs", "annotations": {"kubesim.dev/simulated": "false"}}}
            )
            await c.run_pod("p", "mine")
            await c.run_pod("q", "theirs")
            await eventually(lambda: c.phase("p") == "Running")
            return c.node("mine"), c.phase("q"), c.api.read("leases.coordination.k8s.io", "kube-node-lease", "mine")

    node, theirs, lease = run(scenario())
    assert conditions(node)["Ready"] == "True"
    assert node["status"]["allocatable"]["cpu"] == "32"
    assert node["metadata"]["labels"]["kubernetes.io/hostname"] == "mine"
    assert theirs == "Pending"
    assert lease["spec"]["holderIdentity"] == "mine"


def test_many_pods_on_many_nodes_complete():
    async def scenario():
        async with cluster(50) as c:
            await asyncio.gather(
                *(
                    c.run_pod(f"p{n}", f"node-{n % 50:03d}", annotations=lasting(10 + n % 7), restartPolicy="Never")
                    for n in range(400)
                )
            )
            await eventually(lambda: all(p["status"]["phase"] == "Succeeded" for p in c.api.list("pods")))
            return len({p["status"]["podIP"] for p in c.api.list("pods")})

    assert run(scenario()) == 400  # each with an address of its own
