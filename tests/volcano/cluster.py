"""A cluster as Volcano's own runs of the suites have it: nodes, definitions, the ConfigMap.

Cases change the scheduler's configuration in a ConfigMap that Volcano's scheduler has mounted. A thread plays that
mount: it writes the ConfigMap into the file that Pumice's scheduler reads and follows.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http import HTTPStatus
from pathlib import Path
from typing import Any

import yaml

from pumice.config.plugin_loader import plugin_names
from pumice.kube.client.api_errors import ApiError, UnreachableError
from pumice.kube.client.kubeconfig import read_kubeconfig
from pumice.kube.client.sync_client import Client
from tests.node.cluster import PAUSE_IMAGE
from tests.volcano.servers import Server
from tools.volcano_suites import CONFIGURATION, DEFINITIONS

NODES = {
    "control-plane": [{"key": "node-role.kubernetes.io/control-plane", "effect": "NoSchedule"}],
    **{f"worker-{number}": [] for number in range(4)},
}
"""The nodes with their taints. That of the control plane takes no pods of cases, but counts for overcommitment."""
NODE_CAPACITY = {"cpu": "4", "memory": "16Gi", "pods": "110"}
"""Some cases ask for 30 CPUs, which must be more than there are."""
SYSTEM_REQUEST = {"cpu": "100m", "memory": "50Mi"}
"""What the network of Volcano's own clusters requests on every node: three pods of one CPU fit on a node, not four."""
MISSING_PROGRAMS = "xxx xyz fake.sh"
"""Programs that cases run because no image has them."""
CONFIG_NAMESPACE, CONFIG_MAP = "volcano-system", "integration-scheduler-configmap"
NODE_SHARDS = "/apis/shard.volcano.sh/v1alpha1/nodeshards"
"""A kind that Pumice does not serve: its definition is made after those of Pumice."""
START_SECONDS = 120.0
POLL_SECONDS = 0.2
PUMICE_SETTINGS: dict[str, Any] = {
    "defaultQueue": "default",
    "configurations": [{"name": "reclaim", "arguments": {"reclaim.patience": 0, "reclaim.minRuntime": 0}}],
}
"""Where Pumice's defaults differ from Volcano's: the queue of a job that names none, and when a job may reclaim."""
GANG_SETTINGS = {"enableJobStarving": True}
"""The same of the plugin gang: preempt ends at minMember."""


@contextmanager
def conformance_cluster(server: Server, work: Path, suites: Path) -> Iterator[Path]:
    """A running cluster; yields the path of its kubeconfig. ``work`` gets its logs."""
    config, conf = work / "scheduler.yaml", (suites / CONFIGURATION).read_text()
    _write_config(config, conf)
    with server(work, [_node(name, taints) for name, taints in NODES.items()], config) as kubeconfig:
        client = _connect(kubeconfig)
        _create_definitions(client, suites / DEFINITIONS)
        _await_collector(client)
        for name in NODES:
            client.create("/api/v1/namespaces/kube-system/pods", _system_pod(name))
        client.create("/api/v1/namespaces", {"metadata": {"name": CONFIG_NAMESPACE}})
        config_map = {"metadata": {"name": CONFIG_MAP}, "data": {CONFIGURATION: conf}}
        client.create(f"/api/v1/namespaces/{CONFIG_NAMESPACE}/configmaps", config_map)
        ended = threading.Event()
        mount = threading.Thread(target=_follow_config, args=(kubeconfig, config, conf, ended))
        mount.start()
        try:
            yield kubeconfig
        finally:
            ended.set()
            mount.join()


def _node(name: str, taints: list[dict[str, str]]) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "annotations": {"pumice.dev/missing-programs": MISSING_PROGRAMS}},
        "spec": {"taints": taints},
        "status": {"capacity": NODE_CAPACITY, "allocatable": NODE_CAPACITY},
    }


def _system_pod(node: str) -> dict[str, Any]:
    container = {"name": "network", "image": PAUSE_IMAGE, "resources": {"requests": SYSTEM_REQUEST}}
    spec = {"nodeName": node, "tolerations": [{"operator": "Exists"}], "containers": [container]}
    return {"metadata": {"name": f"network-{node}"}, "spec": spec}


def _connect(kubeconfig: Path) -> Client:
    end = time.monotonic() + START_SECONDS
    while True:
        try:
            client = Client(read_kubeconfig(kubeconfig))
            client.list("/api/v1/nodes")
        except (OSError, ValueError, UnreachableError):
            if time.monotonic() > end:
                raise
            time.sleep(POLL_SECONDS)
        else:
            return client


def _create_definitions(client: Client, folder: Path) -> None:
    """Create those that the cluster lacks: every case lists kinds that Pumice may not serve when it cleans up."""
    for path in sorted(folder.glob("*.yaml")):
        try:
            client.create("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", yaml.safe_load(path.read_text()))
        except ApiError as error:
            if error.code != HTTPStatus.CONFLICT:
                raise


def _await_collector(client: Client) -> None:
    """Wait until the garbage collector knows the new kinds, which it looks for twice a minute.

    Cases delete queues in the foreground, and take one of the same name that is still there for theirs.
    """
    shard = {"apiVersion": "shard.volcano.sh/v1alpha1", "kind": "NodeShard", "spec": {"nodesDesired": []}}
    _retried(lambda: client.create(NODE_SHARDS, {**shard, "metadata": {"name": "collected"}}), "NodeShards are served")
    client.delete(f"{NODE_SHARDS}/collected", propagation="Foreground")
    _retried(lambda: not client.list(NODE_SHARDS).items, "the garbage collector knows the kinds of Volcano")


def _retried(holds: Callable[[], object], what: str) -> None:
    """Wait until a function gives something true, and no error."""
    end = time.monotonic() + START_SECONDS
    while True:
        with suppress(ApiError, UnreachableError):
            if holds():
                return
        if time.monotonic() > end:
            raise TimeoutError(f"not within {START_SECONDS:.0f} s: {what}")
        time.sleep(POLL_SECONDS)


def _follow_config(kubeconfig: Path, config: Path, conf: str, ended: threading.Event) -> None:
    client = Client(read_kubeconfig(kubeconfig))
    path = f"/api/v1/namespaces/{CONFIG_NAMESPACE}/configmaps/{CONFIG_MAP}"
    while not ended.wait(POLL_SECONDS):
        try:
            found = client.get(path)["data"][CONFIGURATION]
        except (ApiError, UnreachableError):
            continue  # a mount keeps what it has
        if found != conf:
            conf = found
            _write_config(config, conf)


def _write_config(config: Path, conf: str) -> None:
    beside = config.with_suffix(".new")
    beside.write_text(pumice_config(conf))
    beside.replace(config)


def pumice_config(conf: str) -> str:
    """Volcano's configuration without plugins that Pumice lacks, which it refuses, and with ``PUMICE_SETTINGS``."""
    wanted = yaml.safe_load(conf)
    for tier in wanted["tiers"]:
        tier["plugins"] = [plugin for plugin in tier["plugins"] if plugin["name"] in plugin_names()]
        for plugin in tier["plugins"]:
            if plugin["name"] == "gang":
                plugin.update(GANG_SETTINGS | plugin)
    given = {entry["name"] for entry in wanted.get("configurations") or ()}
    added = [entry for entry in PUMICE_SETTINGS["configurations"] if entry["name"] not in given]
    merged = PUMICE_SETTINGS | wanted | {"configurations": [*(wanted.get("configurations") or ()), *added]}
    return yaml.safe_dump(merged, sort_keys=False)
