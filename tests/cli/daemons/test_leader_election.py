"""Replicas of ``pumice scheduler``: one works, another waits, is ready, and takes over."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import yaml

from pumice.kube.client.kubeconfig import read_kubeconfig
from pumice.kube.client.sync_client import Client
from tests.support.api_servers import pumice_up
from tests.support.processes import end_process, start_process

PUMICE = (sys.executable, "-m", "pumice")
LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases"


class Replica:
    """A scheduler that takes part in an election."""

    def __init__(self, kubeconfig: Path, log: Path) -> None:
        self.log = log
        elect = ["--leader-elect", "--metrics-address", "127.0.0.1:0"]
        command = [*PUMICE, "scheduler", "--kubeconfig", str(kubeconfig), *elect]
        with log.open("wb") as output:
            self.process = start_process(command, stdout=output, stderr=subprocess.STDOUT)

    def says(self, words: str) -> bool:
        return words in self.log.read_text()

    def ready(self) -> bool:
        found = re.search(r"metrics at (http://\S+)/metrics", self.log.read_text())
        if not found:
            return False
        try:
            with urllib.request.urlopen(f"{found[1]}/readyz", timeout=5):
                return True
        except urllib.error.URLError:
            return False

    def stop(self, how: signal.Signals = signal.SIGTERM) -> int:
        self.process.send_signal(how)
        return self.process.wait(timeout=30)


@contextmanager
def replicas(kubeconfig: Path, folder: Path, count: int) -> Iterator[list[Replica]]:
    started = [Replica(kubeconfig, folder / f"replica-{number}.log") for number in range(count)]
    try:
        yield started
    finally:
        for replica in started:
            end_process(replica.process)


def until(holds: Any, what: str) -> None:
    deadline = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < deadline, f"not in a minute: {what}"
        time.sleep(0.05)


def test_standby_scheduler_takes_over_when_leader_stops(tmp_path: Path) -> None:
    with (
        pumice_up("--nodes", "1") as (_, kubeconfig),
        replicas(kubeconfig, tmp_path, 2) as both,
        closing(Client(read_kubeconfig(kubeconfig))) as client,
    ):
        until(lambda: any(one.says("became the leader") for one in both), "somebody leads")
        until(lambda: all(one.ready() for one in both), "the one that waits is ready, too")
        leaders = [one for one in both if one.says("became the leader")]
        assert len(leaders) == 1
        leader, other = leaders[0], next(one for one in both if one is not leaders[0])
        lease = client.get(f"{LEASES}/pumice-scheduler")
        assert lease["spec"]["holderIdentity"] in leader.log.read_text()
        assert leader.stop() == 0
        # It has given the lease back: the other need not wait until it runs out.
        until(lambda: other.says("became the leader"), "the other takes over")
        pod = {
            "metadata": {"name": "p", "annotations": {"scheduling.k8s.io/group-name": "g"}},
            "spec": {"schedulerName": "pumice", "containers": [{"name": "c", "image": "i"}]},
        }
        group = yaml.safe_load(
            "{apiVersion: scheduling.volcano.sh/v1beta1, kind: PodGroup, metadata: {name: g}, spec: {minMember: 1}}"
        )
        client.create("/apis/scheduling.volcano.sh/v1beta1/namespaces/default/podgroups", group)
        client.create("/api/v1/namespaces/default/pods", pod)
        where = "/api/v1/namespaces/default/pods/p"
        until(lambda: client.get(where)["spec"].get("nodeName"), "and it schedules")


def test_leader_without_lease_exits(tmp_path: Path) -> None:
    with (
        pumice_up("--nodes", "1") as (_, kubeconfig),
        replicas(kubeconfig, tmp_path, 1) as [replica],
        closing(Client(read_kubeconfig(kubeconfig))) as client,
    ):
        until(lambda: replica.says("became the leader"), "it leads")
        lease = client.get(f"{LEASES}/pumice-scheduler")
        lease["spec"]["holderIdentity"] = "somebody-else"
        client.merge(f"{LEASES}/pumice-scheduler", {"spec": lease["spec"]})
        until(lambda: replica.process.poll() is not None, "it ends")
        assert replica.process.returncode == 1
        assert replica.says("lost the lease")
