"""The status of a pod: its initial value, and validation of later writes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from kubesim.api.field_errors import FieldProblem, forbidden, invalid
from kubesim.api.metadata import check_label_key
from kubesim.kinds.pods import names
from kubesim.kinds.pods.binding import SCHEDULED, set_condition
from kubesim.kinds.pods.resources import canonical, quality
from kubesim.registry.registry import Object

GATED: Final[Object] = {
    "type": SCHEDULED,
    "status": "False",
    "reason": "SchedulingGated",
    "message": "Scheduling is blocked due to non-empty scheduling gates",
}


def first_status(spec: Object, now: str) -> Object:
    """The status of a pod that has just been created."""
    status: Object = {"phase": "Pending", "qosClass": quality(spec)}
    if spec.get("schedulingGates"):
        set_condition(status, GATED, now)
    return status


def complete_status(new: Object, old: Object) -> None:
    """Keep the class of service, and let the address and the list of addresses agree."""
    if not new.get("qosClass") and old.get("qosClass"):
        new["qosClass"] = old["qosClass"]
    address, addresses = new.get("podIP"), new.get("podIPs")
    if not address and addresses:
        new["podIP"] = addresses[0].get("ip", "")
    elif address and (not addresses or addresses[0].get("ip") != address):
        new["podIPs"] = [{"ip": address}]
    canonical(new.get("allocatedResources"))
    for which in ("containerStatuses", "initContainerStatuses", "ephemeralContainerStatuses"):
        for container in new.get(which, ()):
            canonical(container.get("allocatedResources"))
            for amounts in container.get("resources", {}).values():
                if isinstance(amounts, dict):
                    canonical(amounts)


def check_status(new: Object, old: Object) -> Iterator[FieldProblem]:
    """The problems of the change from one status of a pod to the next. Both are pods, with the same spec."""
    status: Object = new.get("status", {})
    before: Object = old.get("status", {})
    nominated = status.get("nominatedNodeName")
    if nominated and nominated != before.get("nominatedNodeName"):
        if new["spec"].get("nodeName"):
            yield forbidden("status.nominatedNodeName", "may not be set on pods that are already bound to a node")
        yield from names.check_subdomain(nominated, "status.nominatedNodeName")
    if before.get("qosClass") and status.get("qosClass") != before["qosClass"]:
        yield invalid("status.qosClass", status.get("qosClass"), "field is immutable")
    if status.get("observedGeneration", 0) < 0:
        yield invalid("status.observedGeneration", status["observedGeneration"], "must be a non-negative integer")
    for index, condition in enumerate(status.get("conditions", ())):
        kind = condition.get("type", "")
        if kind.isalnum() and kind.isascii():  # as all the usual ones are
            continue
        yield from check_label_key(kind, f"status.conditions[{index}].Type")
    yield from _check_addresses(status)
    yield from _check_ended(new["spec"], status, before, "containers", "containerStatuses")
    yield from _check_ended(new["spec"], status, before, "initContainers", "initContainerStatuses")


def _check_addresses(status: Object) -> Iterator[FieldProblem]:
    addresses: list[Object] = status.get("podIPs", [])
    for index, address in enumerate(addresses):
        yield from names.check_address(address.get("ip", ""), f"status.podIPs[{index}]")
    versions = [names.version(address.get("ip", "")) for address in addresses]
    if len(versions) > 1 and len(set(versions)) < len(versions):
        yield invalid("status.podIPs", addresses, "may specify no more than one IP for each IP family")


def _check_ended(spec: Object, status: Object, before: Object, which: str, field: str) -> Iterator[FieldProblem]:
    """A terminated container that is not restarted keeps its state."""
    policy = spec.get("restartPolicy", "Always")
    if policy == "Always" or not before.get(field):
        return
    declared = {container.get("name"): container for container in spec.get(which, ())}
    now = {container.get("name"): container for container in status.get(field, ())}
    for index, container in enumerate(before[field]):
        ended = container.get("state", {}).get("terminated")
        known = declared.get(container.get("name"))
        later = now.get(container.get("name"))
        if ended is None or known is None or later is None or "restartPolicy" in known:
            continue
        if policy == "OnFailure" and ended.get("exitCode"):
            continue
        if "terminated" not in later.get("state", {}):
            yield forbidden(f"status.{field}[{index}].state", "may not be transitioned to non-terminated state")
