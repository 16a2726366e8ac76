"""The capacity of a simulated node: resources and pod addresses in use, and whether another pod fits.

As on a real node, a pod is admitted or rejected when it arrives, whatever the scheduler assumed. Extended resources
that the node does not have are ignored.
"""

from __future__ import annotations

from contextlib import suppress
from ipaddress import IPv4Network
from socket import AF_INET, inet_ntoa, inet_pton
from typing import NamedTuple

from kubebase.pod_request import pod_request
from kubebase.resource_vector import CPU, MEMORY, PODS, Registry, ResourceError, Vector, add, subtract, widen
from kubesim.registry.registry import Object

FIRST_ADDRESS = 2  # 0 is the network, 1 the node


def requested_vector(pod: Object, registry: Registry) -> Vector:
    """What a pod takes of its node."""
    spec = pod["spec"]
    return pod_request(
        registry,
        spec["containers"],
        spec.get("initContainers") or (),
        spec.get("overhead"),
        spec.get("resources"),
    )


class Shortage(NamedTuple):
    """A resource of which a node has not enough left; amounts in its own unit (cpu in milli)."""

    resource: str
    requested: int
    used: int
    capacity: int

    def __str__(self) -> str:
        amounts = f"requested: {self.requested}, used: {self.used}, capacity: {self.capacity}"
        return f"Node didn't have enough resource: {self.resource}, {amounts}"


class NodeCapacity:
    """The room on one node."""

    __slots__ = ("_addresses", "_addresses_in_all", "_first", "_last", "_registry", "_total", "_used")

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._total: Vector = ()
        self._used: Vector = ()
        self._set_network(IPv4Network("10.0.0.0/24"))
        self._addresses: set[int] = set()
        self._last = FIRST_ADDRESS - 1

    def resize(self, node: Object) -> None:
        """Set the capacity from the node's status."""
        allocatable = (node.get("status") or {}).get("allocatable") or {}
        try:
            self._total = self._registry.vector(allocatable, where="status.allocatable")
        except ResourceError:
            self._total = ()
        with suppress(ValueError):  # a node whose network is IPv6: its pods get addresses of the first network
            self._set_network(IPv4Network((node.get("spec") or {}).get("podCIDR") or "10.0.0.0/24", strict=False))

    def _set_network(self, network: IPv4Network) -> None:
        self._first, self._addresses_in_all = int(network.network_address), network.num_addresses

    def shortage(self, request: Vector) -> Shortage | None:
        """The first resource of which there is not enough."""
        names = self._registry.names
        width = len(names)
        total, used = widen(self._total, width), widen(self._used, width)
        for place in (PODS, CPU, MEMORY, *range(PODS + 1, len(request))):
            wanted = request[place]
            if not wanted or used[place] + wanted <= total[place]:
                continue
            if total[place] == 0 and "/" in names[place]:
                continue
            unit = 1 if place in {CPU, MEMORY, PODS} else 1000
            return Shortage(names[place], wanted // unit, used[place] // unit, total[place] // unit)
        return None

    def reserve(self, request: Vector, address: str = "") -> None:
        """Count a pod, and the address it already has."""
        self._used = add(self._used, request)
        number = self._number(address)
        if number is not None:
            self._addresses.add(number)

    def release(self, request: Vector, address: str) -> None:
        """Count a pod no longer."""
        self._used = subtract(self._used, request)
        number = self._number(address)
        if number is not None:
            self._addresses.discard(number)

    def new_address(self) -> str:
        """An address for one more pod: the next after the last that is free."""
        size = self._addresses_in_all - FIRST_ADDRESS - 1
        if size < 1:
            return _as_text(self._first)
        for _ in range(size):
            self._last += 1
            if self._last >= FIRST_ADDRESS + size:
                self._last = FIRST_ADDRESS
            if self._last not in self._addresses:
                break
        return _as_text(self._first + self._last)  # a node with more pods than addresses shares them

    def _number(self, address: str) -> int | None:
        if not address:
            return None
        try:
            number = int.from_bytes(inet_pton(AF_INET, address)) - self._first
        except (OSError, ValueError):
            return None
        return number if FIRST_ADDRESS <= number < self._addresses_in_all else None


def _as_text(address: int) -> str:
    return inet_ntoa(address.to_bytes(4))
