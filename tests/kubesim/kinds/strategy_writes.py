"""Writes to one resource, in the order in which the verbs do it, without a store."""

from __future__ import annotations

import copy
from collections.abc import Iterable
from typing import Any

from kubesim.api import metadata, status
from kubesim.registry.registry import Object, Resource

NOW = "2026-11-15T12:00:00Z"


class FakeContext:
    """The context of a strategy: a moment, and the objects around."""

    now = NOW
    user = "alice"

    def __init__(self, *objects: Object, resource: str = "") -> None:
        self.warnings: list[str] = []
        self._objects = objects
        self._resource = resource

    def find(self, resource: str, namespace: str, name: str) -> Object | None:
        return next((found for found in self.list(resource, namespace) if found["metadata"]["name"] == name), None)

    def list(self, resource: str, namespace: str) -> Iterable[Object]:
        return self._objects if resource == self._resource else ()


def named(name: str = "it", **fields: Any) -> Object:
    """An object as somebody writes it."""
    return {"metadata": {"name": name}, **fields}


def create(resource: Resource, new: Object, world: FakeContext | None = None) -> Object:
    """The object as it would be stored. ApiError if it is refused."""
    new = _read(resource, copy.deepcopy(new))
    about = new["metadata"]
    if resource.namespaced:
        about["namespace"] = about.get("namespace", "default")
    metadata.fill_system_fields(about, NOW, generation=resource.strategy.has_generation)
    resource.schema.default(new)
    resource.strategy.prepare(new)
    resource.strategy.on_create(new, world or FakeContext())
    _check(resource, new, [])
    return new


def update(
    resource: Resource, old: Object, changes: Object, world: FakeContext | None = None, *, sub: str = ""
) -> Object:
    """The object after a merge of changes (or, by ``sub``, of its status). ApiError if it is refused."""
    before = copy.deepcopy(old)
    new = _read(resource, _merged(old, changes))
    if sub == "status":
        new = {**old, "status": new.get("status", {})}
    elif "status" in resource.subresources:
        new["status"] = old.get("status", {})
    resource.schema.default(new)
    if not sub:
        resource.strategy.prepare(new)
    hook = resource.strategy.on_status if sub == "status" else resource.strategy.on_update
    hook(new, old, world or FakeContext())
    check = resource.strategy.check_status if sub == "status" else resource.strategy.check_update
    _check(resource, new, list(check(new, old)))
    assert old == before, "a strategy changed the old state"
    return new


def rejection_message(act: Any, *args: Any, **options: Any) -> str:
    """Why a write is refused."""
    try:
        act(*args, **options)
    except status.ApiError as error:
        return f"{error.code} {error.message}"
    raise AssertionError("it was not refused")


def cells(resource: Resource, found: Object) -> list[Any]:
    """The row of an object in its resource's table."""
    return [column.value(found) for column in resource.columns]


def headings(resource: Resource) -> list[tuple[str, str, int]]:
    """Name, type and priority of a resource's columns."""
    return [(column.name, column.type, column.priority) for column in resource.columns]


def _read(resource: Resource, new: Object) -> Object:
    new["apiVersion"], new["kind"] = resource.api_version, resource.kind
    new["metadata"], _, fault = metadata.decode_metadata(new.get("metadata"))
    mistyped = [fault] if fault else [str(problem) for problem in resource.schema.mistyped(new)]
    if mistyped:
        raise status.bad_request("; ".join(mistyped))
    resource.schema.prune(new)
    return new


def _check(resource: Resource, new: Object, changed: list[Any]) -> None:
    problems = [*resource.schema.validate(new), *resource.strategy.check(new), *changed]
    problems += [
        metadata.invalid("metadata.name", new["metadata"].get("name"), fault)
        for fault in resource.strategy.name_faults(new["metadata"].get("name", ""))
    ]
    if problems:
        raise status.invalid(resource.kind, resource.group, new["metadata"].get("name", ""), problems)


def _merged(old: Any, changes: Any) -> Any:
    """A merge patch that shares what it does not change with the old state, as patches may."""
    if not isinstance(changes, dict):
        return changes
    base = old if isinstance(old, dict) else {}
    new = {key: value for key, value in base.items() if changes.get(key, 0) is not None}
    return new | {key: _merged(base.get(key), value) for key, value in changes.items() if value is not None}
