"""The kind ReplicationController: what a ReplicaSet was before there were Deployments."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from kubesim.api.field_errors import FieldProblem, required
from kubesim.api.metadata import check_labels
from kubesim.kinds.apps import (
    WORKLOAD_CONDITION,
    check_endless_template,
    count_column,
    template_mismatch,
)
from kubesim.kinds.controlled import ControlledStrategy, check_counts
from kubesim.kinds.jobs import of_containers
from kubesim.kinds.pods.defaults import default_pod_spec
from kubesim.kinds.podspec import SHAPES as POD_SHAPES
from kubesim.kinds.schema_dsl import expand_schema
from kubesim.kinds.selectors import shown
from kubesim.registry.registry import Object, Resource, ScalePaths, TableColumn
from kubesim.schema import Schema
from kubesim.tables import AGE, NAME

SHAPES: Final = (
    WORKLOAD_CONDITION
    + """
ReplicationController
  spec! ReplicationControllerSpec
  status! ReplicationControllerStatus
ReplicationControllerSpec
  minReadySeconds int32
  replicas int32
  selector {text} atomic
  template PodTemplateSpec
ReplicationControllerStatus
  availableReplicas int32
  conditions [WorkloadCondition] by type
  fullyLabeledReplicas int32
  observedGeneration int64
  readyReplicas int32
  replicas! int32
"""
)


def selector_of(controller: Object) -> Object:
    """The selector in the form that newer kinds have."""
    return {"matchLabels": controller["spec"].get("selector") or {}}


class ReplicationControllerStrategy(ControlledStrategy):
    """Pods by labels, which may change."""

    def _initial_status(self) -> Object:
        return {"replicas": 0}

    def _complete(self, new: Object) -> None:
        spec = new["spec"]
        spec.setdefault("replicas", 1)
        if not spec.get("minReadySeconds"):
            spec.pop("minReadySeconds", None)
        template = spec.get("template")
        if template is None:
            return
        labels = (template.get("metadata") or {}).get("labels")
        if labels:
            spec["selector"] = spec.get("selector") or dict(labels)
            if not new["metadata"].get("labels"):
                new["metadata"]["labels"] = dict(labels)
        default_pod_spec(template.setdefault("spec", {}), "ReplicationController")

    def check(self, new: Object) -> Iterator[FieldProblem]:
        """Numbers, selector and template."""
        spec = new["spec"]
        yield from check_counts(new, "spec", ("minReadySeconds", "replicas"))
        selector, template = spec.get("selector") or {}, spec.get("template")
        if not selector:
            yield required("spec.selector")
        yield from check_labels(selector, "spec.selector")
        if template is None:
            yield required("spec.template")
            return
        labels = (template.get("metadata") or {}).get("labels") or {}
        if selector and not selector.items() <= labels.items():
            yield template_mismatch(template)
        yield from check_endless_template(template, "ReplicationController")


def replication_controllers() -> Resource:
    """The resource ``replicationcontrollers``."""
    return Resource(
        group="",
        version="v1",
        plural="replicationcontrollers",
        kind="ReplicationController",
        namespaced=True,
        schema=Schema.sound(lambda: expand_schema(POD_SHAPES + SHAPES, "ReplicationController")),
        strategy=ReplicationControllerStrategy(),
        columns=(
            NAME,
            count_column("Desired", "spec", "replicas", "Pods that are wanted."),
            count_column("Current", "status", "replicas", "Pods that are there."),
            count_column("Ready", "status", "readyReplicas", "Pods that are ready."),
            AGE,
            of_containers("name"),
            of_containers("image"),
            TableColumn(
                "Selector",
                lambda found: shown(selector_of(found)),
                priority=1,
                description="How it finds its pods.",
            ),
        ),
        singular="replicationcontroller",
        short_names=("rc",),
        categories=("all",),
        subresources=frozenset({"status", "scale"}),
        scale=ScalePaths(selector=("spec", "selector"), selects_labels=True),
        fields={"status.replicas": ("status", "replicas")},
    )
