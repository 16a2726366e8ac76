"""The kind DaemonSet (``apps/v1``): a pod on each node that its template admits."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from kubesim.api.field_errors import FieldProblem, invalid, required, unsupported
from kubesim.kinds.apps import (
    REVISIONS,
    WIDE,
    WORKLOAD_CONDITION,
    WorkloadStrategy,
    amount_faults,
    count_column,
)
from kubesim.kinds.controlled import check_counts
from kubesim.kinds.podspec import SHAPES as POD_SHAPES
from kubesim.kinds.schema_dsl import expand_schema
from kubesim.registry.registry import Context, Object, Resource, TableColumn
from kubesim.schema import Schema
from kubesim.tables import AGE, NAME

UPDATE_STRATEGIES: Final = ("RollingUpdate", "OnDelete")
TEMPLATE_GENERATION: Final = "deprecated.daemonset.template.generation"

SHAPES: Final = (
    WORKLOAD_CONDITION
    + """
DaemonSet
  spec! DaemonSetSpec
  status! DaemonSetStatus
DaemonSetSpec
  minReadySeconds int32
  revisionHistoryLimit int32
  selector LabelSelector atomic
  template! PodTemplateSpec
  updateStrategy! DaemonSetUpdate
DaemonSetUpdate
  rollingUpdate RollingUpdate
  type text
RollingUpdate
  maxSurge int-or-text
  maxUnavailable int-or-text
DaemonSetStatus
  collisionCount int32
  conditions [WorkloadCondition] by type
  currentNumberScheduled! int32
  desiredNumberScheduled! int32
  numberAvailable int32
  numberMisscheduled! int32
  numberReady! int32
  numberUnavailable int32
  observedGeneration int64
  updatedNumberScheduled int32
"""
)
COUNTS: Final = ("currentNumberScheduled", "desiredNumberScheduled", "numberMisscheduled", "numberReady")


class DaemonSetStrategy(WorkloadStrategy):
    """No number of pods: the nodes decide."""

    kind = "daemonset"
    template_owner = "DaemonSet"

    def on_create(self, new: Object, context: Context) -> None:
        """Count the template as the first."""
        super().on_create(new, context)
        _count_template(new, 1)

    def on_update(self, new: Object, old: Object, context: Context) -> None:
        """Count the templates: the number is deprecated, and pods still carry it as a label."""
        super().on_update(new, old, context)
        _count_template(new, _template_count(old) + (new["spec"]["template"] != old["spec"]["template"]))

    def on_status(self, new: Object, old: Object, context: Context) -> None:
        """Keep the number of the template: metadata may come with a status."""
        _count_template(new, _template_count(old))

    def _initial_status(self) -> Object:
        return dict.fromkeys(COUNTS, 0)

    def _complete(self, new: Object) -> None:
        super()._complete(new)
        spec = new["spec"]
        spec.pop("replicas", None)
        spec.setdefault("revisionHistoryLimit", REVISIONS)
        update = spec["updateStrategy"]
        update["type"] = update.get("type") or "RollingUpdate"
        if update["type"] == "RollingUpdate":
            rolling = update.setdefault("rollingUpdate", {})
            rolling.setdefault("maxUnavailable", 1)
            rolling.setdefault("maxSurge", 0)

    def check(self, new: Object) -> Iterator[FieldProblem]:
        """The update strategy and its numbers, too."""
        spec = new["spec"]
        missing = spec.get("selector") is None
        # A missing selector is not reported itself, only that it does not match.
        yield from (problem for problem in super().check(new) if not (missing and problem.field == "spec.selector"))
        update = spec["updateStrategy"]
        if update["type"] not in UPDATE_STRATEGIES:
            shown = {"Type": update["type"], "RollingUpdate": update.get("rollingUpdate")}
            yield unsupported("spec.updateStrategy", shown, UPDATE_STRATEGIES)
        elif update["type"] == "RollingUpdate":
            yield from _check_rolling(update["rollingUpdate"])
        yield from check_counts(new, "spec", ("revisionHistoryLimit",))


def _template_count(found: Object) -> int:
    return int((found["metadata"].get("annotations") or {}).get(TEMPLATE_GENERATION, "1"))


def _count_template(new: Object, number: int) -> None:
    new["metadata"]["annotations"] = {
        **(new["metadata"].get("annotations") or {}),
        TEMPLATE_GENERATION: str(number),
    }


def _check_rolling(rolling: Object) -> Iterator[FieldProblem]:
    field = "spec.updateStrategy.rollingUpdate"
    for name in ("maxUnavailable", "maxSurge"):
        for fault in amount_faults(rolling[name]):
            yield invalid(f"{field}.{name}", rolling[name], fault)
    given = [name for name in ("maxUnavailable", "maxSurge") if rolling[name] not in (0, "0%")]
    if not given:
        yield required(f"{field}.maxUnavailable", "cannot be 0 when maxSurge is 0")
    elif len(given) == 2:
        yield invalid(f"{field}.maxSurge", rolling["maxSurge"], "may not be set when maxUnavailable is non-zero")


def _node_selector(found: Object) -> str:
    chosen = sorted((found["spec"]["template"]["spec"].get("nodeSelector") or {}).items())
    return ",".join(f"{key}={value}" for key, value in chosen) or "<none>"


def daemon_sets() -> Resource:
    """The resource ``daemonsets``."""
    return Resource(
        group="apps",
        version="v1",
        plural="daemonsets",
        kind="DaemonSet",
        namespaced=True,
        schema=Schema.sound(lambda: expand_schema(POD_SHAPES + SHAPES, "DaemonSet")),
        strategy=DaemonSetStrategy(),
        columns=(
            NAME,
            count_column("Desired", "status", "desiredNumberScheduled", "Nodes that should run its pod."),
            count_column("Current", "status", "currentNumberScheduled", "Nodes that have its pod."),
            count_column("Ready", "status", "numberReady", "Pods that are ready."),
            count_column("Up-to-date", "status", "updatedNumberScheduled", "Pods of the newest template."),
            count_column("Available", "status", "numberAvailable", "Pods that have been ready for long enough."),
            TableColumn("Node Selector", _node_selector, description="Nodes that it is for."),
            AGE,
            *WIDE,
        ),
        singular="daemonset",
        short_names=("ds",),
        categories=("all",),
        subresources=frozenset({"status"}),
    )
