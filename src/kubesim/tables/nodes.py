"""The columns of nodes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from kubesim.registry.registry import Cell, Object, TableColumn

NONE: Final = "<none>"
ROLE: Final = "node-role.kubernetes.io/"
OLD_ROLE: Final = "kubernetes.io/role"


def node_status(node: Object) -> str:
    """Ready, NotReady or Unknown, and whether the node is cordoned."""
    ready = next((c for c in node.get("status", {}).get("conditions", ()) if c.get("type") == "Ready"), None)
    if ready is None:
        text = "Unknown"
    else:
        text = "Ready" if ready.get("status") == "True" else "NotReady"
    return f"{text},SchedulingDisabled" if node.get("spec", {}).get("unschedulable") else text


def roles(node: Object) -> str:
    """The roles in the labels of a node."""
    labels: dict[str, str] = node["metadata"].get("labels", {})
    found = {key[len(ROLE) :] for key in labels if key.startswith(ROLE)} | {labels.get(OLD_ROLE, "")}
    return ",".join(sorted(found - {""})) or NONE


def _system(field: str, missing: str = "<unknown>") -> Callable[[Object], Cell]:
    def value(node: Object) -> Cell:
        found: str = node.get("status", {}).get("nodeInfo", {}).get(field, "")
        return found or missing

    return value


def _kernel(node: Object) -> Cell:
    """The kernel, and for which machines it is."""
    architecture = node.get("status", {}).get("nodeInfo", {}).get("architecture", "")
    version = _system("kernelVersion")(node)
    return f"{version} ({architecture})" if architecture else version


def _address(kind: str) -> Callable[[Object], Cell]:
    def value(node: Object) -> Cell:
        for address in node.get("status", {}).get("addresses", ()):
            if address.get("type") == kind:
                found: str = address.get("address", "")
                return found
        return NONE

    return value


def columns(name: TableColumn, age: TableColumn) -> tuple[TableColumn, ...]:
    """The columns of nodes, including those that every kind has."""
    return (
        name,
        TableColumn("Status", node_status, description="Whether the node takes pods."),
        TableColumn("Roles", roles, description="The roles of the node."),
        age,
        TableColumn("Version", _system("kubeletVersion", ""), description="The kubelet's version."),
        TableColumn("Internal-IP", _address("InternalIP"), priority=1),
        TableColumn("External-IP", _address("ExternalIP"), priority=1),
        TableColumn("OS-Image", _system("osImage"), priority=1),
        TableColumn("Kernel-Version", _kernel, priority=1),
        TableColumn("Container-Runtime", _system("containerRuntimeVersion"), priority=1),
    )
