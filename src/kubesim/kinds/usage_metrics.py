"""The kinds NodeMetrics and PodMetrics (``metrics.k8s.io/v1beta1``), which ``kubectl top`` asks for.

On a real cluster metrics-server measures them. Nothing runs in simulated pods, so what they request counts as used;
agents measure those that are processes (``api/usage_metrics``). The objects are not stored.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Final

from kubesim.kinds.schema_dsl import expand_schema
from kubesim.registry.registry import Object, Resource, TableColumn
from kubesim.schema import Schema
from kubesim.tables import NAME

METRICS_GROUP: Final = "metrics.k8s.io"
SHAPES: Final = """
NodeMetrics
  timestamp! time
  usage {quantity}
  window! text
PodMetrics
  containers [ContainerMetrics]
  timestamp! time
  window! text
ContainerMetrics
  name! text
  usage {quantity}
"""


def _amount(resource: str, description: str) -> TableColumn:
    def value(found: Object) -> str:
        used: list[Object] = [found, *found.get("containers", ())]
        return next((str(one["usage"][resource]) for one in used if resource in one.get("usage", {})), "0")

    return TableColumn(resource, value, description=description)


def usage_metrics() -> Iterator[Resource]:
    """The resources ``nodes`` and ``pods`` of the group."""
    for plural, kind in (("nodes", "NodeMetrics"), ("pods", "PodMetrics")):
        yield Resource(
            group=METRICS_GROUP,
            version="v1beta1",
            plural=plural,
            kind=kind,
            namespaced=plural == "pods",
            schema=Schema.sound(partial(expand_schema, SHAPES, kind)),
            columns=(
                NAME,
                _amount("cpu", "CPU that is requested; of a pod, by its first container."),
                _amount("memory", "Memory that is requested; of a pod, by its first container."),
                TableColumn("window", lambda found: found["window"], description="What the figures are about."),
            ),
            verbs=("get", "list"),
            derived_from=plural,
        )
