"""Tables: objects as rows, which kubectl requests for printing.

The columns belong to the resource. Built-in kinds define their own (``pods``, ``nodes``, others in ``kinds``); those of
a custom resource are JSONPaths in its definition (``custom``).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from kubebase.ages import age, at
from kubesim.api import status
from kubesim.registry.registry import Cell, Object, Resource, TableColumn
from kubesim.tables import pods

GROUP_VERSION: Final = "meta.k8s.io/v1"


def name(obj: Object) -> Cell:
    """The object's name."""
    found: str = obj["metadata"].get("name", "")
    return found


def created(obj: Object) -> Cell:
    """How long ago the object was created."""
    return age(obj["metadata"].get("creationTimestamp"))


NAME: Final = TableColumn("Name", name, format="name", description="Unique within the namespace.")
AGE: Final = TableColumn("Age", created, description="Time since the object was created.")

_DEFAULT: Final = (NAME, AGE)
_ROW_CONDITIONS: Final[Mapping[str, Callable[[Object], list[Object]]]] = {"pods": pods.row_conditions}


def table(
    resource: Resource,
    objects: Sequence[Object],
    metadata: Object,
    include: str = "",
    header: bool = True,
    now: float | None = None,
) -> Object:
    """A Table of objects. ``include`` is what the client wants of each object itself: None, Metadata or Object.

    ``metadata`` is that of the list (or, in a watch and for a single object, its resourceVersion). In a watch only
    the first table has a ``header``. Ages are as of ``now``, in seconds since 1970 (default: the clock's).
    """
    whole = _WHOLE.get(include)
    if whole is None:
        raise status.bad_request(
            f'Unable to convert to Table as requested: includeObject: Invalid value: "{include}": '
            "must be 'Metadata', 'Object', 'None', or empty"
        )
    columns = resource.columns or _DEFAULT
    conditions = _ROW_CONDITIONS.get(resource.qualified)
    rows: list[Object] = []
    with at(now):
        for obj in objects:
            row: Object = {"cells": [column.value(obj) for column in columns]}
            found = conditions(obj) if conditions else None
            if found:
                row["conditions"] = found
            row["object"] = whole(obj)
            rows.append(row)
    return {
        "kind": "Table",
        "apiVersion": GROUP_VERSION,
        "metadata": metadata,
        "columnDefinitions": [_definition(column) for column in columns] if header else None,
        "rows": rows,
    }


def partial(obj: Object) -> Object:
    """An object without anything but its metadata."""
    return {"kind": "PartialObjectMetadata", "apiVersion": GROUP_VERSION, "metadata": obj["metadata"]}


_WHOLE: Final[Mapping[str, Callable[[Object], Object | None]]] = {
    "": partial,
    "Metadata": partial,
    "Object": lambda obj: obj,
    "None": lambda obj: None,
}


def _definition(column: TableColumn) -> Object:
    return {
        "name": column.name,
        "type": column.type,
        "format": column.format,
        "description": column.description,
        "priority": column.priority,
    }
