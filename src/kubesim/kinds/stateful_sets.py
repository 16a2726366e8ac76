"""The kinds StatefulSet and ControllerRevision (``apps/v1``): pods with stable names, and the templates they had."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Final

from kubesim.api.field_errors import FieldProblem, forbidden, invalid, required, unsupported
from kubesim.kinds.apps import (
    REVISIONS,
    WORKLOAD_CONDITION,
    WorkloadStrategy,
    amount_faults,
    ready_count,
)
from kubesim.kinds.controlled import NOT_NEGATIVE, check_counts
from kubesim.kinds.jobs import of_containers
from kubesim.kinds.podspec import SHAPES as POD_SHAPES
from kubesim.kinds.schema_dsl import expand_schema
from kubesim.registry.registry import Object, Resource, ScalePaths, Strategy, TableColumn
from kubesim.schema import Schema
from kubesim.tables import AGE, NAME

POD_MANAGEMENT: Final = ("OrderedReady", "Parallel")
UPDATE_STRATEGIES: Final = ("OnDelete", "RollingUpdate")
RETENTION: Final = ("Retain", "Delete")
MUTABLE: Final = (
    "replicas",
    "ordinals",
    "template",
    "updateStrategy",
    "revisionHistoryLimit",
    "persistentVolumeClaimRetentionPolicy",
    "minReadySeconds",
)
IMMUTABLE: Final = (
    f"updates to statefulset spec for fields other than {', '.join(repr(name) for name in MUTABLE[:-1])} and "
    f"{MUTABLE[-1]!r} are forbidden"
)

SHAPES: Final = (
    WORKLOAD_CONDITION
    + """
StatefulSet
  spec! StatefulSetSpec
  status! StatefulSetStatus
StatefulSetSpec
  minReadySeconds int32
  ordinals Ordinals
  persistentVolumeClaimRetentionPolicy ClaimRetention
  podManagementPolicy text
  replicas int32
  revisionHistoryLimit int32
  selector LabelSelector atomic
  serviceName text
  template! PodTemplateSpec
  updateStrategy! StatefulSetUpdate
  volumeClaimTemplates [any]
Ordinals
  start! int32
ClaimRetention
  whenDeleted text
  whenScaled text
StatefulSetUpdate
  rollingUpdate PartitionedUpdate
  type text
PartitionedUpdate
  maxUnavailable int-or-text
  partition int32
StatefulSetStatus
  availableReplicas! int32
  collisionCount int32
  conditions [WorkloadCondition] by type
  currentReplicas int32
  currentRevision text
  observedGeneration int64
  readyReplicas int32
  replicas! int32
  updateRevision text
  updatedReplicas int32
ControllerRevision
  data any
  revision! int64
"""
)


class StatefulSetStrategy(WorkloadStrategy):
    """Pods in an order, and a way from one template to the next."""

    kind = "statefulset"
    template_owner = "StatefulSet"

    def _initial_status(self) -> Object:
        return {"replicas": 0, "availableReplicas": 0}

    def _complete(self, new: Object) -> None:
        super()._complete(new)
        spec = new["spec"]
        spec.setdefault("serviceName", "")
        spec.setdefault("revisionHistoryLimit", REVISIONS)
        spec["podManagementPolicy"] = spec.get("podManagementPolicy") or "OrderedReady"
        update = spec["updateStrategy"]
        update["type"] = update.get("type") or "RollingUpdate"
        if update["type"] == "RollingUpdate":
            update.setdefault("rollingUpdate", {}).setdefault("partition", 0)
        retention = spec.setdefault("persistentVolumeClaimRetentionPolicy", {})
        for when in ("whenDeleted", "whenScaled"):
            retention[when] = retention.get(when) or "Retain"
        for claim in spec.get("volumeClaimTemplates") or ():
            _complete_claim(claim)

    def check(self, new: Object) -> Iterator[FieldProblem]:
        """Policies and their numbers, too."""
        spec = new["spec"]
        if spec["podManagementPolicy"] not in POD_MANAGEMENT:
            words = "must be 'OrderedReady' or 'Parallel'"
            yield invalid("spec.podManagementPolicy", spec["podManagementPolicy"], words)
        yield from _check_update_strategy(spec["updateStrategy"])
        for when, choice in spec["persistentVolumeClaimRetentionPolicy"].items():
            if choice not in RETENTION:
                yield unsupported(f"spec.persistentVolumeClaimRetentionPolicy.{when}", choice, RETENTION)
        start = spec.get("ordinals", {}).get("start", 0)
        if start < 0:
            yield invalid("spec.ordinals.start", start, NOT_NEGATIVE)
        yield from check_counts(new, "spec", ("revisionHistoryLimit",))
        for index, claim in enumerate(spec.get("volumeClaimTemplates") or ()):
            if not (claim.get("metadata") or {}).get("name"):
                yield required(f"spec.volumeClaimTemplates[{index}].metadata.name")
        yield from super().check(new)

    def check_update(self, new: Object, old: Object) -> Iterator[FieldProblem]:
        """Names and claims of pods are decided when the set is created."""
        now, before = (
            {key: value for key, value in found["spec"].items() if key not in MUTABLE} for found in (new, old)
        )
        if now != before:
            yield forbidden("spec", IMMUTABLE)


def _complete_claim(claim: Object) -> None:
    """Fill in what every claim of a StatefulSet has once it is stored."""
    claim.setdefault("apiVersion", "v1")
    claim.setdefault("kind", "PersistentVolumeClaim")
    claim.setdefault("status", {"phase": "Pending"})
    if isinstance(claim.get("spec"), dict):
        claim["spec"].setdefault("volumeMode", "Filesystem")


def _check_update_strategy(update: Object) -> Iterator[FieldProblem]:
    rolling: Object = update.get("rollingUpdate") or {}
    if update["type"] not in UPDATE_STRATEGIES:
        yield invalid("spec.updateStrategy", copy.deepcopy(update), "must be 'RollingUpdate' or 'OnDelete'")
    elif update["type"] == "OnDelete":
        if rolling:
            words = "only allowed for updateStrategy 'RollingUpdate'"
            shown = {"Partition": rolling.get("partition", 0), "MaxUnavailable": rolling.get("maxUnavailable")}
            yield invalid("spec.updateStrategy.rollingUpdate", shown, words)
    else:
        if rolling["partition"] < 0:
            yield invalid("spec.updateStrategy.rollingUpdate.partition", rolling["partition"], NOT_NEGATIVE)
        missing = rolling.get("maxUnavailable")
        if missing is not None:
            field = "spec.updateStrategy.rollingUpdate.maxUnavailable"
            yield from (invalid(field, missing, fault) for fault in amount_faults(missing))
            if missing in (0, "0%"):
                yield invalid(field, missing, "cannot be 0")


class ControllerRevisionStrategy(Strategy):
    """A template at one moment, which never changes."""

    def check(self, new: Object) -> Iterator[FieldProblem]:
        """Revisions are counted up."""
        if new["revision"] < 0:
            yield invalid("revision", new["revision"], NOT_NEGATIVE)

    def check_update(self, new: Object, old: Object) -> Iterator[FieldProblem]:
        """The number may change, the data may not."""
        if new.get("data") != old.get("data"):
            yield invalid("data", new.get("data"), "field is immutable")


def _controller(found: Object) -> str:
    owners = found["metadata"].get("ownerReferences", ())
    owner = next((one for one in owners if one.get("controller")), None)
    if owner is None:
        return "<none>"
    group = owner["apiVersion"].rpartition("/")[0]
    return f"{owner['kind'].lower()}{'.' * bool(group)}{group}/{owner['name']}"


def stateful_sets() -> Resource:
    """The resource ``statefulsets``."""
    return Resource(
        group="apps",
        version="v1",
        plural="statefulsets",
        kind="StatefulSet",
        namespaced=True,
        schema=Schema.sound(lambda: expand_schema(POD_SHAPES + SHAPES, "StatefulSet")),
        strategy=StatefulSetStrategy(),
        columns=(
            NAME,
            TableColumn("Ready", ready_count, description="Ready and desired pods."),
            AGE,
            of_containers("name"),
            of_containers("image"),
        ),
        singular="statefulset",
        short_names=("sts",),
        categories=("all",),
        subresources=frozenset({"status", "scale"}),
        scale=ScalePaths(selector=("spec", "selector")),
    )


def controller_revisions() -> Resource:
    """The resource ``controllerrevisions``."""
    return Resource(
        group="apps",
        version="v1",
        plural="controllerrevisions",
        kind="ControllerRevision",
        namespaced=True,
        schema=Schema.sound(lambda: expand_schema(SHAPES, "ControllerRevision")),
        strategy=ControllerRevisionStrategy(),
        columns=(
            NAME,
            TableColumn("Controller", _controller, description="What it is a revision of."),
            TableColumn("Revision", lambda found: found["revision"], description="Its number, from 1."),
            AGE,
        ),
        singular="controllerrevision",
    )
