"""The kinds Deployment and ReplicaSet (``apps/v1``)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from kubebase.label_selector import matches
from kubesim.api.field_errors import FieldProblem, forbidden, invalid, required, unsupported
from kubesim.kinds.controlled import NOT_NEGATIVE, ControlledStrategy, check_counts
from kubesim.kinds.jobs import of_containers
from kubesim.kinds.pods.defaults import default_pod_spec
from kubesim.kinds.pods.validation import check_template
from kubesim.kinds.podspec import SHAPES as POD_SHAPES
from kubesim.kinds.schema_dsl import expand_schema
from kubesim.kinds.selectors import check_selector, shown
from kubesim.registry.registry import Context, Object, Resource, ScalePaths, TableColumn
from kubesim.schema import Schema
from kubesim.tables import AGE, NAME

STRATEGIES: Final = ("Recreate", "RollingUpdate")
QUARTER: Final = "25%"
REVISIONS: Final = 10
PROGRESS_SECONDS: Final = 600
_FIGURE: Final = re.compile(r"([0-9]{1,18}(?=%)|[+-]?[0-9]{1,18}(?!%))%?")

WORKLOAD_CONDITION: Final = """
WorkloadCondition
  lastTransitionTime time
  message text
  reason text
  status! text
  type! text
"""
"""The condition of all workloads but Deployments."""
SHAPES: Final = (
    POD_SHAPES
    + WORKLOAD_CONDITION
    + """
Deployment
  spec! DeploymentSpec
  status! DeploymentStatus
DeploymentSpec
  minReadySeconds int32
  paused bool
  progressDeadlineSeconds int32
  replicas int32
  revisionHistoryLimit int32
  selector LabelSelector atomic
  strategy! DeploymentStrategy
  template! PodTemplateSpec
DeploymentStrategy
  rollingUpdate RollingUpdate
  type text
RollingUpdate
  maxSurge int-or-text
  maxUnavailable int-or-text
DeploymentStatus
  availableReplicas int32
  collisionCount int32
  conditions [DeploymentCondition] by type
  observedGeneration int64
  readyReplicas int32
  replicas int32
  terminatingReplicas int32
  unavailableReplicas int32
  updatedReplicas int32
DeploymentCondition
  lastTransitionTime time
  lastUpdateTime time
  message text
  reason text
  status! text
  type! text
ReplicaSet
  spec! ReplicaSetSpec
  status! ReplicaSetStatus
ReplicaSetSpec
  minReadySeconds int32
  replicas int32
  selector LabelSelector atomic
  template! PodTemplateSpec
ReplicaSetStatus
  availableReplicas int32
  conditions [WorkloadCondition] by type
  fullyLabeledReplicas int32
  observedGeneration int64
  readyReplicas int32
  replicas! int32
  terminatingReplicas int32
"""
)


class WorkloadStrategy(ControlledStrategy):
    """The common strategy of workloads: a template, an immutable selector, and replicas."""

    kind = "deployment"
    """The kind in messages about its selector."""
    template_owner = "ReplicaSet"
    """The kind in messages about its template: a Deployment hands its template on."""

    def _complete(self, new: Object) -> None:
        spec = new["spec"]
        spec.setdefault("replicas", 1)
        for unset in ("minReadySeconds", "paused"):
            if not spec.get(unset):
                spec.pop(unset, None)  # what says nothing is not kept
        pod = spec["template"].setdefault("spec", {})
        default_pod_spec(pod, "ReplicaSet")

    def check(self, new: Object) -> Iterator[FieldProblem]:
        """Numbers, selector and template."""
        spec = new["spec"]
        yield from check_counts(new, "spec", ("replicas", "minReadySeconds"))
        selector, template = spec.get("selector"), spec["template"]
        if selector is None:
            yield required("spec.selector")
            yield template_mismatch(template)
        else:
            wrong = list(check_selector(selector, "spec.selector"))
            yield from wrong
            if not selector.get("matchLabels") and not selector.get("matchExpressions"):
                yield invalid("spec.selector", selector, f"empty selector is invalid for {self.kind}")
            elif wrong:
                yield invalid("spec.selector", selector, "invalid label selector")
                return
            elif not matches(selector, _labels(template)):
                yield template_mismatch(template)
        yield from check_endless_template(template, self.template_owner)

    def check_update(self, new: Object, old: Object) -> Iterator[FieldProblem]:
        """Which pods are its own is decided when it is created."""
        if new["spec"].get("selector") != old["spec"].get("selector"):
            yield invalid("spec.selector", new["spec"].get("selector"), "field is immutable")

    def check_status(self, new: Object, old: Object) -> Iterator[FieldProblem]:
        """Counts, of which some cannot be greater than others."""
        yield from super().check_status(new, old)
        counts = new["status"]
        there = counts.get("replicas", 0)
        for name in ("fullyLabeledReplicas", "updatedReplicas", "readyReplicas", "availableReplicas"):
            if name in counts and counts[name] > there:
                yield invalid(f"status.{name}", counts[name], "cannot be greater than status.replicas")
        if "availableReplicas" in counts and counts["availableReplicas"] > counts.get("readyReplicas", 0):
            words = "cannot be greater than readyReplicas"
            yield invalid("status.availableReplicas", counts["availableReplicas"], words)


def _labels(template: Object) -> dict[str, str]:
    return template.get("metadata", {}).get("labels") or {}


def template_mismatch(template: Object) -> FieldProblem:
    """The problem of a template whose pods its owner would not find."""
    words = "`selector` does not match template `labels`"
    return invalid("spec.template.metadata.labels", _labels(template) or None, words)


def check_endless_template(template: Object, owner: str) -> Iterator[FieldProblem]:
    """The problems of a template whose pods run until they are deleted; ``owner`` is the kind in messages."""
    yield from check_template(template, "spec.template")
    pod = template["spec"]
    if pod["restartPolicy"] != "Always":
        yield unsupported("spec.template.spec.restartPolicy", pod["restartPolicy"], ["Always"])
    if "activeDeadlineSeconds" in pod:
        words = f"activeDeadlineSeconds in {owner} is not Supported"
        yield forbidden("spec.template.spec.activeDeadlineSeconds", words)


class ReplicaSetStrategy(WorkloadStrategy):
    """A number of pods, and nothing else."""

    def _initial_status(self) -> Object:
        return {"replicas": 0}


class DeploymentStrategy(WorkloadStrategy):
    """And a way from one template to the next."""

    counts_annotations = True

    def on_status(self, new: Object, old: Object, context: Context) -> None:
        """Labels are not written with a status."""
        if "labels" in old["metadata"]:
            new["metadata"]["labels"] = old["metadata"]["labels"]
        else:
            new["metadata"].pop("labels", None)

    def _complete(self, new: Object) -> None:
        super()._complete(new)
        spec = new["spec"]
        spec.setdefault("revisionHistoryLimit", REVISIONS)
        spec.setdefault("progressDeadlineSeconds", PROGRESS_SECONDS)
        strategy = spec["strategy"]
        strategy["type"] = strategy.get("type") or "RollingUpdate"
        if strategy["type"] == "RollingUpdate":
            rolling = strategy.setdefault("rollingUpdate", {})
            rolling.setdefault("maxUnavailable", QUARTER)
            rolling.setdefault("maxSurge", QUARTER)

    def check(self, new: Object) -> Iterator[FieldProblem]:
        """The strategy and its numbers, too."""
        yield from super().check(new)
        spec = new["spec"]
        strategy = spec["strategy"]
        if strategy["type"] not in STRATEGIES:
            yield unsupported("spec.strategy", _as_in_go(strategy), STRATEGIES)
        elif strategy["type"] == "Recreate":
            if "rollingUpdate" in strategy:
                words = "may not be specified when strategy `type` is 'Recreate'"
                yield forbidden("spec.strategy.rollingUpdate", words)
        else:
            yield from self._check_rolling(strategy["rollingUpdate"])
        yield from check_counts(new, "spec", ("revisionHistoryLimit", "progressDeadlineSeconds"))
        deadline = spec["progressDeadlineSeconds"]
        if deadline <= spec.get("minReadySeconds", 0):
            yield invalid("spec.progressDeadlineSeconds", deadline, "must be greater than minReadySeconds")

    def check_status(self, new: Object, old: Object) -> Iterator[FieldProblem]:
        """The collision count never decreases."""
        yield from super().check_status(new, old)
        before, now = old["status"].get("collisionCount"), new["status"].get("collisionCount")
        if before is not None and (now is None or now < before):
            yield invalid("status.collisionCount", now or 0, "cannot be decremented")

    def _check_rolling(self, rolling: Object) -> Iterator[FieldProblem]:
        where = "spec.strategy.rollingUpdate"
        for name in ("maxUnavailable", "maxSurge"):
            for fault in amount_faults(rolling[name]):
                yield invalid(f"{where}.{name}", rolling[name], fault)
        missing = rolling["maxUnavailable"]
        if not _figure(missing) and not _figure(rolling["maxSurge"]):
            yield invalid(f"{where}.maxUnavailable", missing, "may not be 0 when `maxSurge` is 0")
        if isinstance(missing, str) and missing.endswith("%") and _figure(missing) > 100:
            yield invalid(f"{where}.maxUnavailable", missing, "must not be greater than 100%")


def _as_in_go(strategy: Object) -> Object:
    """A strategy in error messages: the struct in Go's notation."""
    rolling = strategy.get("rollingUpdate")
    shown = rolling and {
        "MaxUnavailable": rolling.get("maxUnavailable", 0),
        "MaxSurge": rolling.get("maxSurge", 0),
    }
    return {"Type": strategy["type"], "RollingUpdate": shown}


def _figure(value: int | str) -> int:
    """The number in an int-or-percent value; 0 if there is none."""
    if isinstance(value, int):
        return value
    found = _FIGURE.fullmatch(value)
    return int(found[1]) if found else 0


def amount_faults(value: object) -> Iterator[str]:
    """The problems of a number of pods, or a part of them in percent."""
    if isinstance(value, str):
        if not (value.endswith("%") and value[:-1].isascii() and value[:-1].isdigit()):
            yield (
                "a valid percent string must be a numeric string followed by an ending '%' "
                "(e.g. '1%',  or '93%', regex used for validation is '[0-9]+%')"
            )
    elif isinstance(value, int) and value < 0:
        yield NOT_NEGATIVE


def amount(value: int | str, total: int, *, up: bool = False) -> int:
    """An int-or-percent value as a number of pods, rounded down or (``up``) up."""
    if not isinstance(value, str):
        return value
    parts = _figure(value) * total
    return -(-parts // 100) if up else parts // 100


# ---- tables -----------------------------------------------------------------------------------------------


def _selector(found: Object) -> str:
    return shown(found["spec"].get("selector"))


WIDE: Final = (
    of_containers("name"),
    of_containers("image"),
    TableColumn("Selector", _selector, priority=1, description="How it finds its pods."),
)


def count_column(name: str, where: str, field: str, description: str, kind: str = "integer") -> TableColumn:
    """A column with a number from the spec or the status; 0 if it is missing."""
    return TableColumn(name, lambda found: found[where].get(field, 0), kind, description=description)


def ready_count(found: Object) -> str:
    """Ready and desired pods."""
    return f"{found['status'].get('readyReplicas', 0)}/{found['spec'].get('replicas', 0)}"


def deployments() -> Resource:
    """The resource ``deployments``."""
    return Resource(
        group="apps",
        version="v1",
        plural="deployments",
        kind="Deployment",
        namespaced=True,
        schema=Schema.sound(lambda: expand_schema(SHAPES, "Deployment")),
        strategy=DeploymentStrategy(),
        columns=(
            NAME,
            TableColumn("Ready", ready_count, description="Ready and desired pods."),
            count_column("Up-to-date", "status", "updatedReplicas", "Pods of the newest template.", "string"),
            count_column(
                "Available", "status", "availableReplicas", "Pods that have been ready for long enough.", "string"
            ),
            AGE,
            *WIDE,
        ),
        singular="deployment",
        short_names=("deploy",),
        categories=("all",),
        subresources=frozenset({"status", "scale"}),
        scale=ScalePaths(selector=("spec", "selector")),
    )


def replica_sets() -> Resource:
    """The resource ``replicasets``."""
    return Resource(
        group="apps",
        version="v1",
        plural="replicasets",
        kind="ReplicaSet",
        namespaced=True,
        schema=Schema.sound(lambda: expand_schema(SHAPES, "ReplicaSet")),
        strategy=ReplicaSetStrategy(),
        columns=(
            NAME,
            count_column("Desired", "spec", "replicas", "Pods that are wanted."),
            count_column("Current", "status", "replicas", "Pods that are there."),
            count_column("Ready", "status", "readyReplicas", "Pods that are ready."),
            AGE,
            *WIDE,
        ),
        singular="replicaset",
        short_names=("rs",),
        categories=("all",),
        subresources=frozenset({"status", "scale"}),
        scale=ScalePaths(selector=("spec", "selector")),
    )
