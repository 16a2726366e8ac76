"""Field ownership in ``metadata.managedFields``.

An entry belongs to a manager (a name that the client chooses) and an operation: ``Apply``, or ``Update`` for every
other write. A manager that applies owns the fields it applies. A manager that updates becomes the sole owner of the
fields it changes. Removed fields have no owner.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import msgspec

from kubesim.api import status
from kubesim.apply import field_set
from kubesim.apply.field_set import Path, Paths
from kubesim.apply.merge import merge_applied, remove_fields
from kubesim.registry.registry import Object
from kubesim.schema import Schema

APPLY, UPDATE = "Apply", "Update"
BEFORE_FIRST_APPLY = "before-first-apply"
KUBECTL = "kubectl"
LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"


@dataclass(frozen=True, slots=True, order=True)
class FieldManager:
    """A field manager: manager, operation, version and subresource."""

    operation: str
    manager: str
    api_version: str
    subresource: str = ""


@dataclass(frozen=True, slots=True)
class OwnedFields:
    """The fields of a manager, and the time of its last change."""

    fields: Paths
    time: str


ManagedFields = dict[FieldManager, OwnedFields]


class FieldManagers(Protocol):
    """How a write changes field ownership."""

    def entries(self, old: Object, new: Object, now: str) -> list[Object]:
        """``managedFields`` after a write from ``old`` to ``new``; empty if ownership is not tracked."""


# ---- reading and writing managedFields --------------------------------------------------------------------


def _read_managed_fields(about: Object) -> ManagedFields:
    managed: ManagedFields = {}
    for entry in about.get("managedFields") or ():
        owner = FieldManager(entry["operation"], entry["manager"], entry["apiVersion"], entry.get("subresource", ""))
        managed[owner] = OwnedFields(field_set.decode_fields(entry.get("fieldsV1")), entry.get("time", ""))
    return managed


def _write_managed_fields(managed: ManagedFields) -> list[Object]:
    found = []
    for owner, part in sorted(managed.items(), key=lambda entry: (entry[0].operation, entry[1].time, entry[0])):
        if not part.fields:
            continue
        entry: Object = {
            "manager": owner.manager,
            "operation": owner.operation,
            "apiVersion": owner.api_version,
            "time": part.time,
            "fieldsType": "FieldsV1",
            "fieldsV1": field_set.encode_fields(part.fields),
        }
        if owner.subresource:
            entry["subresource"] = owner.subresource
        found.append(entry)
    return found


def _without(managed: ManagedFields, lost: Paths) -> ManagedFields:
    return {owner: OwnedFields(part.fields - lost, part.time) for owner, part in managed.items()}


def _only_present(managed: ManagedFields, new: Object, schema: Schema) -> ManagedFields:
    there = field_set.present_fields(new, schema.applied)
    return {owner: OwnedFields(part.fields & there, part.time) for owner, part in managed.items()}


# ---- update -----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class UpdateOwnership:
    """Field ownership after an update or patch."""

    schema: Schema
    owner: FieldManager

    def entries(self, old: Object, new: Object, now: str) -> list[Object]:
        """The manager becomes sole owner of the fields it changes. Ownership tracking is not started by an update."""
        if not old["metadata"].get("managedFields"):
            return []
        managed = _read_managed_fields(old["metadata"])
        theirs = field_set.changed_fields(old, new, self.schema.applied)
        before = managed.get(self.owner, OwnedFields(frozenset(), now))
        if theirs:
            managed = _without(managed, theirs)
            kept = theirs | before.fields
            managed[self.owner] = OwnedFields(kept, before.time if kept == before.fields else now)
        return _write_managed_fields(_only_present(managed, new, self.schema))


# ---- apply ------------------------------------------------------------------------------------------------


class ApplyRequest:
    """A server-side apply: ``edit`` computes the object, ``entries`` its ``managedFields``."""

    def __init__(self, schema: Schema, owner: FieldManager, applied: Object, *, force: bool) -> None:
        self.schema = schema
        self.owner = owner
        self.applied = applied
        self._force = force
        self._applied_fields = field_set.applied_fields(applied, schema.applied)
        self._changed_fields: Paths = frozenset()  # what has changed by it

    def edit(self, old: Object) -> Object:
        """The object with the applied fields. Raises ``ApiError`` on a conflict with another manager."""
        managed = self._managed_fields_of(old)
        own = managed.pop(self.owner, OwnedFields(frozenset(), "")).fields
        others = frozenset().union(*(part.fields for part in managed.values()))
        # Only managers that applied a list item keep it: fields of others inside it are removed with it.
        dropped = (
            field_set.with_fields_above(own)
            - field_set.with_fields_above(self._applied_fields)
            - field_set.with_fields_above(others)
        )
        node = self.schema.applied
        new: Object = remove_fields(merge_applied(old, self.applied, node), dropped, node)
        self._changed_fields = field_set.changed_fields(old, new, node) & self._applied_fields
        conflicts = {
            owner: part.fields & self._changed_fields
            for owner, part in managed.items()
            if part.fields & self._changed_fields
        }
        if self.owner.manager == KUBECTL:
            own_before = self._last_applied(old)
            conflicts = {owner: left for owner, fields in conflicts.items() if (left := fields - own_before)}
        if conflicts and not self._force:
            raise _conflict(conflicts)
        # No manager owns the name. It goes with metadata of which a manager owned and no longer applies all the rest.
        new["metadata"] = {"name": old["metadata"]["name"], **(new.get("metadata") or {})}
        return new

    def entries(self, old: Object, new: Object, now: str) -> list[Object]:
        """The manager owns the applied fields; other managers lose those that it overwrote."""
        managed = self._managed_fields_of(old) if old else {}
        before = managed.get(self.owner)
        same = before is not None and before.fields == self._applied_fields and not self._changed_fields
        managed = _without(managed, self._changed_fields)
        managed[self.owner] = OwnedFields(self._applied_fields, before.time if same and before else now)
        return _write_managed_fields(_only_present(managed, new, self.schema))

    def _managed_fields_of(self, old: Object) -> ManagedFields:
        """The field ownership; without any, all existing fields belong to ``before-first-apply``."""
        managed = _read_managed_fields(old["metadata"])
        if managed:
            return managed
        before = FieldManager(UPDATE, BEFORE_FIRST_APPLY, self.owner.api_version)
        return {before: OwnedFields(field_set.applied_fields(old, self.schema.applied), self._since(old))}

    @staticmethod
    def _since(old: Object) -> str:
        return str(old["metadata"].get("creationTimestamp", ""))

    def _last_applied(self, old: Object) -> Paths:
        """The fields that kubectl applied on the client side before: it owns them already."""
        text = old["metadata"].get("annotations", {}).get(LAST_APPLIED, "")
        try:
            last = msgspec.json.decode(text)
        except (msgspec.DecodeError, ValueError):
            return frozenset()
        return field_set.applied_fields(last, self.schema.applied) if isinstance(last, dict) else frozenset()


def _conflict(conflicts: dict[FieldManager, Paths]) -> status.ApiError:
    causes: list[dict[str, Any]] = []
    lines: list[str] = []
    count = sum(map(len, conflicts.values()))
    for owner, fields in sorted(conflicts.items()):
        whom = f'"{owner.manager}"'
        if owner.subresource:
            whom += f' with subresource "{owner.subresource}"'
        if owner.operation == UPDATE:
            whom += f" using {owner.api_version}"
        found: list[Path] = sorted(fields)
        causes += [
            {"reason": "FieldManagerConflict", "message": f"conflict with {whom}", "field": field_set.format_path(path)}
            for path in found
        ]
        if len(found) == 1:
            lines.append(f"conflict with {whom}: {field_set.format_path(found[0])}")
        else:
            lines.append("\n- ".join([f"conflicts with {whom}:", *map(field_set.format_path, found)]))
    words = "1 conflict" if count == 1 else f"{count} conflicts"
    message = f"Apply failed with {words}: " + "\n".join(lines)
    return status.ApiError(409, "Conflict", message, {"causes": causes})
