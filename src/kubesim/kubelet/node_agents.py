"""The simulated nodes: registration, status reports and leases.

Existing nodes are taken over at start; nodes that a client creates later are simulated as well, unless they are
annotated ``simulated: "false"`` (in the domain of the product). A node annotated ``missing-programs: "xyz train.sh"``
simulates images that lack these programs: commands that run one of them exit with 127.

A real kubelet renews its lease every 10 seconds. Thousands of simulated ones would do nothing else, so their leases are
long and renewed rarely; the node lifecycle controller does not need them for simulated nodes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence

from kubebase.resource_vector import Registry
from kubesim.api.client import InProcessClient
from kubesim.api.status import ApiError
from kubesim.clock import Clock, micro_stamp, stamp
from kubesim.controllers.conditions import is_condition_true
from kubesim.controllers.nodes.node_lifecycle import LEASE_NAMESPACE, LEASES, is_lost, is_simulated
from kubesim.identity import ServerIdentity
from kubesim.kubelet.node_capacity import NodeCapacity
from kubesim.kubelet.node_template import fill_in_node, internal_address, node_number, report_node_status
from kubesim.registry.registry import Object

AT_ONCE = 256
MISSING_PROGRAMS = "missing-programs"
LEASE_SECONDS = 3600
RENEW_SECONDS = 1200.0


class NodeAgent:
    """The kubelet's state of a node. Without a uid the node does not exist, but pods are bound to its name."""

    __slots__ = ("address", "alive", "capacity", "missing_programs", "name", "pods", "uid")

    def __init__(self, name: str, registry: Registry) -> None:
        self.name = name
        self.uid = ""
        self.alive = False
        self.address = ""
        self.capacity = NodeCapacity(registry)
        self.missing_programs = frozenset[str]()
        self.pods: set[str] = set()


class NodeAgents:
    """All simulated nodes, and the writes of their kubelets to nodes and leases."""

    def __init__(self, api: InProcessClient, clock: Clock, capacity: Mapping[str, str], registry: Registry) -> None:
        self._api = api
        self._clock = clock
        self._capacity = capacity
        self._registry = registry
        self._agents: dict[str, NodeAgent] = {}
        self._numbers: set[int] = set()
        self._next_number = 0

    def __len__(self) -> int:
        """How many nodes are alive."""
        return sum(host.alive for host in self._agents.values())

    def get_or_add(self, name: str) -> NodeAgent:
        """The agent of a node, whether or not the node exists."""
        host = self._agents.get(name)
        if host is None:
            host = self._agents[name] = NodeAgent(name, self._registry)
        return host

    def on_node_change(self, node: Object, *, deleted: bool) -> NodeAgent:
        """Handle a change of a node. The caller updates whether it is alive."""
        host = self.get_or_add(node["metadata"]["name"])
        if deleted:
            host.uid = ""
        else:
            host.uid = node["metadata"]["uid"]
            host.address = internal_address(node)
            host.capacity.resize(node)
            host.missing_programs = self._missing_programs(node)
            self._take_number(node)
        return host

    def _missing_programs(self, node: Object) -> frozenset[str]:
        annotations = node["metadata"].get("annotations") or {}
        return frozenset(annotations.get(self._api.identity.annotation(MISSING_PROGRAMS), "").split())

    def drop_unused(self, host: NodeAgent) -> None:
        """Remove an agent whose node does not exist and has no pods."""
        if not host.uid and not host.pods:
            self._agents.pop(host.name, None)

    # ---- numbers, from which addresses are made -----------------------------------------------------------

    def _new_number(self) -> int:
        while self._next_number in self._numbers:
            self._next_number += 1
        self._numbers.add(self._next_number)
        return self._next_number

    def _take_number(self, node: Object) -> None:
        number = node_number(node)
        if number is not None:
            self._numbers.add(number)

    # ---- writes -------------------------------------------------------------------------------------------

    async def register(self, wanted: Sequence[Object]) -> None:
        """Create the nodes that do not exist; set the capacity of those that do."""
        for node in self._api.list("nodes"):
            self._take_number(node)
        for first in range(0, len(wanted), AT_ONCE):
            await asyncio.gather(*map(self._register, wanted[first : first + AT_ONCE]))

    async def _register(self, wanted: Object) -> None:
        name = wanted["metadata"]["name"]
        if self._api.read("nodes", "", name) is not None:
            await self._resize(name, wanted.get("status") or {})
            return
        new = {**wanted, "apiVersion": "v1", "kind": "Node", "metadata": dict(wanted["metadata"])}
        new["spec"] = dict(wanted.get("spec") or {})
        new["status"] = dict(wanted.get("status") or {})
        fill_in_node(new, self._new_number(), stamp(self._clock.now()), self._capacity, self._api.identity)
        self._take_number(new)
        try:
            await self._api.create("nodes", "", new)
        except ApiError as error:
            if error.reason != "AlreadyExists":
                raise

    async def _resize(self, name: str, wanted: Object) -> None:
        capacity = wanted.get("capacity")
        if not capacity:
            return

        def edit(node: Object) -> None:
            status = node.setdefault("status", {})
            status["capacity"] = dict(capacity)
            status["allocatable"] = dict(wanted.get("allocatable") or capacity)

        await self._api.modify("nodes", "", name, edit, subresource="status")

    async def report_status(self, name: str) -> None:
        """Report the status of a node that is alive."""
        node = self._api.read("nodes", "", name)
        if node is None:
            return
        known = node_number(node)
        number = self._new_number() if known is None else known
        now = stamp(self._clock.now())
        identity = self._api.identity
        await self._api.modify(
            "nodes", "", name, lambda found: fill_in_node(found, number, now, self._capacity, identity)
        )

        def edit(found: Object) -> None:
            if is_alive(found, identity):
                report_node_status(found, number, now, self._capacity, identity)

        await self._api.modify("nodes", "", name, edit, subresource="status")

    async def renew_lease(self, name: str) -> float | None:
        """Renew the lease of a node. Returns when to renew it again; None if the node is not alive."""
        host = self.get_or_add(name)
        if not host.alive:
            self.drop_unused(host)
            return None
        owner = {"apiVersion": "v1", "kind": "Node", "name": name, "uid": host.uid}
        now = micro_stamp(self._clock.now())
        spec = {"holderIdentity": name, "leaseDurationSeconds": LEASE_SECONDS, "renewTime": now}

        def edit(lease: Object) -> None:
            lease["spec"] = {**(lease.get("spec") or {}), **spec}
            lease["metadata"]["ownerReferences"] = [owner]

        if await self._api.modify(LEASES, LEASE_NAMESPACE, name, edit) is None:
            lease = {"metadata": {"name": name, "ownerReferences": [owner]}, "spec": spec}
            await self._api.create(LEASES, LEASE_NAMESPACE, lease)
        return self._clock.now() + RENEW_SECONDS


def is_alive(node: Object, identity: ServerIdentity) -> bool:
    """Whether the node is simulated and not lost."""
    return is_simulated(node, identity) and not is_lost(node, identity)


def is_fully_reported(node: Object) -> bool:
    """Whether a node's status is complete and Ready."""
    status = node.get("status") or {}
    return bool(
        is_condition_true(status, "Ready")
        and status.get("allocatable")
        and status.get("nodeInfo")
        and internal_address(node)
        and (node.get("spec") or {}).get("podCIDR")
    )
