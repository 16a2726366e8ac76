"""The kind PriorityClass. The value of a class is immutable."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Final

from kubesim.api import status
from kubesim.api.field_errors import FieldProblem, forbidden, invalid, unsupported
from kubesim.kinds.schema_dsl import expand_schema
from kubesim.registry.registry import Context, Object, Resource, Strategy, TableColumn
from kubesim.schema import Schema
from kubesim.tables import AGE, NAME

GROUP: Final = "scheduling.k8s.io"
QUALIFIED: Final = f"priorityclasses.{GROUP}"
SYSTEM: Final = {"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}
HIGHEST: Final = 1_000_000_000  # what people may choose; the rest is for the system's own
POLICIES: Final = ("PreemptLowerPriority", "Never")

SHAPES: Final = """
PriorityClass
  description text
  globalDefault bool
  preemptionPolicy text = "PreemptLowerPriority"
  value! int32
"""


class PriorityClassStrategy(Strategy):
    """There is one default at most, and the names ``system-`` are taken."""

    reads_cluster = True
    has_generation = True

    def on_create(self, new: Object, context: Context) -> None:
        """Reject a second global default."""
        self._check_default(new, context)

    def on_update(self, new: Object, old: Object, context: Context) -> None:
        """Reject an update to a second global default."""
        self._check_default(new, context)

    def on_deletion(self, new: Object, context: Context) -> None:
        """System priority classes cannot be deleted."""
        name = new["metadata"]["name"]
        if name in SYSTEM:
            detail = "this is a system priority class and cannot be deleted"
            raise status.forbidden("priorityclasses", GROUP, name, detail)

    def check(self, new: Object) -> Iterator[FieldProblem]:
        """Names, range and policy."""
        name = new["metadata"].get("name", "")
        if name.startswith("system-"):
            if SYSTEM.get(name) != new["value"] or new.get("globalDefault"):
                fault = (
                    f"value of {name} PriorityClass must be {SYSTEM[name]}, and it is no global default"
                    if name in SYSTEM
                    else f"{name} is not a known system priority class"
                )
                detail = f"priority class names with 'system-' prefix are reserved for system use only. error: {fault}"
                yield forbidden("metadata.name", detail)
        elif new["value"] > HIGHEST:
            yield forbidden("value", f"maximum allowed value of a user defined priority is {HIGHEST}")
        if new["preemptionPolicy"] not in POLICIES:
            yield unsupported("preemptionPolicy", new["preemptionPolicy"], POLICIES)

    def check_update(self, new: Object, old: Object) -> Iterator[FieldProblem]:
        """The value and preemption policy are immutable."""
        if new["value"] != old["value"]:
            yield forbidden("value", "may not be changed in an update.")
        if new["preemptionPolicy"] != old["preemptionPolicy"]:
            yield invalid("preemptionPolicy", new["preemptionPolicy"], "field is immutable")

    def _check_default(self, new: Object, context: Context) -> None:
        if not new.get("globalDefault"):
            return
        name = new["metadata"].get("name", "")
        for other in context.list(QUALIFIED, ""):
            if other.get("globalDefault") and other["metadata"]["name"] != name:
                taken = f"PriorityClass {other['metadata']['name']} is already marked as default."
                raise status.forbidden("priorityclasses", GROUP, name, f"{taken} Only one default can exist")


def priority_classes() -> Resource:
    """The resource ``priorityclasses``."""
    return Resource(
        group=GROUP,
        version="v1",
        plural="priorityclasses",
        kind="PriorityClass",
        namespaced=False,
        schema=Schema.sound(partial(expand_schema, SHAPES, "PriorityClass")),
        strategy=PriorityClassStrategy(),
        columns=(
            NAME,
            TableColumn("Value", lambda found: found["value"], "integer", description="The number pods rank by."),
            TableColumn(
                "Global-Default",
                lambda found: bool(found.get("globalDefault")),
                "boolean",
                description="Whether pods without a class get this one.",
            ),
            AGE,
            TableColumn(
                "PreemptionPolicy",
                lambda found: found.get("preemptionPolicy", ""),
                description="Whether its pods may take the place of others.",
            ),
        ),
        singular="priorityclass",
        short_names=("pc",),
    )


def system_classes() -> list[Object]:
    """The priority classes that every cluster has."""
    return [
        {"apiVersion": f"{GROUP}/v1", "kind": "PriorityClass", "metadata": {"name": name}, "value": value}
        for name, value in SYSTEM.items()
    ]
