"""Allocation of what a Service gets from a range: its cluster IP, and a node port for each of its ports.

What is allocated stands in the Services themselves, so nothing else is stored. The allocator remembers which Service
has which number and asks it before it calls a number taken: a Service may have been deleted, or never stored because
it was invalid.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from ipaddress import IPv4Address, IPv4Network
from typing import Final

from kubesim.registry.registry import Context, Object

SERVICES: Final = "services"
SERVICE_NETWORK: Final = "172.20.0.0/16"
"""Addresses of pods are in 10.0.0.0/8, so that no pod has the address of a Service."""
NODE_PORTS: Final = (30000, 32767)
HEADLESS: Final = "None"

Numbers = Callable[[Object], Iterable[int]]
"""The numbers that a Service holds."""


class NumberAllocator:
    """Numbers of a range, each held by at most one Service."""

    def __init__(self, first: int, last: int, held_by: Numbers) -> None:
        self._first, self._last = first, last
        self._held_by = held_by
        self._holders: dict[int, tuple[str, str]] | None = None  # namespace and name; None: not read yet
        self._next = first

    def __contains__(self, number: int) -> bool:
        return self._first <= number <= self._last

    def is_free(self, number: int, service: Object, context: Context) -> bool:
        """Whether no other Service holds a number."""
        holder = self._known_holders(context).get(number)
        if holder is None or holder == _place(service):
            return True
        found = context.find(SERVICES, *holder)
        return found is None or number not in self._held_by(found)

    def hold(self, number: int, service: Object, context: Context) -> None:
        """Remember the holder of a number."""
        self._known_holders(context)[number] = _place(service)

    def allocate(self, service: Object, context: Context) -> int | None:
        """A free number for a Service; None if all are held."""
        for number in self._candidates():
            if self.is_free(number, service, context):
                self._next = number + 1
                self.hold(number, service, context)
                return number
        return None

    def _candidates(self) -> Iterator[int]:
        yield from range(self._next, self._last + 1)
        yield from range(self._first, self._next)

    def _known_holders(self, context: Context) -> dict[int, tuple[str, str]]:
        if self._holders is None:
            self._holders = {
                number: _place(found) for found in context.list(SERVICES, "") for number in self._held_by(found)
            }
        return self._holders


def _place(service: Object) -> tuple[str, str]:
    about = service["metadata"]
    return about["namespace"], about.get("name", "")


def cluster_ips() -> NumberAllocator:
    """An allocator of cluster IPs, as integers; network and broadcast address are not given away."""
    network = IPv4Network(SERVICE_NETWORK)
    return NumberAllocator(int(network.network_address) + 1, int(network.broadcast_address) - 1, _addresses)


def node_ports() -> NumberAllocator:
    """An allocator of node ports."""
    return NumberAllocator(*NODE_PORTS, _node_ports)


def as_number(address: str) -> int | None:
    """An IPv4 address as an integer; None if it is none."""
    try:
        return int(IPv4Address(address))
    except ValueError:
        return None


def as_address(number: int) -> str:
    """The text of an address."""
    return str(IPv4Address(number))


def _addresses(service: Object) -> Iterator[int]:
    for address in service["spec"].get("clusterIPs") or ():
        if (number := as_number(address)) is not None:
            yield number


def _node_ports(service: Object) -> Iterator[int]:
    spec = service["spec"]
    yield from (port["nodePort"] for port in spec.get("ports") or () if port.get("nodePort"))
    if spec.get("healthCheckNodePort"):
        yield spec["healthCheckNodePort"]
