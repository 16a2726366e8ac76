"""A Kubernetes cluster with real kubelets and real containers, on this machine.

The control plane and every node are machines of ``namespaces``: no port, firewall rule or kernel setting of this
machine is touched. While a cluster runs, this machine has one network interface and one cgroup more.

There is no kube-proxy, which would need iptables: the API server listens at its service address, and calls webhooks at
the addresses of their pods (``--enable-aggregator-routing``). Pods have no DNS and reach nothing outside.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import yaml

from kubebase.certificates import issue
from pumice.kube.client.api_errors import ApiError, UnreachableError
from pumice.kube.client.kubeconfig import Access
from pumice.kube.client.sync_client import Client
from tests.node import cgroups
from tests.node.namespaces import Machine, connect, shown_logs
from tests.support.processes import run_process
from tools import kubernetes_binaries, node_binaries

NODES = ("node1", "node2")
CONTROL, SERVICE = "10.214.0.1", "10.215.0.1"
PAUSE_IMAGE = "test.invalid/pause:1"
SLOT = "example.com/slot"
"""A resource that pods of tests ask for, so that how many fit does not depend on this machine."""
SLOTS = 4
"""Of each node."""
GRACE_PERIOD = 16
"""Seconds after which a node that is silent counts as dead."""
USERS = {
    "admin": ("admin", "system:masters"),
    "controller-manager": ("system:kube-controller-manager", ""),
    "scheduler": ("system:kube-scheduler", ""),
}
"""Users of the control plane, each with name and group. Every node has one more."""


def unavailable() -> str:
    """Why no such cluster can be started here; empty if one can."""
    if reason := node_binaries.unavailable() or cgroups.unavailable():
        return reason
    absent = node_binaries.needed()
    return f"{', '.join(absent)} would have to be built first: make test-node" if absent else ""


class NodeCluster:
    """A cluster that runs."""

    def __init__(self, folder: Path, cgroup: str, names: Sequence[str] = NODES, cpus: int | None = None) -> None:
        self.folder = folder
        self._cgroup = cgroup
        self._names = list(names)
        self._cpus = cpus
        self._users = USERS | {name: (f"system:node:{name}", "system:nodes") for name in names}
        self._tokens = {user: secrets.token_hex(16) for user in self._users}
        block = os.getpid() % 16384
        self._link = [f"10.213.{block >> 6}.{(block & 63) * 4 + host}" for host in (1, 2)]
        self._write_credentials()
        self.kubeconfig = self._kubeconfig("admin", self._link[1])
        self.control = Machine("control", folder / "control")
        self.nodes = {name: Machine(name, folder / name, cpus) for name in names}
        authority = (folder / "authority.pem").read_bytes()
        self.client = Client(Access(f"https://{self._link[1]}", token=self._tokens["admin"], authority=authority))

    def begin(self, archive: Path) -> None:
        """Start everything, with these images on every node, and wait until it works."""
        with shown_logs(self.control, *self.nodes.values()):
            self._begin_control()
            with ThreadPoolExecutor() as threads:
                started = [threads.submit(self._begin_containerd, node, archive) for node in self.nodes.values()]
                self.await_api()
                for each in started:
                    each.result()
            self._begin_controllers()
            for node in self.nodes.values():
                self._begin_kubelet(node)
            self.await_nodes()

    def end(self) -> None:
        self.client.close()
        for machine in (*self.nodes.values(), self.control):
            machine.end()

    @property
    def ended(self) -> bool:
        """Whether the control plane is gone, as it is while an interrupted run is cleaned up."""
        return any(process.poll() is not None for process in self.control.started.values())

    # ---- nodes that die ---------------------------------------------------------------------------------------------

    def kill_node(self, name: str) -> None:
        """Let a node fail with all that runs on it."""
        self.nodes.pop(name).end()

    def revive_node(self, name: str) -> None:
        """Start a node again that failed, with what is on its disk."""
        cgroups.reset(f"{self._cgroup}/{name}", with_pods=self._cpus is not None)
        node = Machine(name, self.folder / name, self._cpus)
        self.nodes[name] = node
        node.await_ready()
        self._connect_node(node)
        self._begin_containerd(node, None)
        self._begin_kubelet(node)
        self.await_nodes()

    # ---- reading and waiting ----------------------------------------------------------------------------------------

    def until(self, holds: Callable[[], Any], what: str, seconds: float = 60) -> Any:
        """Wait until a function gives something true, and return that; fail if a daemon ends meanwhile."""
        deadline = time.monotonic() + seconds
        while True:
            with contextlib.suppress(UnreachableError):
                if found := holds():
                    return found
            for machine in (self.control, *self.nodes.values()):
                machine.check()
            assert time.monotonic() < deadline, f"not within {seconds:.0f} s: {what}"
            time.sleep(0.1)

    def await_api(self) -> None:
        def serves() -> bool:
            try:
                return bool(self.client.get("/api/v1/namespaces/default"))
            except ApiError:  # roles and namespaces are made one after another
                return False

        self.until(serves, "the API server serves")

    def await_nodes(self) -> None:
        """Wait until all nodes are ready, without taints, and have their slots."""

        def ready() -> bool:
            found = {node["metadata"]["name"]: node for node in self.client.list("/api/v1/nodes").items}
            return set(found) >= set(self.nodes) and all(is_ready(found[name]) for name in self.nodes)

        self.until(ready, "all nodes are ready")
        for name in self.nodes:
            slots = {SLOT: str(SLOTS)}
            self.client.merge(f"/api/v1/nodes/{name}/status", {"status": {"capacity": slots, "allocatable": slots}})

    # ---- how --------------------------------------------------------------------------------------------------------

    def _write_credentials(self) -> None:
        names = [CONTROL, SERVICE, self._link[1], "kubernetes.default.svc"]
        issued = issue(names)
        users = [f'{self._tokens[user]},{name},{name},"{group}"\n' for user, (name, group) in self._users.items()]
        files = {"authority": issued.authorities, "server": issued.certificate, "key": issued.key}
        for name, content in files.items():
            (self.folder / f"{name}.pem").write_bytes(content)
        (self.folder / "tokens.csv").write_text("".join(users))
        for name in ("key.pem", "tokens.csv"):
            (self.folder / name).chmod(0o600)

    def _kubeconfig(self, user: str, address: str = CONTROL) -> Path:
        path = self.folder / f"{user}.kubeconfig"
        cluster = {"server": f"https://{address}", "certificate-authority": str(self.folder / "authority.pem")}
        document = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": user,
            "clusters": [{"name": "test", "cluster": cluster}],
            "users": [{"name": user, "user": {"token": self._tokens[user]}}],
            "contexts": [{"name": user, "context": {"cluster": "test", "user": user}}],
        }
        path.write_text(yaml.safe_dump(document))
        path.chmod(0o600)
        return path

    def _begin_control(self) -> None:
        control = self.control
        for machine in (control, *self.nodes.values()):
            machine.await_ready()
        link = f"pn{os.getpid()}"
        connect(None, link, control, "uplink")
        for command in (["addr", "add", f"{self._link[0]}/30", "dev", link], ["link", "set", link, "up"]):
            run_process(["ip", *command], check=True)
        _ip(control, "addr", "add", f"{self._link[1]}/30", "dev", "uplink")
        _ip(control, "link", "set", "uplink", "up")
        # With an address of its own: otherwise it is that of one of the cables, and changes when a node fails.
        _ip(control, "link", "add", "switch", "address", "02:00:00:00:00:01", "type", "bridge")
        _ip(control, "addr", "add", f"{CONTROL}/24", "dev", "switch")
        _ip(control, "addr", "add", f"{SERVICE}/32", "dev", "lo")
        _ip(control, "link", "set", "switch", "up")
        for node in self.nodes.values():
            self._connect_node(node)
        programs = kubernetes_binaries.cache()
        control.start(
            "etcd",
            programs / "etcd",
            f"--data-dir={control.folder / 'etcd'}",
            "--unsafe-no-fsync",
        )
        folder = self.folder
        control.start(
            "kube-apiserver",
            programs / "kube-apiserver",
            "--etcd-servers=http://127.0.0.1:2379",
            f"--advertise-address={CONTROL}",
            "--secure-port=443",
            f"--tls-cert-file={folder / 'server.pem'}",
            f"--tls-private-key-file={folder / 'key.pem'}",
            f"--token-auth-file={folder / 'tokens.csv'}",
            "--authorization-mode=Node,RBAC",
            "--enable-admission-plugins=NodeRestriction",
            "--enable-aggregator-routing=true",
            "--kubelet-preferred-address-types=InternalIP",
            "--service-account-issuer=https://kubernetes.default.svc",
            f"--service-account-signing-key-file={folder / 'key.pem'}",
            f"--service-account-key-file={folder / 'server.pem'}",
            "--service-cluster-ip-range=10.215.0.0/24",
        )

    def _connect_node(self, node: Machine) -> None:
        # The cable of a node that failed goes a moment after it.
        self.until(lambda: f" {node.name}@" not in self.control.run("ip", "-oneline", "link"), "the cable is free")
        connect(self.control, node.name, node, "eth0")
        _ip(self.control, "link", "set", node.name, "master", "switch", "up")
        _ip(node, "addr", "add", f"{self._address(node.name)}/24", "dev", "eth0")
        _ip(node, "link", "set", "eth0", "up")
        _ip(node, "route", "add", "default", "via", CONTROL)
        # A node sends what is for pods elsewhere to the control plane, which knows where they are.
        _ip(self.control, "route", "replace", self._pods(node.name), "via", self._address(node.name))

    def _begin_controllers(self) -> None:
        programs, folder = kubernetes_binaries.cache(), self.folder
        self.control.start(
            "kube-controller-manager",
            programs / "kube-controller-manager",
            f"--kubeconfig={self._kubeconfig('controller-manager')}",
            f"--cert-dir={self.control.folder / 'controller-manager'}",
            "--leader-elect=false",
            "--use-service-account-credentials=true",
            f"--service-account-private-key-file={folder / 'key.pem'}",
            f"--root-ca-file={folder / 'authority.pem'}",
            f"--node-monitor-grace-period={GRACE_PERIOD}s",
        )
        self.control.start(
            "kube-scheduler",
            node_binaries.folder() / "kube-scheduler",
            f"--kubeconfig={self._kubeconfig('scheduler')}",
            f"--cert-dir={self.control.folder / 'scheduler'}",
            "--leader-elect=false",
        )

    def _begin_containerd(self, node: Machine, archive: Path | None) -> None:
        programs = node_binaries.folder()
        networks = node.folder / "networks"
        networks.mkdir(exist_ok=True)
        (networks / "pods.conflist").write_text(json.dumps(_pod_network(node, self._pods(node.name))))
        settings = node.folder / "containerd.toml"
        settings.write_text(_containerd_settings(node, networks))
        node.start("containerd", programs / "containerd", "--config", settings, environment=_path(programs))
        ctr = (programs / "ctr", "--namespace=k8s.io")
        self.until(lambda: node.run(*ctr, "version", check=False).count("Version:") == 2, "containerd answers")
        if archive is not None:
            node.run(*ctr, "images", "import", archive, seconds=120)

    def _begin_kubelet(self, node: Machine) -> None:
        programs = node_binaries.folder()
        settings = node.folder / "kubelet.yaml"
        settings.write_text(yaml.safe_dump(self._kubelet_settings(node.name)))
        node.start(
            "kubelet",
            programs / "kubelet",
            f"--config={settings}",
            f"--kubeconfig={self._kubeconfig(node.name)}",
            f"--root-dir={node.folder / 'kubelet'}",
            f"--cert-dir={node.folder / 'kubelet-certificates'}",
            f"--hostname-override={node.name}",
            f"--node-ip={self._address(node.name)}",
            environment=_path(programs),
        )

    def _address(self, name: str) -> str:
        return f"10.214.0.{10 + self._number(name)}"

    def _pods(self, name: str) -> str:
        return f"10.214.{self._number(name)}.0/24"

    def _number(self, name: str) -> int:
        return self._names.index(name) + 1

    def _kubelet_settings(self, name: str) -> dict[str, Any]:
        return {
            "apiVersion": "kubelet.config.k8s.io/v1beta1",
            "kind": "KubeletConfiguration",
            "failCgroupV1": False,
            "cgroupDriver": "cgroupfs",
            "cgroupRoot": f"{self._cgroup}/{name}",
            "containerRuntimeEndpoint": "unix:///run/containerd/containerd.sock",
            "address": self._address(name),
            # Only the control plane and the other node can reach it.
            "authentication": {"anonymous": {"enabled": True}, "webhook": {"enabled": False}},
            "authorization": {"mode": "AlwaysAllow"},
            "failSwapOn": False,
            # A full disk of this machine is no reason to evict, and images cannot be pulled again.
            "evictionHard": {"memory.available": "50Mi", "nodefs.available": "1%", "imagefs.available": "1%"},
            "imageGCHighThresholdPercent": 100,
            "imageGCLowThresholdPercent": 99,
            "nodeStatusUpdateFrequency": "2s",
            "nodeLeaseDurationSeconds": 8,
            "resolvConf": "",
            "clusterDNS": ["10.215.0.10"],  # no server is there
        }


@contextlib.contextmanager
def node_cluster(
    folder: Path, archive: Path, names: Sequence[str] = NODES, cpus: int | None = None
) -> Iterator[NodeCluster]:
    """A cluster for the time of a ``with`` block. ``cpus`` is what every node offers, if not those of this machine."""
    with cgroups.own_cgroup(list(names), with_pods=cpus is not None) as cgroup:
        cluster = NodeCluster(folder, cgroup, names, cpus)
        try:
            cluster.begin(archive)
            yield cluster
        finally:
            cluster.end()


def is_ready(node: dict[str, Any]) -> bool:
    """Whether a node is ready for pods."""
    conditions = {each["type"]: each["status"] for each in node["status"].get("conditions", ())}
    return conditions.get("Ready") == "True" and not node["spec"].get("taints")


def _ip(machine: Machine, *arguments: str) -> None:
    machine.run("ip", *arguments)


def _path(programs: Path) -> dict[str, str]:
    return {"PATH": f"{programs}{os.pathsep}{os.environ['PATH']}"}


def _pod_network(node: Machine, subnet: str) -> dict[str, Any]:
    addresses = {
        "type": "host-local",
        "dataDir": str(node.folder / "addresses"),
        "ranges": [[{"subnet": subnet}]],
    }
    bridge = {"type": "bridge", "bridge": "pods", "isDefaultGateway": True, "ipMasq": False, "ipam": addresses}
    return {"cniVersion": "1.0.0", "name": "pods", "plugins": [bridge]}


def _containerd_settings(node: Machine, networks: Path) -> str:
    # runc cannot start a container with a lower score than its own where nobody may lower scores, as in many sandboxes.
    restricted = str(not _may_lower_oom_score()).lower()
    cri = "io.containerd.cri.v1"
    return f"""
version = 3
root = "{node.folder}/containerd"
state = "/run/containerd"
[grpc]
  address = "/run/containerd/containerd.sock"
[plugins.'{cri}.images'.pinned_images]
  sandbox = "{PAUSE_IMAGE}"
[plugins.'{cri}.runtime']
  disable_apparmor = true
  restrict_oom_score_adj = {restricted}
[plugins.'{cri}.runtime'.containerd.runtimes.runc]
  runtime_type = "io.containerd.runc.v2"
[plugins.'{cri}.runtime'.containerd.runtimes.runc.options]
  SystemdCgroup = false
[plugins.'{cri}.runtime'.cni]
  bin_dirs = ["{node_binaries.folder()}"]
  conf_dir = "{networks}"
"""


def _may_lower_oom_score() -> bool:
    score = Path("/proc/self/oom_score_adj")
    before = score.read_text()
    try:
        score.write_text("-998")
    except OSError:
        return False
    score.write_text(before)
    return True
