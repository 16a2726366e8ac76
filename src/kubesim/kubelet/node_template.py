"""The Node objects of simulated nodes, and the status that their kubelets report."""

from __future__ import annotations

from binascii import crc32
from collections import Counter
from collections.abc import Mapping
from ipaddress import IPv4Address, IPv4Network
from pathlib import Path

from kubebase.field_error import FieldError
from kubebase.resource_vector import ResourceError, milli_amounts
from kubesim.controllers.conditions import set_condition
from kubesim.identity import ServerIdentity
from kubesim.registry.discovery import KUBERNETES
from kubesim.registry.registry import Object

DEFAULT_CAPACITY = "cpu=32,memory=256Gi,nvidia.com/gpu=8"
PODS = "110"
KUBELET = f"v{'.'.join(KUBERNETES)}"
POD_NETWORKS = IPv4Network("10.0.0.0/8")
NODE_NETWORK = IPv4Network("172.16.0.0/12")
MAX_NODES = 2**16  # networks of 256 addresses in 10.0.0.0/8

READY = (
    ("MemoryPressure", "False", "KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
    ("DiskPressure", "False", "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
    ("PIDPressure", "False", "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
    ("Ready", "True", "KubeletReady", "kubelet is posting ready status"),
)


def parse_capacity(text: str, where: str = "--node-capacity") -> dict[str, str]:
    """Parse ``cpu=32,memory=256Gi`` into a resource list; the default of ``pods`` is 110."""
    found: dict[str, str] = {}
    for part in filter(None, (part.strip() for part in text.split(","))):
        name, sign, amount = (piece.strip() for piece in part.partition("="))
        if not sign or not name or not amount:
            raise FieldError(where, f"{part!r} is not NAME=AMOUNT; write for example {DEFAULT_CAPACITY}")
        if name in found:
            raise FieldError(where, f"{name} is given twice")
        found[name] = amount
    for name in ("cpu", "memory"):
        if name not in found:
            raise FieldError(where, f"{name} is missing; write for example {DEFAULT_CAPACITY}")
    try:
        milli_amounts(found, where=where)
    except ResourceError as error:
        raise FieldError("", str(error)) from None
    return {**found, "pods": found.get("pods", PODS)}


def make_nodes(count: int, capacity: Mapping[str, str] | None = None) -> list[Object]:
    """Nodes of one size: node-000, node-001 ... A larger count does not rename any.

    Without a capacity existing nodes keep theirs, and new ones get the default.
    """
    if count > MAX_NODES:
        raise FieldError("--nodes", f"{count} is too many; {MAX_NODES} have room for the addresses of their pods")
    return [
        {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": f"node-{number:03d}"},
            "status": {"capacity": dict(capacity)} if capacity else {},
        }
        for number in range(count)
    ]


def read_nodes(path: Path) -> list[Object]:
    """The Node objects of a YAML file."""
    import yaml  # only here: most nodes are made, not read

    try:
        documents = list(yaml.load_all(path.read_bytes(), Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader)))
    except OSError as error:
        raise FieldError(str(path), f"cannot be read: {error.strerror}") from None
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise FieldError(str(path), f"is not YAML: {' '.join(str(error).split())}") from None
    found = parse_nodes(documents, str(path))
    names = [node["metadata"]["name"] for node in found]
    twice = next((name for name, count in Counter(names).items() if count > 1), None)
    if twice is not None:
        raise FieldError(f"{path}: Node/{twice}", "given twice")
    return found


def parse_nodes(documents: list[object], where: str) -> list[Object]:
    """The Node objects of a file; other kinds are rejected."""
    found: list[Object] = []
    for position, document in enumerate(documents):
        place = f"{where}, document {position + 1}"
        if document is None:
            continue
        if not isinstance(document, dict) or document.get("kind") not in {"Node", "NodeList", "List"}:
            kind = document.get("kind") if isinstance(document, dict) else type(document).__name__
            raise FieldError(place, f"{kind} given, but only Nodes are read; write kind: Node")
        if document["kind"] != "Node":
            found += parse_nodes(list(document.get("items") or ()), place)
            continue
        about = document.get("metadata")
        if not isinstance(about, dict) or not isinstance(about.get("name"), str):
            raise FieldError(f"{place}: metadata.name", "a node needs a name")
        status = document.get("status") or {}
        for part in ("capacity", "allocatable"):
            try:
                milli_amounts(status.get(part) or {}, where=f"{place}: status.{part}")
            except ResourceError as error:
                raise FieldError("", str(error)) from None
        found.append(document)
    return found


def fill_in_node(node: Object, number: int, now: str, capacity: Mapping[str, str], identity: ServerIdentity) -> None:
    """Fill in the fields that a kubelet reports at registration; existing values are kept."""
    about, spec, status = node["metadata"], node.setdefault("spec", {}), node.setdefault("status", {})
    name = about["name"]
    labels = about.setdefault("labels", {})
    for key, value in (
        ("kubernetes.io/arch", "amd64"),
        ("kubernetes.io/hostname", name),
        ("kubernetes.io/os", "linux"),
    ):
        labels.setdefault(key, value)
    if not spec.get("podCIDR"):
        base = int(POD_NETWORKS.network_address) + (number % MAX_NODES) * 256
        spec["podCIDR"] = f"{IPv4Address(base)}/24"
        spec["podCIDRs"] = [spec["podCIDR"]]
    report_node_status(node, number, now, capacity, identity)
    status.setdefault("daemonEndpoints", {"kubeletEndpoint": {"Port": 10250}})


def report_node_status(
    node: Object, number: int, now: str, capacity: Mapping[str, str], identity: ServerIdentity
) -> None:
    """Fill in the status of a healthy node."""
    status, name = node.setdefault("status", {}), node["metadata"]["name"]
    if not status.get("capacity"):
        status["capacity"] = dict(status.get("allocatable") or capacity)
    status["capacity"].setdefault("pods", PODS)
    if not status.get("allocatable"):
        status["allocatable"] = dict(status["capacity"])
    status["allocatable"].setdefault("pods", status["capacity"]["pods"])
    for kind, holds, reason, message in READY:
        entry = {"type": kind, "status": holds, "reason": reason, "message": message, "lastHeartbeatTime": now}
        set_condition(status, entry, now)
    if not status.get("addresses"):
        address = IPv4Address(int(NODE_NETWORK.network_address) + 1 + number % (NODE_NETWORK.num_addresses - 2))
        status["addresses"] = [
            {"type": "InternalIP", "address": str(address)},
            {"type": "Hostname", "address": name},
        ]
    if not status.get("nodeInfo"):
        machine = f"{crc32(name.encode()):08x}{number:024x}"  # not a digest, because hashlib loads OpenSSL
        uuid = "-".join((machine[:8], machine[8:12], machine[12:16], machine[16:20], machine[20:]))
        status["nodeInfo"] = {
            "architecture": "amd64",
            "bootID": uuid,
            "containerRuntimeVersion": f"{identity.name}://{identity.version}",
            "kernelVersion": "simulated",
            "kubeProxyVersion": "",
            "kubeletVersion": KUBELET,
            "machineID": machine,
            "operatingSystem": "linux",
            "osImage": f"{identity.title} simulated node",
            "systemUUID": uuid,
        }


def internal_address(node: Object) -> str:
    """The address of a node."""
    addresses = (node.get("status") or {}).get("addresses") or ()
    return next((entry["address"] for entry in addresses if entry.get("type") == "InternalIP"), "")


def node_number(node: Object) -> int | None:
    """The number from which a node's addresses were derived, if any."""
    try:
        network = IPv4Network((node.get("spec") or {}).get("podCIDR") or "")
    except ValueError:
        return None
    offset = int(network.network_address) - int(POD_NETWORKS.network_address)
    return offset // 256 if network.prefixlen == 24 and 0 <= offset < MAX_NODES * 256 else None
