"""A cluster of real kubelets and containers for Volcano's suites, with Pumice in pods of the control plane's node.

It is the cluster of ``tests/node`` with the nodes that the cases expect. A kubelet counts as many CPUs as they need;
containers share those of this machine. The images that most cases name cannot be pulled: BusyBox is that of the
distribution, and what has the name of nginx is its HTTP server. Other images are not there.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml

from pumice.install.rbac import CONFIG_MAP
from pumice.install.workloads import SETTINGS_FILE
from pumice.kube.client.sync_client import Client
from tests.node import cluster
from tests.node.cluster import PAUSE_IMAGE, NodeCluster, node_cluster
from tests.node.images import ROOT, Image, busybox_layer, program_image, pumice_image, write_archive, write_base
from tests.node.installation import CHECKOUT_IMAGE, HOME, Installation
from tests.node.work_folder import work_folder
from tools import node_binaries
from tools.node_binaries import packaged_program

LIBRARY = "docker.io/library"
BUSYBOX_IMAGES = ("busybox:latest", "busybox:1.24")
NGINX_IMAGES = ("nginx:latest", "nginx:1.29.3-alpine")
BUSYBOX_PACKAGE, BUSYBOX = "busybox-static", "busybox"
SERVE = ["sh", "-c", "trap 'exit 0' TERM; httpd -f -p 80 & wait"]
"""Like nginx it ends at SIGTERM, which the first process of a container ignores unless it handles it."""
POLL_SECONDS = 0.2
POD_SETTINGS = {
    "nodeSelector": {"kubernetes.io/hostname": "control-plane"},
    "tolerations": [{"key": "node-role.kubernetes.io/control-plane", "operator": "Exists"}],
}


@contextmanager
def node_server(work: Path, nodes: Sequence[dict[str, Any]], config: Path) -> Iterator[Path]:
    """A cluster with nodes of these names, taints and CPUs."""
    if reason := cluster.unavailable():
        raise RuntimeError(reason)
    (cpus,) = {int(node["status"]["capacity"]["cpu"]) for node in nodes}
    names = [node["metadata"]["name"] for node in nodes]
    with work_folder(len(names)) as folder:
        archive = write_archive(folder / "images.tar", _images(folder))
        (folder / "cluster").mkdir()
        with node_cluster(folder / "cluster", archive, names, cpus) as running:
            _install(running, work, config)
            for node in nodes:
                running.client.merge(f"/api/v1/nodes/{node['metadata']['name']}", {"spec": node["spec"]})
            with _followed_config(running.client, config):
                yield running.kubeconfig


def _images(folder: Path) -> Iterator[Image]:
    layer = busybox_layer(packaged_program(BUSYBOX_PACKAGE, BUSYBOX, folder), folder / "busybox.tar")
    for name in BUSYBOX_IMAGES:
        yield Image(f"{LIBRARY}/{name}", [layer], {"Cmd": ["sh"], "Env": ["PATH=/bin"]})
    for name in NGINX_IMAGES:
        yield Image(f"{LIBRARY}/{name}", [layer], {"Cmd": SERVE, "Env": ["PATH=/bin"]})
    yield program_image(PAUSE_IMAGE, node_binaries.folder() / node_binaries.PAUSE, folder / "pause.tar")
    yield pumice_image(CHECKOUT_IMAGE, ROOT, write_base(folder / "base.tar"), folder / "pumice")


def _install(running: NodeCluster, work: Path, config: Path) -> None:
    settings = work / "pod-settings.yaml"
    settings.write_text(yaml.safe_dump(POD_SETTINGS))
    choices = ["--image", CHECKOUT_IMAGE, "--config", str(config), "--pod-settings", str(settings)]
    Installation(running).command("install", *choices, "--replicas", "1", "--no-ui", "--wait", "180")


@contextmanager
def _followed_config(client: Client, config: Path) -> Iterator[None]:
    """Write the configuration into the ConfigMap of the installed scheduler whenever the file changes."""
    written, ended = config.read_text(), threading.Event()

    def follow(written: str) -> None:
        while not ended.wait(POLL_SECONDS):
            if (found := config.read_text()) != written:
                client.merge(f"/api/v1/namespaces/{HOME}/configmaps/{CONFIG_MAP}", {"data": {SETTINGS_FILE: found}})
                written = found

    thread = threading.Thread(target=follow, args=(written,))
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
