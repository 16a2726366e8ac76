"""The kinds Endpoints and EndpointSlice: the addresses of the ready pods behind a Service."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial
from typing import Any, Final

from kubesim.api.field_errors import FieldProblem, duplicate, invalid, required, unsupported
from kubesim.kinds.pods.containers import PROTOCOLS
from kubesim.kinds.pods.names import check_address, check_label, check_port
from kubesim.kinds.schema_dsl import OBJECT_REFERENCE, expand_schema
from kubesim.registry.registry import Context, Object, Resource, Strategy, TableColumn
from kubesim.schema import Schema
from kubesim.tables import AGE, NAME

ADDRESS_TYPES: Final = ("FQDN", "IPv4", "IPv6")
SHOWN: Final = 3
"""How many addresses or ports a table shows before it counts the rest."""

SHAPES: Final = (
    """
Endpoints
  subsets [EndpointSubset]
EndpointSubset
  addresses [EndpointAddress]
  notReadyAddresses [EndpointAddress]
  ports [SubsetPort]
EndpointAddress
  hostname text
  ip! text
  nodeName text
  targetRef ObjectReference atomic
SubsetPort
  appProtocol text
  name text
  port! int32
  protocol text
EndpointSlice
  addressType! text
  endpoints [Endpoint]
  ports [SlicePort]
Endpoint
  addresses [text]
  conditions! EndpointConditions
  deprecatedTopology {text}
  hints EndpointHints
  hostname text
  nodeName text
  targetRef ObjectReference atomic
  zone text
EndpointConditions
  ready bool
  serving bool
  terminating bool
EndpointHints
  forNodes [NodeHint]
  forZones [ZoneHint]
NodeHint
  name! text
ZoneHint
  name! text
SlicePort
  appProtocol text
  name text
  port int32
  protocol text
"""
    + OBJECT_REFERENCE
)


class EndpointsStrategy(Strategy):
    """Addresses and ports by subset."""

    def on_create(self, new: Object, context: Context) -> None:
        """Ports are TCP unless they say otherwise."""
        self.on_update(new, new, context)

    def on_update(self, new: Object, old: Object, context: Context) -> None:
        """The same on update."""
        for subset in new.get("subsets") or ():
            for port in subset.get("ports") or ():
                port["protocol"] = port.get("protocol") or "TCP"

    def check(self, new: Object) -> Iterator[FieldProblem]:
        """A subset has addresses, and each of them is one."""
        for index, subset in enumerate(new.get("subsets") or ()):
            field = f"subsets[{index}]"
            if not subset.get("addresses") and not subset.get("notReadyAddresses"):
                yield required(field, "must specify `addresses` or `notReadyAddresses`")
            for name in ("addresses", "notReadyAddresses"):
                for number, address in enumerate(subset.get(name) or ()):
                    place = f"{field}.{name}[{number}].ip"
                    for problem in check_address(address["ip"], place):  # which the real server reports twice
                        yield invalid(place, address["ip"], "must be a valid IP address")
                        yield problem
            for number, port in enumerate(subset.get("ports") or ()):
                if port.get("name"):
                    yield from check_label(port["name"], f"{field}.ports[{number}].name")
                yield from check_port(port["port"], f"{field}.ports[{number}].port")
            yield from _check_protocols(subset.get("ports") or (), f"{field}.ports")


class EndpointSliceStrategy(Strategy):
    """Addresses of one family."""

    has_generation = True

    def on_create(self, new: Object, context: Context) -> None:
        """Ports are TCP and have an empty name unless they say otherwise."""
        self.on_update(new, new, context)

    def on_update(self, new: Object, old: Object, context: Context) -> None:
        """The same on update."""
        for port in new.get("ports") or ():
            port["protocol"] = port.get("protocol") or "TCP"
            port.setdefault("name", "")

    def check(self, new: Object) -> Iterator[FieldProblem]:
        """The family, and addresses of it."""
        family = new["addressType"]
        if not family:
            yield required("addressType")
        elif family not in ADDRESS_TYPES:
            yield unsupported("addressType", family, ADDRESS_TYPES)
        for index, endpoint in enumerate(new.get("endpoints") or ()):
            field = f"endpoints[{index}].addresses"
            if not endpoint.get("addresses"):
                yield required(field, "must contain at least 1 address")
            for number, address in enumerate(endpoint.get("addresses") or () if family != "FQDN" else ()):
                yield from check_address(address, f"{field}[{number}]")
        names: set[str] = set()
        for index, port in enumerate(new.get("ports") or ()):
            if port["name"] in names:
                yield duplicate(f"ports[{index}].name", port["name"])
            names.add(port["name"])
        yield from _check_protocols(new.get("ports") or (), "ports")

    def check_update(self, new: Object, old: Object) -> Iterator[FieldProblem]:
        """The family is decided when the slice is created."""
        if new["addressType"] != old["addressType"]:
            yield invalid("addressType", new["addressType"], "field is immutable")


def _check_protocols(ports: Iterable[Object], field: str) -> Iterator[FieldProblem]:
    for index, port in enumerate(ports):
        if port["protocol"] not in PROTOCOLS:
            yield unsupported(f"{field}[{index}].protocol", port["protocol"], PROTOCOLS)


# ---- tables -----------------------------------------------------------------------------------------------


def _first(found: list[str]) -> str:
    if not found:
        return "<none>"
    more = f" + {len(found) - SHOWN} more..." if len(found) > SHOWN else ""
    return ",".join(found[:SHOWN]) + more


def _subset_addresses(found: Object) -> str:
    return _first(
        [
            f"{address['ip']}:{port['port']}" if port else address["ip"]
            for subset in found.get("subsets") or ()
            for port in subset.get("ports") or (None,)
            for address in subset.get("addresses") or ()
        ]
    )


def _slice_ports(found: Object) -> str:
    ports: list[Any] = [port.get("port", "*") for port in found.get("ports") or ()]
    return _first([str(port) for port in ports]) if ports else "<unset>"


def _slice_addresses(found: Object) -> str:
    endpoints = found.get("endpoints") or ()
    return (
        _first([address for endpoint in endpoints for address in endpoint.get("addresses") or ()])
        if endpoints
        else "<unset>"
    )


def endpoints() -> Resource:
    """The resource ``endpoints``."""
    return Resource(
        group="",
        version="v1",
        plural="endpoints",
        kind="Endpoints",
        namespaced=True,
        schema=Schema.sound(partial(expand_schema, SHAPES, "Endpoints")),
        strategy=EndpointsStrategy(),
        columns=(NAME, TableColumn("Endpoints", _subset_addresses, description="Addresses and ports."), AGE),
        singular="endpoints",
        short_names=("ep",),
        own_list_kind="EndpointsList",
        deprecation="v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice",
    )


def endpoint_slices() -> Resource:
    """The resource ``endpointslices``."""
    return Resource(
        group="discovery.k8s.io",
        version="v1",
        plural="endpointslices",
        kind="EndpointSlice",
        namespaced=True,
        schema=Schema.sound(partial(expand_schema, SHAPES, "EndpointSlice")),
        strategy=EndpointSliceStrategy(),
        columns=(
            NAME,
            TableColumn("AddressType", lambda found: found["addressType"], description="The family of its addresses."),
            TableColumn("Ports", _slice_ports, description="Ports of all its addresses."),
            TableColumn("Endpoints", _slice_addresses, description="Addresses."),
            AGE,
        ),
        singular="endpointslice",
    )
