"""The kind Service: a name, an address and ports for the pods that its selector matches.

Addresses and node ports are allocated as on a real cluster and lead nowhere: nothing is forwarded between simulated
pods. Load balancers stay pending, as on a cluster without a cloud.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from functools import partial
from typing import Final

from kubesim.api import status
from kubesim.api.field_errors import FieldProblem, duplicate, forbidden, invalid, required, unsupported
from kubesim.api.metadata import check_label_key, check_labels, label_name_faults
from kubesim.kinds.pods.names import check_address, check_label, check_port, check_subdomain
from kubesim.kinds.schema_dsl import expand_schema
from kubesim.kinds.service_addresses import (
    HEADLESS,
    SERVICE_NETWORK,
    as_address,
    as_number,
    cluster_ips,
    node_ports,
)
from kubesim.registry.registry import Context, Object, Resource, Strategy, TableColumn
from kubesim.schema import Schema
from kubesim.tables import AGE, NAME

TYPES: Final = ("ClusterIP", "ExternalName", "LoadBalancer", "NodePort")
PROTOCOLS: Final = ("SCTP", "TCP", "UDP")
FAMILY_POLICIES: Final = ("PreferDualStack", "RequireDualStack", "SingleStack")
AFFINITIES: Final = ("ClientIP", "None")
POLICIES: Final = ("Cluster", "Local")
AFFINITY_SECONDS: Final = 10800
MOST_AFFINITY_SECONDS: Final = 86400
EXPOSED: Final = frozenset({"LoadBalancer", "NodePort"})

SHAPES: Final = """
Service
  spec! ServiceSpec
  status! ServiceStatus
ServiceSpec
  allocateLoadBalancerNodePorts bool
  clusterIP text
  clusterIPs [text]
  externalIPs [text]
  externalName text
  externalTrafficPolicy text
  healthCheckNodePort int32
  internalTrafficPolicy text
  ipFamilies [text]
  ipFamilyPolicy text
  loadBalancerClass text
  loadBalancerIP text
  loadBalancerSourceRanges [text]
  ports [ServicePort] by port,protocol
  publishNotReadyAddresses bool
  selector {text} atomic
  sessionAffinity text
  sessionAffinityConfig SessionAffinityConfig
  trafficDistribution text
  type text
ServicePort
  appProtocol text
  name text
  nodePort int32
  port! int32
  protocol text = "TCP"
  targetPort int-or-text
SessionAffinityConfig
  clientIP ClientIPConfig
ClientIPConfig
  timeoutSeconds int32
ServiceStatus
  conditions [Condition] by type
  loadBalancer LoadBalancerStatus
LoadBalancerStatus
  ingress [LoadBalancerIngress]
LoadBalancerIngress
  hostname text
  ip text
  ipMode text
  ports [LoadBalancerPort]
LoadBalancerPort
  error text
  port! int32
  protocol! text
Condition
  lastTransitionTime time
  message! text
  observedGeneration int64
  reason! text
  status! text
  type! text
"""


class ServiceStrategy(Strategy):
    """Defaults, and what is allocated for a Service."""

    reads_cluster = True

    returns_deleted = True
    name_faults = staticmethod(label_name_faults)

    def __init__(self) -> None:
        self._cluster_ips = cluster_ips()
        self._node_ports = node_ports()

    def on_create(self, new: Object, context: Context) -> None:
        """Fill in defaults, then allocate."""
        new["status"] = {"loadBalancer": {}}
        _set_defaults(new["spec"])
        self._allocate(new, context)

    def on_update(self, new: Object, old: Object, context: Context) -> None:
        """What was allocated stays, unless the new type has no use for it."""
        new["spec"] = copy.deepcopy(new["spec"])  # parts of it may be those of the old state
        _keep_allocated(new["spec"], old["spec"])
        _set_defaults(new["spec"])
        if not _changes_address(new["spec"], old["spec"]):  # which validation refuses
            self._allocate(new, context)

    def _allocate(self, new: Object, context: Context) -> None:
        spec = new["spec"]
        if spec["type"] != "ExternalName":
            self._allocate_cluster_ip(new, context)
        if spec["type"] in EXPOSED:
            for index, port in enumerate(spec.get("ports") or ()):
                self._allocate_node_port(new, port, f"spec.ports[{index}].nodePort", context)

    def _allocate_cluster_ip(self, new: Object, context: Context) -> None:
        spec = new["spec"]
        given = spec.get("clusterIP") or next(iter(spec.get("clusterIPs") or ()), "")
        if not given:
            number = self._cluster_ips.allocate(new, context)
            if number is None:
                raise status.internal("failed to allocate a serviceIP: range is full")
            given = as_address(number)
        elif given != HEADLESS and (number := as_number(given)) is not None:
            refused = ""
            if number not in self._cluster_ips:
                refused = f"provided IP is not in the valid range. The range of valid IPs is {SERVICE_NETWORK}"
            elif not self._cluster_ips.is_free(number, new, context):
                refused = "provided IP is already allocated"
            if refused:
                problem = invalid("spec.clusterIPs", [given], f"failed to allocate IP {given}: {refused}")
                raise status.invalid("Service", "", new["metadata"].get("name", ""), [problem])
            self._cluster_ips.hold(number, new, context)
        spec["clusterIP"] = given
        spec["clusterIPs"] = spec.get("clusterIPs") or [given]
        spec.setdefault("ipFamilies", ["IPv4"])
        spec.setdefault("ipFamilyPolicy", "SingleStack")

    def _allocate_node_port(self, new: Object, port: Object, field: str, context: Context) -> None:
        spec, given = new["spec"], port.get("nodePort")
        if spec["type"] == "LoadBalancer" and spec.get("allocateLoadBalancerNodePorts") is False and not given:
            return
        if not given:
            number = self._node_ports.allocate(new, context)
            if number is None:
                raise status.internal("failed to allocate a nodePort: range is full")
            port["nodePort"] = number
            return
        if given not in self._node_ports:
            detail = "provided port is not in the valid range. The range of valid ports is 30000-32767"
            raise status.invalid("Service", "", new["metadata"].get("name", ""), [invalid(field, given, detail)])
        if not self._node_ports.is_free(given, new, context):
            problem = invalid(field, given, "provided port is already allocated")
            raise status.invalid("Service", "", new["metadata"].get("name", ""), [problem])
        self._node_ports.hold(given, new, context)

    def check(self, new: Object) -> Iterator[FieldProblem]:
        """Type, ports, selector and policies."""
        spec = new["spec"]
        yield from _check_addresses(spec)
        yield from _check_ports(spec)
        yield from check_labels(spec.get("selector") or {}, "spec.selector")
        yield from _check_exposure(spec)
        yield from _check_affinity(spec)
        if spec["type"] not in TYPES:
            yield unsupported("spec.type", spec["type"], TYPES)
        if spec["type"] == "ExternalName":
            name = spec.get("externalName", "").removesuffix(".")
            if name:
                yield from check_subdomain(name, "spec.externalName")
            else:
                yield required("spec.externalName")
        for policy in ("externalTrafficPolicy", "internalTrafficPolicy"):
            if policy in spec and spec[policy] not in POLICIES:
                yield unsupported(f"spec.{policy}", spec[policy], POLICIES)

    def check_update(self, new: Object, old: Object) -> Iterator[FieldProblem]:
        """A cluster IP is kept for as long as the type has one."""
        if _changes_address(new["spec"], old["spec"]):
            yield invalid("spec.clusterIPs[0]", new["spec"].get("clusterIPs"), "may not change once set")

    def check_status(self, new: Object, old: Object) -> Iterator[FieldProblem]:
        """Only a load balancer is reached from outside."""
        entries = new["status"].get("loadBalancer", {}).get("ingress") or ()
        if entries and new["spec"]["type"] != "LoadBalancer":
            yield forbidden("status.loadBalancer.ingress", "may only be used when `spec.type` is 'LoadBalancer'")


def _changes_address(now: Object, before: Object) -> bool:
    if "ExternalName" in {now["type"], before["type"]} or not before.get("clusterIPs"):
        return False
    return bool(now.get("clusterIPs") != before["clusterIPs"])


def _set_defaults(spec: Object) -> None:
    spec["type"] = spec.get("type") or "ClusterIP"
    spec["sessionAffinity"] = spec.get("sessionAffinity") or "None"
    if spec["sessionAffinity"] == "ClientIP":
        clients = spec.setdefault("sessionAffinityConfig", {}).setdefault("clientIP", {})
        clients.setdefault("timeoutSeconds", AFFINITY_SECONDS)
    elif spec["sessionAffinity"] == "None":
        spec.pop("sessionAffinityConfig", None)
    for port in spec.get("ports") or ():
        port["protocol"] = port.get("protocol") or "TCP"
        port["targetPort"] = port.get("targetPort") or port["port"]
        if not port.get("nodePort"):
            port.pop("nodePort", None)
    if spec["type"] in EXPOSED:
        spec.setdefault("externalTrafficPolicy", "Cluster")
    if spec["type"] == "LoadBalancer":
        spec.setdefault("allocateLoadBalancerNodePorts", True)
    if spec["type"] != "ExternalName":
        spec.setdefault("internalTrafficPolicy", "Cluster")


def _keep_allocated(spec: Object, old: Object) -> None:
    """Take over what a client that writes a Service from scratch does not know, and drop what its type has not."""
    kind = spec.get("type") or "ClusterIP"
    if kind == "ExternalName":
        if spec.get("clusterIPs") == old.get("clusterIPs"):
            for field in ("clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy"):
                spec.pop(field, None)
        return
    if old.get("clusterIP") and not spec.get("clusterIP") and not spec.get("clusterIPs"):
        spec["clusterIP"], spec["clusterIPs"] = old["clusterIP"], old["clusterIPs"]
    if spec.get("clusterIP") == old.get("clusterIP") and not spec.get("clusterIPs"):
        spec["clusterIPs"] = old.get("clusterIPs") or []
    before = {(port.get("protocol", "TCP"), port["port"]): port for port in old.get("ports") or ()}
    for port in spec.get("ports") or ():
        known = before.get((port.get("protocol") or "TCP", port["port"]), {}).get("nodePort")
        if kind not in EXPOSED and port.get("nodePort") == known:
            port.pop("nodePort", None)
        elif kind in EXPOSED and known and not port.get("nodePort"):
            port["nodePort"] = known
    if kind not in EXPOSED and spec.get("externalTrafficPolicy") == old.get("externalTrafficPolicy"):
        spec.pop("externalTrafficPolicy", None)
    if kind != "LoadBalancer":
        spec.pop("allocateLoadBalancerNodePorts", None)


def _check_addresses(spec: Object) -> Iterator[FieldProblem]:
    addresses: list[str] = spec.get("clusterIPs") or []
    if spec["type"] == "ExternalName":
        if addresses:
            yield forbidden("spec.clusterIPs", "may not be set when `type` is 'ExternalName'")
        return
    if addresses and spec.get("clusterIP") != addresses[0]:
        yield invalid("spec.clusterIPs", addresses, "first value must match `clusterIP`")
    for index, address in enumerate(addresses):
        if address != HEADLESS:
            yield from check_address(address, f"spec.clusterIPs[{index}]")
    for index, address in enumerate(spec.get("externalIPs") or ()):
        yield from check_address(address, f"spec.externalIPs[{index}]")


def _check_ports(spec: Object) -> Iterator[FieldProblem]:
    ports: list[Object] = spec.get("ports") or []
    if not ports and spec.get("clusterIP") != HEADLESS and spec["type"] != "ExternalName":
        yield required("spec.ports")
    names: set[str] = set()
    places: set[tuple[str, int]] = set()
    for index, port in enumerate(ports):
        field = f"spec.ports[{index}]"
        name = port.get("name", "")
        if name:
            yield from check_label(name, f"{field}.name")
            if name in names:
                yield duplicate(f"{field}.name", name)
            names.add(name)
        elif len(ports) > 1:
            yield required(f"{field}.name")
        yield from check_port(port["port"], f"{field}.port")
        if port["protocol"] not in PROTOCOLS:
            yield unsupported(f"{field}.protocol", port["protocol"], PROTOCOLS)
        yield from check_port(port["targetPort"], f"{field}.targetPort")
        if port.get("nodePort") and spec["type"] not in EXPOSED:
            yield forbidden(f"{field}.nodePort", f"may not be used when `type` is '{spec['type']}'")
        place = (port["protocol"], port["port"])
        if place in places:
            yield duplicate(field, {"protocol": place[0], "port": place[1]})
        places.add(place)


def _check_exposure(spec: Object) -> Iterator[FieldProblem]:
    policy = spec.get("ipFamilyPolicy")
    if policy is not None and policy not in FAMILY_POLICIES:
        yield unsupported("spec.ipFamilyPolicy", policy, FAMILY_POLICIES)
    if "loadBalancerClass" in spec:
        if spec["type"] != "LoadBalancer":
            yield forbidden("spec.loadBalancerClass", "may only be used when `type` is 'LoadBalancer'")
        yield from check_label_key(spec["loadBalancerClass"], "spec.loadBalancerClass")


def _check_affinity(spec: Object) -> Iterator[FieldProblem]:
    affinity = spec["sessionAffinity"]
    if affinity not in AFFINITIES:
        yield unsupported("spec.sessionAffinity", affinity, AFFINITIES)
    elif affinity == "ClientIP":
        seconds = spec["sessionAffinityConfig"]["clientIP"]["timeoutSeconds"]
        if not 0 < seconds <= MOST_AFFINITY_SECONDS:
            field = "spec.sessionAffinityConfig.clientIP.timeoutSeconds"
            yield invalid(field, seconds, f"must be greater than 0 and less than {MOST_AFFINITY_SECONDS}")


# ---- table ------------------------------------------------------------------------------------------------


def _external(found: Object) -> str:
    spec = found["spec"]
    if spec["type"] == "ExternalName":
        return str(spec.get("externalName", ""))
    entries = found["status"].get("loadBalancer", {}).get("ingress") or ()
    reached = [entry.get("ip") or entry.get("hostname", "") for entry in entries]
    given = [*(spec.get("externalIPs") or ()), *(reached if spec["type"] == "LoadBalancer" else ())]
    if given:
        return ",".join(given)
    return "<pending>" if spec["type"] == "LoadBalancer" else "<none>"


def _ports(found: Object) -> str:
    ports = found["spec"].get("ports") or ()
    shown = (
        f"{port['port']}:{port['nodePort']}/{port['protocol']}"
        if port.get("nodePort")
        else f"{port['port']}/{port['protocol']}"
        for port in ports
    )
    return ",".join(shown) or "<none>"


def _selector(found: Object) -> str:
    labels = sorted((found["spec"].get("selector") or {}).items())
    return ",".join(f"{key}={value}" for key, value in labels) or "<none>"


def services() -> Resource:
    """The resource ``services``."""
    return Resource(
        group="",
        version="v1",
        plural="services",
        kind="Service",
        namespaced=True,
        schema=Schema.sound(partial(expand_schema, SHAPES, "Service")),
        strategy=ServiceStrategy(),
        columns=(
            NAME,
            TableColumn("Type", lambda found: found["spec"]["type"], description="How it is reached."),
            TableColumn(
                "Cluster-IP",
                lambda found: found["spec"].get("clusterIP") or "<none>",
                description="Its address within the cluster.",
            ),
            TableColumn("External-IP", _external, description="Its addresses outside of the cluster."),
            TableColumn("Port(s)", _ports, description="Its ports, and those of nodes."),
            AGE,
            TableColumn("Selector", _selector, priority=1, description="How it finds its pods."),
        ),
        singular="service",
        short_names=("svc",),
        categories=("all",),
        subresources=frozenset({"status"}),
        fields={"spec.clusterIP": ("spec", "clusterIP"), "spec.type": ("spec", "type")},
    )
