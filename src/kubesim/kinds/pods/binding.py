"""Binding: the only way to assign a pod to a node, once and for all."""

from __future__ import annotations

from typing import Any, Final

from kubesim.api import status
from kubesim.api.field_errors import required, unsupported
from kubesim.api.status import ApiError
from kubesim.registry.registry import Object

SCHEDULED: Final = "PodScheduled"
TARGETS: Final = ("Node", "<empty>")


def bind(pod: Object, binding: Object, now: str) -> Object:
    """The pod as it is once bound to the node that the binding names. Neither argument is changed."""
    about = _part(binding, "metadata")
    name = pod["metadata"]["name"]
    _check_target(binding, about, name)
    _check_free(pod, about, name)
    bound = {**pod, "metadata": {**pod["metadata"]}, "spec": {**pod["spec"], "nodeName": binding["target"]["name"]}}
    for extra in ("labels", "annotations"):
        added = _texts(about, extra)
        if added:
            bound["metadata"][extra] = {**bound["metadata"].get(extra, {}), **added}
    bound["status"] = {key: value for key, value in pod.get("status", {}).items() if key != "nominatedNodeName"}
    set_condition(bound["status"], {"type": SCHEDULED, "status": "True"}, now)
    return bound


def set_condition(found: Object, condition: Object, now: str) -> None:
    """Set a condition, in a new list. Its transition time changes only with its status."""
    conditions: list[Object] = found.get("conditions", [])
    before = next((c for c in conditions if c.get("type") == condition["type"]), None)
    moved = before is None or before.get("status") != condition["status"]
    since = now if moved or before is None else before.get("lastTransitionTime", now)
    updated = {**condition, "lastTransitionTime": since}
    found["conditions"] = (
        [*conditions, updated] if before is None else [updated if c is before else c for c in conditions]
    )


def _check_target(binding: Object, about: Object, name: str) -> None:
    if _text(about, "metadata", "name") != name:
        raise status.bad_request("name in URL does not match name in Binding object")
    target = _part(binding, "target")
    kind, node = _text(target, "target", "kind"), _text(target, "target", "name")
    problems = []
    if kind not in {"", "Node"}:
        problems.append(unsupported("target.kind", kind, TARGETS))
    if not node:
        problems.append(required("target.name"))
    if problems:
        raise status.invalid("Binding", "", name, problems)


def _check_free(pod: Object, about: Object, name: str) -> None:
    for field, words in (("uid", "UID"), ("resourceVersion", "ResourceVersion")):
        wanted, found = _text(about, "metadata", field), pod["metadata"].get(field, "")
        if wanted and wanted != found:
            detail = f"Precondition failed: {words} in precondition: {wanted}, {words} in object meta: {found}"
            raise status.conflict("pods", "", name, detail)
    detail = ""
    if "deletionTimestamp" in pod["metadata"]:
        detail = f"pod {name} is being deleted, cannot be assigned to a host"
    elif pod["spec"].get("nodeName"):
        detail = f'pod {name} is already assigned to node "{pod["spec"]["nodeName"]}"'
    elif pod["spec"].get("schedulingGates"):
        detail = f"pod {name} has non-empty .spec.schedulingGates"
    if detail:
        raise status.conflict("pods/binding", "", name, detail)


# ---- reading ----------------------------------------------------------------------------------------------


def _part(binding: Any, name: str) -> Object:
    found = binding.get(name) if isinstance(binding, dict) else None
    if found is None:
        found = {}
    if not isinstance(found, dict):
        raise _mistyped(f"{name} is not an object")
    return found


def _text(found: Object, where: str, name: str) -> str:
    text = found.get(name) or ""
    if not isinstance(text, str):
        raise _mistyped(f"{where}.{name} is not a string")
    return text


def _texts(about: Object, name: str) -> dict[str, str]:
    found = about.get(name) or {}
    if not isinstance(found, dict) or not all(isinstance(value, str) for value in found.values()):
        raise _mistyped(f"metadata.{name} is not a map of strings")
    return found


def _mistyped(detail: str) -> ApiError:
    return status.bad_request(f'Binding in version "v1" cannot be handled as a Binding: {detail}')
