"""The kind Node, real or simulated."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator
from functools import cache
from typing import Final

from kubesim import tables
from kubesim.api.field_errors import FieldErrorType, FieldProblem, forbidden, invalid, required, unsupported
from kubesim.api.metadata import check_label_key, check_label_value
from kubesim.kinds.pods.placement import EFFECTS
from kubesim.kinds.pods.resources import canonical, check_amount
from kubesim.kinds.schema_dsl import OpenApi, expand_schema
from kubesim.registry.registry import Context, Object, Resource, Strategy
from kubesim.schema import Schema
from kubesim.tables import nodes as table

SHAPES: Final = """
Node
  spec! NodeSpec
  status NodeStatus

NodeSpec
  configSource any
  externalID text
  podCIDR text
  podCIDRs [text] merged
  providerID text
  taints [Taint]
  unschedulable bool
Taint
  effect! text
  key! text
  timeAdded time
  value text

NodeStatus
  addresses [NodeAddress] by type
  allocatable {quantity}
  capacity {quantity}
  conditions [NodeCondition] by type
  config any
  daemonEndpoints NodeDaemonEndpoints
  declaredFeatures [text]
  features any
  images [ContainerImage]
  nodeInfo NodeSystemInfo
  phase text
  runtimeHandlers [any]
  volumesAttached [any]
  volumesInUse [text]
NodeAddress
  address! text
  type! text
NodeCondition
  lastHeartbeatTime time
  lastTransitionTime time
  message text
  reason text
  status! text
  type! text
NodeDaemonEndpoints
  kubeletEndpoint DaemonEndpoint
DaemonEndpoint
  Port! int32
ContainerImage
  names [text]
  sizeBytes int64
NodeSystemInfo
  architecture! text
  bootID! text
  containerRuntimeVersion! text
  kernelVersion! text
  kubeProxyVersion! text
  kubeletVersion! text
  machineID! text
  operatingSystem! text
  osImage! text
  swap any
  systemUUID! text
"""


@cache
def node_openapi(*, custom: bool = False) -> OpenApi:
    """The schema of a Node without what every object has."""
    return expand_schema(SHAPES, "Node", custom=custom)


class NodeStrategy(Strategy):
    """A node is created with its status, because the kubelet that registers it knows its capacity."""

    def on_create(self, new: Object, context: Context) -> None:
        """Fill in defaults of spec and status."""
        _complete(new)

    def on_update(self, new: Object, old: Object, context: Context) -> None:
        """Fill in defaults of spec and status."""
        _complete(new)

    def on_status(self, new: Object, old: Object, context: Context) -> None:
        """Fill in defaults of spec and status."""
        _complete(new)

    def check(self, new: Object) -> Iterator[FieldProblem]:
        """The problems of a node."""
        yield from _check_taints(new["spec"].get("taints", ()))
        yield from _check_ranges(new["spec"].get("podCIDRs", []))
        found: Object = new.get("status", {})
        for which in ("capacity", "allocatable"):
            for name, amount in found.get(which, {}).items():
                if not name.startswith("hugepages-"):
                    yield from check_amount(name, amount, f"status.{which}.{name}")

    def check_update(self, new: Object, old: Object) -> Iterator[FieldProblem]:
        """podCIDR and providerID are immutable once set."""
        spec, before = new["spec"], old["spec"]
        if before.get("podCIDRs") and spec.get("podCIDRs") != before["podCIDRs"]:
            yield forbidden("spec.podCIDRs", 'node updates may not change podCIDR except from "" to valid')
        if before.get("providerID") and spec.get("providerID") != before["providerID"]:
            yield forbidden("spec.providerID", 'node updates may not change providerID except from "" to valid')
        if spec.get("externalID") != before.get("externalID"):
            yield forbidden("spec.externalID", "may not be updated")


def _complete(node: Object) -> None:
    spec: Object = node.setdefault("spec", {})
    for key in [key for key, value in spec.items() if value in ("", []) or value is False]:
        del spec[key]
    if spec.get("podCIDR"):
        if spec.get("podCIDRs", [""])[0] != spec["podCIDR"]:
            spec["podCIDRs"] = [spec["podCIDR"]]
    elif spec.get("podCIDRs"):
        spec["podCIDR"] = spec["podCIDRs"][0]
    found: Object = node.setdefault("status", {})
    canonical(found.get("capacity"), "Node")
    if "capacity" in found and "allocatable" not in found:
        found["allocatable"] = dict(found["capacity"])
    canonical(found.get("allocatable"), "Node")


def _check_taints(taints: list[Object]) -> Iterator[FieldProblem]:
    """kube-apiserver names them under metadata in its messages."""
    seen: set[tuple[str, str]] = set()
    for index, taint in enumerate(taints):
        where = f"metadata.taints[{index}]"
        key, effect = taint.get("key", ""), taint.get("effect", "")
        yield from check_label_key(key, f"{where}.key")
        yield from check_label_value(key, taint.get("value", ""), f"{where}.value")
        if not effect:
            yield required(f"{where}.effect")
        elif effect not in EFFECTS:
            yield unsupported(f"{where}.effect", effect, EFFECTS)
        if (key, effect) in seen:
            yield FieldProblem(where, FieldErrorType.DUPLICATE, "taints must be unique by key and effect pair", taint)
        seen.add((key, effect))


def _check_ranges(ranges: list[str]) -> Iterator[FieldProblem]:
    versions: list[int] = []
    for index, text in enumerate(ranges):
        try:
            versions.append(ipaddress.ip_network(text, strict=False).version)
        except ValueError:
            yield invalid(
                f"spec.podCIDRs[{index}]", text, "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)"
            )
    if len(versions) > len(set(versions)):
        yield invalid("spec.podCIDRs", ranges, "may specify no more than one CIDR for each IP family")


def resource() -> Resource:
    """Nodes, as the registry lists them."""
    return Resource(
        group="",
        version="v1",
        plural="nodes",
        kind="Node",
        namespaced=False,
        schema=Schema.sound(node_openapi),
        strategy=NodeStrategy(),
        columns=table.columns(tables.NAME, tables.AGE),
        singular="node",
        short_names=("no",),
        subresources=frozenset({"status"}),
        fields={"spec.unschedulable": ("spec", "unschedulable")},
    )
