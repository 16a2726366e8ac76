"""The machine as a Node of the API: registered, reported, kept alive by a Lease."""

from __future__ import annotations

import asyncio
import logging
import os
import platform
import time
from pathlib import Path

from kubebase.timestamps import micro_stamp, stamp
from pumice import __version__
from pumice.agent.machine import Machine
from pumice.agent.shim.process_table import boot_id
from pumice.kube.client.api import Api
from pumice.kube.client.api_errors import ApiError, UnreachableError
from pumice.kube.resources import LEASES, NODES, Document

LEASE_NAMESPACE = "kube-node-lease"
LEASE_SECONDS = 40
RENEW_SECONDS = 10.0
REPORT_SECONDS = 300.0
SIMULATED = "pumice.dev/simulated"
RUNTIME_LABEL = {"pumice.dev/runtime": "process"}
"""The label by which users choose nodes that run pods as processes."""
PRESSURES = ("MemoryPressure", "DiskPressure", "PIDPressure")

log = logging.getLogger(__name__)


class NodeRegistration:
    """One node."""

    def __init__(self, api: Api, name: str, machine: Machine, address: str, port: int) -> None:
        self._api = api
        self._name = name
        self._machine = machine
        self._address = address
        self._port = port
        self._uid = ""
        self._reported = 0.0
        self.trouble = "the node is not registered"
        """Why the API has not heard of the node lately; empty: it has."""

    async def run(self) -> None:
        """Register the node, and keep it alive until cancelled."""
        while True:
            try:
                if not self._uid or time.monotonic() - self._reported >= REPORT_SECONDS:
                    await self._report()
                await self._renew_lease()
                self.trouble = ""
                pause = RENEW_SECONDS
            except (ApiError, UnreachableError) as error:
                if not self.trouble:
                    log.warning(
                        'Failed to renew the lease of the node, retrying: node=%s error="%s"', self._name, error
                    )
                self.trouble, pause = str(error), 1.0
            await asyncio.sleep(pause)

    async def _report(self) -> None:
        """Create the node or bring it up to date. Taints and cordons of others stay."""
        wanted = self._node()
        try:
            found = await self._api.create(NODES.raw, wanted)
        except ApiError as error:
            if not error.already_exists:
                raise
            about = {"labels": wanted["metadata"]["labels"], "annotations": wanted["metadata"]["annotations"]}
            found = await self._api.patch(NODES.raw, self._name, {"metadata": about})
        old = {entry["type"]: entry for entry in (found.get("status") or {}).get("conditions") or ()}
        status = {**wanted["status"], "conditions": self._conditions(old)}
        await self._api.patch_status(NODES.raw, self._name, status)
        self._uid = found["metadata"]["uid"]
        self._reported = time.monotonic()

    def _node(self) -> Document:
        identity = _machine_id()
        return {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {
                "name": self._name,
                "labels": {**self._machine.labels, **RUNTIME_LABEL, "kubernetes.io/hostname": self._name},
                "annotations": {SIMULATED: "false"},
            },
            "status": {
                "capacity": self._machine.capacity,
                "allocatable": self._machine.allocatable,
                "addresses": [
                    {"type": "InternalIP", "address": self._address},
                    {"type": "Hostname", "address": self._name},
                ],
                "daemonEndpoints": {"kubeletEndpoint": {"Port": self._port}},
                "nodeInfo": {
                    "architecture": self._machine.labels["kubernetes.io/arch"],
                    "bootID": boot_id(),
                    "containerRuntimeVersion": f"pumice://{__version__}",
                    "kernelVersion": os.uname().release,
                    "kubeProxyVersion": "",
                    "kubeletVersion": f"v1.36.0-pumice-{__version__}",
                    "machineID": identity,
                    "operatingSystem": "linux",
                    "osImage": _os_name(),
                    "systemUUID": identity,
                },
            },
        }

    def _conditions(self, old: dict[str, Document]) -> list[Document]:
        now = stamp(time.time())
        wanted = [("Ready", "True", "AgentReady", "pumice agent runs pods as processes")]
        wanted += [(kind, "False", f"Agent{kind}NotMeasured", "not measured") for kind in PRESSURES]
        found = []
        for kind, holds, reason, message in wanted:
            before = old.get(kind)
            since = before["lastTransitionTime"] if before and before["status"] == holds else now
            entry = {"type": kind, "status": holds, "reason": reason, "message": message}
            found.append({**entry, "lastHeartbeatTime": now, "lastTransitionTime": since})
        return found

    async def _renew_lease(self) -> None:
        spec = {
            "holderIdentity": self._name,
            "leaseDurationSeconds": LEASE_SECONDS,
            "renewTime": micro_stamp(time.time()),
        }
        try:
            await self._api.patch(LEASES, self._name, {"spec": spec}, LEASE_NAMESPACE)
        except ApiError as error:
            if not error.not_found:
                raise
            owner = {"apiVersion": "v1", "kind": "Node", "name": self._name, "uid": self._uid}
            about = {"name": self._name, "namespace": LEASE_NAMESPACE, "ownerReferences": [owner]}
            await self._api.create(
                LEASES, {"apiVersion": LEASES.api_version, "kind": LEASES.kind, "metadata": about, "spec": spec}
            )


def _machine_id() -> str:
    try:
        return Path("/etc/machine-id").read_text().strip() or boot_id()
    except OSError:
        return boot_id()


def _os_name() -> str:
    try:
        return str(platform.freedesktop_os_release().get("PRETTY_NAME", "Linux"))
    except OSError:
        return "Linux"
