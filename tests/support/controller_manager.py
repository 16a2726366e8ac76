"""kube-controller-manager beside a real API server: what makes pods of Deployments and Jobs and deletes namespaces.

Only the controllers that the embedded server has too, so that both are the same to a client.
"""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path

import yaml

from benchmarks import kubernetes
from kubesim.kubelet.node_agents import LEASE_SECONDS

NAME = "kube-controller-manager"
CONTROLLERS = (
    "deployment-controller",
    "disruption-controller",
    "garbage-collector-controller",
    "job-controller",
    "namespace-controller",
    "node-lifecycle-controller",
    "replicaset-controller",
    "resourcequota-controller",
    "serviceaccount-controller",
    "taint-eviction-controller",
    "ttl-after-finished-controller",
)


def binary() -> Path | None:
    """Where it is: beside kube-apiserver, or on ``PATH``."""
    beside = Path(os.environ.get("K8S_BIN", "")) / NAME
    if os.access(beside, os.X_OK):
        return beside
    on_path = shutil.which(NAME)
    return Path(on_path) if on_path else None


@contextlib.contextmanager
def controller_manager(administrator: Path, log: Path, controllers: Sequence[str] = CONTROLLERS) -> Iterator[None]:
    """The controllers at work for the time of a ``with`` block, with the administrator's rights but their own name."""
    found = binary()
    assert found is not None, f"{NAME} is neither in K8S_BIN nor on PATH"
    kubeconfig = administrator.with_name(f"{NAME}.kubeconfig")
    access = yaml.safe_load(administrator.read_text())
    access["users"][0]["user"] |= {"as": f"system:{NAME}", "as-groups": ["system:masters"]}
    kubeconfig.write_text(yaml.safe_dump(access))
    command = [str(found), f"--kubeconfig={kubeconfig}", f"--controllers={','.join(controllers)}"]
    command += ["--leader-elect=false", "--secure-port=0", "--kube-api-qps=500", "--kube-api-burst=1000"]
    command += [f"--node-monitor-grace-period={LEASE_SECONDS}s"]  # simulated nodes renew their leases that rarely
    with kubernetes.started(log, command) as process:
        yield
        assert process.poll() is None, f"{NAME} ended:\n{log.read_text()[-2000:]}"
