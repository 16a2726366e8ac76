"""From a CustomResourceDefinition to the resources it defines.

A definition is accepted when no other definition of its group has its names; from then on it is established and its
versions are served. Versions differ in their schemas, columns and subresources, but not in their objects: conversion
is ``None``, which rewrites ``apiVersion`` and nothing else.

kube-apiserver decides about names a moment after it has stored the definition. Here it is part of storing it, so a
client that waits for ``Established`` does not wait.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator
from typing import Final

from kubesim.registry.discovery import rank
from kubesim.registry.registry import Object, Resource, ResourceRegistry, ScalePaths, Strategy
from kubesim.schema import Schema
from kubesim.tables import custom

QUALIFIED: Final = "customresourcedefinitions.apiextensions.k8s.io"
NAMES: Final = ("plural", "singular", "shortNames", "kind", "listKind", "categories")


class CustomStrategy(Strategy):
    """What all custom resources have in common."""

    has_generation = True
    unconditional = False


# ---- names ------------------------------------------------------------------------------------------------


def accept(definition: Object, others: Iterable[Object], now: str) -> None:
    """Write into its status whether a definition's names are free, and which versions its objects are stored in."""
    spec = definition["spec"]
    status = definition["status"] = copy.deepcopy(definition.get("status", {}))  # it may be shared with the old state
    conflict = _conflict(definition, others)
    before = status.get("acceptedNames", {})
    accepted = {name: (before if name in conflict else spec["names"]).get(name) for name in NAMES}
    status["acceptedNames"] = {"plural": "", "kind": ""} | {name: value for name, value in accepted.items() if value}
    if not conflict:
        set_condition(status, "NamesAccepted", "True", "NoConflicts", "no conflicts found", now)
        if not is_established(definition):
            words = "the initial names have been accepted"
            set_condition(status, "Established", "True", "InitialNamesAccepted", words, now)
    else:
        name, value = list(conflict.items())[-1]
        reason = f"{name[0].upper()}{name[1:]}Conflict"
        set_condition(status, "NamesAccepted", "False", reason, f'"{value}" is already in use', now)
        if not is_established(definition):
            set_condition(status, "Established", "False", "NotAccepted", "not all names are accepted", now)
    stored = status.get("storedVersions", [])
    added = [version["name"] for version in spec.get("versions", ()) if version["storage"]]
    status["storedVersions"] = list(dict.fromkeys([*stored, *added]))


def _conflict(definition: Object, others: Iterable[Object]) -> dict[str, str]:
    """Which names are taken, and the value that is."""
    resources: set[str] = set()
    kinds: set[str] = set()
    for other in others:
        if other["spec"]["group"] == definition["spec"]["group"] and _name(other) != _name(definition):
            accepted = other.get("status", {}).get("acceptedNames", {})
            resources |= {accepted.get("plural", ""), accepted.get("singular", ""), *accepted.get("shortNames", ())}
            kinds |= {accepted.get("kind", ""), accepted.get("listKind", "")}
    names = definition["spec"]["names"]
    taken: dict[str, str] = {}
    for name in NAMES:
        value = names.get(name) or ()
        used = kinds if name in {"kind", "listKind"} else resources
        for one in [value] if isinstance(value, str) else value:
            if one in used and name != "categories":
                taken[name] = one
    return taken


def _name(definition: Object) -> str:
    name: str = definition["metadata"].get("name", "")
    return name


def set_condition(status: Object, kind: str, value: str, reason: str, message: str, now: str) -> None:
    """Put a condition into the status of a definition."""
    conditions = status.setdefault("conditions", [])
    entry = {"type": kind, "status": value, "reason": reason, "message": message, "lastTransitionTime": now}
    for index, found in enumerate(conditions):
        if found["type"] == kind:
            if found["status"] == value:
                entry["lastTransitionTime"] = found.get("lastTransitionTime", now)
            conditions[index] = entry
            return
    conditions.append(entry)


def is_established(definition: Object) -> bool:
    """Whether its resources are served."""
    conditions = definition.get("status", {}).get("conditions") or ()
    return any(found["type"] == "Established" and found["status"] == "True" for found in conditions)


# ---- resources --------------------------------------------------------------------------------------------


def install(
    registry: ResourceRegistry, definition: Object, served: Iterable[tuple[Resource, bool]] | None = None
) -> None:
    """Replace the resources of a definition by those it declares now, which may be at hand already."""
    uninstall(registry, definition)
    for resource, stored in resources(definition) if served is None else served:
        registry.add(resource, stored=stored)


def uninstall(registry: ResourceRegistry, definition: Object) -> None:
    """Serve nothing of a definition any more."""
    if registry.stored(_name(definition)) is not None:
        registry.remove(_name(definition))


def resources(definition: Object) -> Iterator[tuple[Resource, bool]]:
    """The resource in each version that is served, and whether it is the version that is stored."""
    if not is_established(definition):
        return
    versions = [version for version in definition["spec"]["versions"] if version["served"]]
    kept = next((version for version in versions if version["storage"]), versions[0] if versions else None)
    for version in versions:
        yield _resource(definition, version), version is kept


def compiled_resources(definition: Object) -> list[tuple[Resource, bool]]:
    """``resources``, with compiled schemas."""
    found = [*resources(definition)]
    for resource, _ in found:
        _ = resource.schema.root
    return found


def _resource(definition: Object, version: Object) -> Resource:
    spec, names = definition["spec"], definition["status"]["acceptedNames"]
    return Resource(
        group=spec["group"],
        version=version["name"],
        plural=names["plural"],
        kind=names["kind"],
        namespaced=spec["scope"] == "Namespaced",
        schema=Schema.sound(lambda: version["schema"]["openAPIV3Schema"]),
        strategy=CustomStrategy(),
        columns=custom.columns(version.get("additionalPrinterColumns", ())),
        singular=names.get("singular", ""),
        own_list_kind=names.get("listKind", ""),
        deprecation=_deprecation(definition, version),
        short_names=tuple(names.get("shortNames", ())),
        categories=tuple(names.get("categories", ())),
        subresources=frozenset(name for name, said in version.get("subresources", {}).items() if said is not None),
        scale=_scale(version.get("subresources", {}).get("scale")),
        fields=dict(map(_selectable, version.get("selectableFields", ()))),
        custom=True,
    )


def _deprecation(definition: Object, version: Object) -> str:
    """The warning of a deprecated version: its own, or the default one."""
    if not version.get("deprecated"):
        return ""
    spec = definition["spec"]
    kind, name = spec["names"]["kind"], f"{spec['group']}/{version['name']}"
    words = f"{name} {kind} is deprecated"
    better = [v["name"] for v in spec["versions"] if v["served"] and not v.get("deprecated")]
    if better:
        words += f"; use {spec['group']}/{min(better, key=rank)} {kind}"
    return str(version.get("deprecationWarning") or words)


def _scale(declared: Object | None) -> ScalePaths | None:
    if declared is None:
        return None
    selector = declared.get("labelSelectorPath")
    return ScalePaths(
        _steps(declared["specReplicasPath"]),
        _steps(declared["statusReplicasPath"]),
        _steps(selector) if selector else None,
    )


def _steps(path: str) -> tuple[str, ...]:
    return tuple(path.removeprefix(".").split("."))


def _selectable(declared: Object) -> tuple[str, tuple[str, ...]]:
    path = declared["jsonPath"].removeprefix(".")
    return path, tuple(path.split("."))
