"""Pods of one job find each other: names and ports of job plugins, on one machine and between two agents."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from pumice.agent.environment import MissingError
from pumice.agent.job_hosts import JobHosts, free_port, host_name, own_ports
from pumice.controllers.jobs.job_status import JobStatus
from pumice.controllers.jobs.plugins import plugins_of
from pumice.controllers.jobs.pods import pod_of
from pumice.controllers.jobs.spec import read_job
from tests.support.agents import NODE, AgentWorld, on_this_machine

HOSTS = JobHosts(
    {"t-master-0.t": "10.0.0.1", "t-worker-0.t": "10.0.0.2"},
    {"t-master-0.t": {23456: 20001}, "t-worker-0.t": {2222: 20002}},
    frozenset({"t-worker-1.t"}),
)
RENDEZVOUS = """
import os, socket, time
rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
place = (os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]))
if rank == 0:
    with socket.create_server(place) as server:
        found = []
        for _ in range(size - 1):
            connection, _ = server.accept()
            with connection:
                found.append(connection.recv(100).decode())
    print(*sorted(found))
else:
    while True:
        try:
            with socket.create_connection(place) as connection:
                connection.send(f"{os.environ['JOB']}-{rank}".encode())
            break
        except ConnectionRefusedError:
            time.sleep(0.02)
"""


@pytest.mark.parametrize(
    ("text", "rewritten"),
    [
        ("t-master-0.t", "10.0.0.1"),
        ("t-worker-0.t,t-worker-1.t", "10.0.0.2,t-worker-1.t"),  # one that has no node keeps its name
        ("t-worker-0.t\nt-master-0.t", "10.0.0.2\n10.0.0.1"),
        ('["t-worker-0.t:2222"]', '["10.0.0.2:20002"]'),
        ("nc -z t-master-0.t 23456", "nc -z 10.0.0.1 20001"),
        ("t-master-0.t:80", "10.0.0.1:80"),  # a port that was not asked for
        ("my-t-master-0.t t-master-0.tx t-master-0.t.example", "my-t-master-0.t t-master-0.tx t-master-0.t.example"),
    ],
)
def test_names_become_addresses_and_ports_those_of_the_machine(text: str, rewritten: str) -> None:
    assert HOSTS.rewrite(text) == rewritten


def test_the_port_of_the_master_follows_its_host() -> None:
    found = HOSTS.rewrite_variables({"MASTER_ADDR": "t-master-0.t", "MASTER_PORT": "23456", "OTHER": "23456"})
    assert found == {"MASTER_ADDR": "10.0.0.1", "MASTER_PORT": "20001", "OTHER": "23456"}
    assert JobHosts().rewrite_variables({"MASTER_ADDR": "x", "MASTER_PORT": "1"}) == {
        "MASTER_ADDR": "x",
        "MASTER_PORT": "1",
    }


def test_a_pod_waits_for_the_ports_that_it_needs() -> None:
    HOSTS.check_known(["t-worker-1.t", "t-worker-0.t:2222"], {"MASTER_ADDR": "t-master-0.t", "MASTER_PORT": "23456"})
    with pytest.raises(MissingError, match=r"waiting for t-worker-1.t to be placed"):
        HOSTS.check_known(["t-worker-1.t:2222"], {})
    with pytest.raises(MissingError, match=r"waiting for the port 9 of t-master-0.t"):
        HOSTS.check_known([], {"MASTER_ADDR": "t-master-0.t", "MASTER_PORT": "9"})
    early = JobHosts({"t-worker-0.t": "10.0.0.1"}, domain="t")
    with pytest.raises(MissingError, match=r"waiting for t-master-0.t to be placed"):  # it has not been created yet
        early.check_known([], {"MASTER_ADDR": "t-master-0.t", "MASTER_PORT": "23456"})
    early.check_known([], {"MASTER_ADDR": "elsewhere.example", "MASTER_PORT": "23456"})


def test_a_pod_listens_at_the_ports_behind_its_own_name() -> None:
    texts = ["t-worker-0.t:1,t-worker-1.t:2", "t-worker-1.t:3"]
    assert own_ports("t-worker-1.t", texts, {"MASTER_ADDR": "t-worker-1.t", "MASTER_PORT": "4"}) == [2, 3, 4]


def test_names_are_found_in_long_texts_of_large_jobs() -> None:
    """Without a look at each of the names at each place: 10 billion of them would keep the agent from its lease."""
    names = {f"t-worker-{number}.t": "10.0.0.1" for number in range(20_000)}
    hosts = JobHosts(names, {}, frozenset(f"t-late-{number}.t" for number in range(20_000)))
    text = ",t-worker-" * 50_000 + "," + "a" * 500_000 + ",t-worker-19999.t"
    hosts.check_known([text], {})
    assert hosts.rewrite(text).endswith(",10.0.0.1")


def test_a_pod_is_not_given_the_ports_of_all(tmp_path: Path) -> None:
    async def check(world: AgentWorld) -> None:
        async with world.agent():
            document = job("m", "env", worker=(1, ["echo", *(f"m-worker-0.m:{port}" for port in range(1000, 1065))]))
            await submit(world, document, {})
            waiting = await world.wait("m-worker-0", lambda status: status.get("containerStatuses"))
            told = waiting["status"]["containerStatuses"][0]["state"]["waiting"]["message"]
            assert told == "the pod names 65 ports of its own, but can be given 64"

    on_this_machine(tmp_path, check)


def test_a_free_port_is_not_given_twice() -> None:
    first = free_port("127.0.0.1", "seed", ())
    assert free_port("127.0.0.1", "seed", {first}) != first


def job(name: str, plugin: str, **tasks: tuple[int, list[str]]) -> dict[str, Any]:
    env = [{"name": "JOB", "value": name}]
    return {
        "metadata": {"name": name, "namespace": "default", "uid": f"uid-{name}"},
        "spec": {
            "plugins": {plugin: [], "svc": [], **({"ssh": []} if plugin == "mpi" else {})},
            "tasks": [
                {
                    "name": task,
                    "replicas": replicas,
                    "template": {
                        "spec": {
                            "restartPolicy": "Never",
                            "containers": [{"name": "main", "image": "host", "command": command, "env": env}],
                        }
                    },
                }
                for task, (replicas, command) in tasks.items()
            ],
        },
    }


async def submit(world: AgentWorld, document: dict[str, Any], nodes: dict[str, str]) -> None:
    """The objects and pods that the controller makes for a job, on these nodes."""
    api, found = world.running.api, read_job(document)
    for plugin in plugins_of(found):
        for resource, made in plugin.objects(found):
            if resource.plural == "configmaps":
                del made["metadata"]["ownerReferences"]
                await api.create("configmaps", "default", made)
    for task in found.tasks:
        for index in range(task.replicas):
            pod = pod_of(found, task, index, JobStatus())
            del pod["metadata"]["ownerReferences"]
            pod["spec"]["nodeName"] = nodes.get(pod["metadata"]["name"], NODE)
            await api.create("pods", "default", pod)


def test_two_jobs_meet_at_the_addresses_and_ports_of_their_masters(tmp_path: Path) -> None:
    """Both ask for port 23456, on one machine; one worker of each runs under another agent."""
    command = [sys.executable, "-c", RENDEZVOUS]

    async def check(world: AgentWorld) -> None:
        async with world.agent(), world.agent("there", "127.0.0.2"):
            for name in ("one", "two"):
                nodes = {f"{name}-worker-1": "there"}
                await submit(world, job(name, "pytorch", worker=(2, command), master=(1, command)), nodes)
            for name in ("one", "two"):
                await world.phase(f"{name}-master-0", "Succeeded", "Failed")
                assert await world.log(f"{name}-master-0") == f"{name}-1 {name}-2\n"
                await world.phase(f"{name}-worker-1", "Succeeded")

    on_this_machine(tmp_path, check)


def test_hosts_are_in_variables_and_files(tmp_path: Path) -> None:
    """mpi: MPI_HOST and the hostfile of the plugin svc; the index of the plugin env; the keys of ssh stay away."""
    show = ["sh", "-c", "echo $MPI_HOST; echo $VC_WORKER_HOSTS $VC_WORKER_NUM; cat $PUMICE_HOSTS_FOLDER/worker.host"]

    async def check(world: AgentWorld) -> None:
        async with world.agent(), world.agent("there", "127.0.0.2"):
            # There is no podgroup whose minimum the master could wait for, so the workers come first.
            document = job("m", "mpi", worker=(2, ["true"]), master=(1, show))
            await submit(world, document, {"m-worker-1": "there"})
            await world.phase("m-master-0", "Succeeded", "Failed")
            said = "127.0.0.1,127.0.0.2\n127.0.0.1,127.0.0.2 2\n127.0.0.1\n127.0.0.2"
            assert await world.log("m-master-0") == said

    on_this_machine(tmp_path, check)


def test_a_pod_without_plugins_has_no_host_name() -> None:
    assert host_name({"metadata": {"name": "p"}, "spec": {"hostname": "a", "subdomain": "b"}}) == ""
