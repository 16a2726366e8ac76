"""The columns of a custom resource, from the ``additionalPrinterColumns`` of its definition."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable
from typing import Any, Final

from kubebase.ages import age
from kubesim.registry.registry import Cell, Object, TableColumn
from kubesim.tables import AGE, NAME, jsonpath

_MISSING: Final = object()


def columns(declared: Iterable[Object]) -> tuple[TableColumn, ...]:
    """The name, then the columns declared; a definition without any shows the age."""
    found = tuple(_column(column) for column in declared)
    created = TableColumn(AGE.name, AGE.value, type="date", description=AGE.description)
    return (NAME, *(found or (created,)))


def _column(declared: Object) -> TableColumn:
    path = str(declared.get("jsonPath", ""))
    kind = str(declared.get("type", "string"))
    default = f"Custom resource definition column (in JSONPath format): {path}"
    return TableColumn(
        name=str(declared.get("name", "")),
        value=_value(path, _CELLS.get(kind, _nothing)),
        type=kind,
        format=declared.get("format", ""),
        priority=declared.get("priority", 0),
        description=declared.get("description") or default,
    )


def _value(text: str, cell: Callable[[Any], Cell]) -> Callable[[Object], Cell]:
    try:
        path = jsonpath.parse(text)
    except ValueError:  # kube-apiserver takes such a definition too, and leaves the column empty
        return _nothing

    def value(obj: Object) -> Cell:
        found = next(path(obj), _MISSING)
        return None if found is _MISSING else cell(found)

    return value


# ---- cells ------------------------------------------------------------------------------------------------


def _nothing(_: object) -> Cell:
    return None


def _text(value: object) -> Cell:
    if isinstance(value, str):
        return value
    if value is None:
        return "<no value>"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e21:
        return str(int(value))
    if isinstance(value, dict | list):
        shown = json.dumps(value, separators=(",", ":"), sort_keys=True, ensure_ascii=False)
        return shown.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
    return str(value)


def _integer(value: object) -> Cell:
    if isinstance(value, float) and math.isfinite(value):
        return int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _number(value: object) -> Cell:
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None


def _boolean(value: object) -> Cell:
    return value if isinstance(value, bool) else None


def _date(value: object) -> Cell:
    return (age(value) if value else "<invalid>") if isinstance(value, str) else None


_CELLS: Final[dict[str, Callable[[Any], Cell]]] = {
    "string": _text,
    "integer": _integer,
    "number": _number,
    "boolean": _boolean,
    "date": _date,
}
