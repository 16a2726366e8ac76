"""The spec of a job of a flow: that of its template, with the patch that the flow has for it.

Objects are merged field by field. The elements of some lists have a name, or something like one: a patch changes the
elements that it names and adds new ones. Other lists, and fields that mean something only as a whole, are replaced.
"""

from __future__ import annotations

from typing import Any, Final

from pumice.kube.resources import Document

NAMED_BY: Final = {
    "tasks": ("name",),
    "containers": ("name",),
    "initContainers": ("name",),
    "env": ("name",),
    "volumes": ("name", "mountPath"),  # of a pod, and of a job
    "volumeMounts": ("mountPath",),
    "ports": ("containerPort",),
    "tolerations": ("key",),
    "hostAliases": ("ip",),
}
"""By field, the keys of its elements: the first that an element has names it."""
WHOLE: Final = frozenset(
    {"affinity", "securityContext", "livenessProbe", "readinessProbe", "startupProbe", "networkTopology", "dependsOn"}
)
"""Objects that are replaced as a whole."""


def patched_spec(template: Document, patch: Document) -> Document:
    """The spec of a template with a patch; neither is changed."""
    return {**template, **{name: _merged(name, template.get(name), value) for name, value in patch.items()}}


def _merged(field: str, old: Any, new: Any) -> Any:
    if isinstance(old, dict) and isinstance(new, dict) and field not in WHOLE:
        return patched_spec(old, new)
    if isinstance(old, list) and isinstance(new, list) and field in NAMED_BY:
        return _merged_list(field, old, new)
    return new


def _merged_list(field: str, old: list[Any], new: list[Any]) -> list[Any]:
    names = {_name(field, element): i for i, element in enumerate(old)}
    found = list(old)
    for element in new:
        place = names.get(_name(field, element))
        if place is None:
            found.append(element)
        else:
            found[place] = _merged("", found[place], element)
    return found


def _name(field: str, element: Any) -> object:
    """What tells an element from the others; an element without a name is only equal to itself."""
    if isinstance(element, dict):
        for key in NAMED_BY[field]:
            if isinstance(element.get(key), str | int):
                return key, element[key]
    return id(element)
