"""The kind Job (``batch/v1``): pods that run until enough of them have succeeded.

A Job finds its pods by a label with its uid, which is set on Job and template when it is created. The template is
immutable; the parallelism is not.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Final

from kubebase.ages import age, duration, seconds
from kubebase.label_selector import matches
from kubesim.api import metadata
from kubesim.api.field_errors import FieldProblem, invalid, required, unsupported
from kubesim.kinds.controlled import ControlledStrategy, check_counts
from kubesim.kinds.pods.defaults import default_pod_spec
from kubesim.kinds.pods.validation import check_template
from kubesim.kinds.podspec import SHAPES as POD_SHAPES
from kubesim.kinds.schema_dsl import expand_schema
from kubesim.kinds.selectors import check_selector, shown
from kubesim.registry.registry import Context, Object, Resource, TableColumn
from kubesim.schema import Schema
from kubesim.tables import AGE, NAME

UID_LABEL: Final = "batch.kubernetes.io/controller-uid"
NAME_LABEL: Final = "batch.kubernetes.io/job-name"
UID_LABELS: Final = (UID_LABEL, "controller-uid")  # the second is how it was called before
NAME_LABELS: Final = (NAME_LABEL, "job-name")
BACKOFF_LIMIT: Final = 6
MODES: Final = ("NonIndexed", "Indexed")
FAILURE_ACTIONS: Final = ("Count", "FailIndex", "FailJob", "Ignore")
COUNTS: Final = (
    "parallelism",
    "completions",
    "activeDeadlineSeconds",
    "backoffLimit",
    "ttlSecondsAfterFinished",
    "backoffLimitPerIndex",
    "maxFailedIndexes",
)
STATUS_COUNTS: Final = ("active", "ready", "succeeded", "failed", "terminating")
FIXED: Final = ("completionMode", "podFailurePolicy", "successPolicy", "backoffLimitPerIndex", "managedBy")
MOVABLE: Final = ("nodeSelector", "affinity", "tolerations", "schedulingGates")
"""What may still be changed in the template of a job that has not started."""

SHAPES: Final = (
    POD_SHAPES
    + """
Job
  spec! JobSpec
  status! JobStatus
JobSpec
  activeDeadlineSeconds int64
  backoffLimit int32
  backoffLimitPerIndex int32
  completionMode text
  completions int32
  managedBy text
  manualSelector bool
  maxFailedIndexes int32
  parallelism int32
  podFailurePolicy PodFailurePolicy
  podReplacementPolicy text
  selector LabelSelector atomic
  successPolicy SuccessPolicy
  suspend bool
  template! PodTemplateSpec
  ttlSecondsAfterFinished int32
PodFailurePolicy
  rules [FailureRule]
FailureRule
  action! text
  onExitCodes FailureExitCodes
  onPodConditions [PodConditionPattern]
FailureExitCodes
  containerName text
  operator! text
  values [int32]
PodConditionPattern
  status text
  type! text
SuccessPolicy
  rules [SuccessRule]
SuccessRule
  succeededCount int32
  succeededIndexes text
JobStatus
  active int32
  completedIndexes text
  completionTime time
  conditions [JobCondition] merging type
  failed int32
  failedIndexes text
  ready int32
  startTime time
  succeeded int32
  terminating int32
  uncountedTerminatedPods UncountedPods
JobCondition
  lastProbeTime time
  lastTransitionTime time
  message text
  reason text
  status! text
  type! text
UncountedPods
  failed [text]
  succeeded [text]
"""
)


class JobStrategy(ControlledStrategy):
    """Defaults, labels, and immutable fields."""

    def on_create(self, new: Object, context: Context) -> None:
        """Nothing has run yet; its pods will be known by its uid."""
        super().on_create(new, context)
        if not new["spec"]["manualSelector"]:
            _stamp(new)
        labels = new["spec"]["template"].get("metadata", {}).get("labels")
        if labels and not new["metadata"].get("labels"):
            new["metadata"]["labels"] = dict(labels)

    def on_update(self, new: Object, old: Object, context: Context) -> None:
        """Defaults, as on create; the selector is preserved."""
        super().on_update(new, old, context)
        if not new["spec"]["manualSelector"]:
            _select(new)

    def _complete(self, new: Object) -> None:
        spec = new["spec"]
        if "parallelism" not in spec and "completions" not in spec:
            spec["completions"] = 1
        spec.setdefault("parallelism", 1)
        spec.setdefault("completionMode", "NonIndexed")
        spec.setdefault("backoffLimit", 2**31 - 1 if "backoffLimitPerIndex" in spec else BACKOFF_LIMIT)
        spec.setdefault("suspend", False)
        spec.setdefault("manualSelector", False)
        spec.setdefault("podReplacementPolicy", "Failed" if "podFailurePolicy" in spec else "TerminatingOrFailed")
        for rule in spec.get("podFailurePolicy", {}).get("rules", ()):
            for pattern in rule.get("onPodConditions", ()):
                pattern["status"] = pattern.get("status") or "True"
        pod = spec["template"].setdefault("spec", {})
        default_pod_spec(pod, "Job")

    def check(self, new: Object) -> Iterator[FieldProblem]:
        """Counts, policies, selector and template."""
        spec = new["spec"]
        yield from check_counts(new, "spec", COUNTS)
        yield from _check_mode(spec)
        yield from _check_policies(spec)
        yield from _check_selector(new)
        yield from check_template(spec["template"], "spec.template")
        if spec["template"]["spec"]["restartPolicy"] == "Always":
            yield required("spec.template.spec.restartPolicy", 'valid values: "OnFailure", "Never"')

    def check_status(self, new: Object, old: Object) -> Iterator[FieldProblem]:
        """Counts of pods, in the order in which kube-apiserver checks them."""
        yield from check_counts(new, "status", STATUS_COUNTS)

    def check_update(self, new: Object, old: Object) -> Iterator[FieldProblem]:
        """What a job runs is decided when it is created."""
        now, before = new["spec"], old["spec"]
        if now.get("completions") != before.get("completions"):
            if now["completionMode"] != "Indexed":
                yield invalid("spec.completions", now.get("completions"), "field is immutable")
            elif now.get("completions") != now["parallelism"]:
                detail = "can only be modified in tandem with spec.parallelism"
                yield invalid("spec.completions", now.get("completions"), detail)
        if now.get("selector") != before.get("selector"):
            yield invalid("spec.selector", now.get("selector"), "field is immutable")
        if _settled(now, old) != _settled(before, old):
            yield invalid("spec.template", now["template"], "field is immutable")
        for part in FIXED:
            if now.get(part) != before.get(part):
                yield invalid(f"spec.{part}", now.get(part), "field is immutable")


def _stamp(new: Object) -> None:
    about = new["metadata"]
    template = new["spec"]["template"].setdefault("metadata", {})
    stamped = dict.fromkeys(NAME_LABELS, about.get("name", "")) | dict.fromkeys(UID_LABELS, about["uid"])
    template["labels"] = stamped | template.get("labels", {})
    _select(new)


def _select(new: Object) -> None:
    selector = new["spec"].setdefault("selector", {})
    selector["matchLabels"] = {UID_LABEL: new["metadata"]["uid"]} | selector.get("matchLabels", {})


def _settled(spec: Object, old: Object) -> Object:
    """The part of a template that may not change. Before a suspended job starts, where its pods go may."""
    template: Object = spec["template"]
    if not old["spec"].get("suspend") or old["status"].get("startTime"):
        return template
    about = {key: value for key, value in template.get("metadata", {}).items() if key not in {"labels", "annotations"}}
    return {"metadata": about, "spec": {key: value for key, value in template["spec"].items() if key not in MOVABLE}}


def _check_mode(spec: Object) -> Iterator[FieldProblem]:
    mode = spec["completionMode"]
    if mode not in MODES:
        yield unsupported("spec.completionMode", mode, MODES)
    if mode == "Indexed":
        if "completions" not in spec:
            yield required("spec.completions", "when completion mode is Indexed")
        return
    if spec.get("maxFailedIndexes") is not None and "backoffLimitPerIndex" not in spec:
        yield required("spec.backoffLimitPerIndex", "when maxFailedIndexes is specified")
    for part in ("backoffLimitPerIndex", "maxFailedIndexes", "successPolicy"):
        if part in spec:
            yield invalid(f"spec.{part}", spec[part], "requires indexed completion mode")


def _check_policies(spec: Object) -> Iterator[FieldProblem]:
    managed = spec.get("managedBy")
    if managed is not None and ("/" not in managed or list(metadata.check_label_key(managed, ""))):
        yield invalid("spec.managedBy", managed, 'must be a domain-prefixed path (such as "acme.io/foo")')
    replacement = ("Failed",) if "podFailurePolicy" in spec else ("Failed", "TerminatingOrFailed")
    if spec["podReplacementPolicy"] not in replacement:
        yield unsupported("spec.podReplacementPolicy", spec["podReplacementPolicy"], replacement)
    for index, rule in enumerate(spec.get("podFailurePolicy", {}).get("rules", ())):
        where = f"spec.podFailurePolicy.rules[{index}]"
        if rule["action"] not in FAILURE_ACTIONS:
            yield unsupported(f"{where}.action", rule["action"], FAILURE_ACTIONS)
        if ("onExitCodes" in rule) is ("onPodConditions" in rule):
            yield invalid(where, rule, "specifying one of OnExitCodes and OnPodConditions is required")


def _check_selector(new: Object) -> Iterator[FieldProblem]:
    spec, about = new["spec"], new["metadata"]
    selector = spec.get("selector")
    if selector is None:
        yield required("spec.selector")
        return
    labels = spec["template"].get("metadata", {}).get("labels", {})
    found = list(check_selector(selector, "spec.selector"))
    yield from found
    if not spec["manualSelector"]:
        if selector.get("matchLabels") != {UID_LABEL: about.get("uid")} or selector.get("matchExpressions"):
            yield invalid("spec.selector", selector, "`selector` not auto-generated")
        own = dict.fromkeys(UID_LABELS, about.get("uid", "")) | dict.fromkeys(NAME_LABELS, about.get("name", ""))
        for key, value in own.items():
            if labels.get(key) != value:
                yield invalid(f"spec.template.metadata.labels[{key}]", labels, f"must be '{value}'")
    if not found and not matches(selector, labels):
        yield invalid("spec.template.metadata.labels", labels or None, "`selector` does not match template `labels`")


# ---- table ------------------------------------------------------------------------------------------------


def _status(found: Object) -> str:
    holding = {c["type"] for c in found["status"].get("conditions", ()) if c["status"] == "True"}
    for ended in ("Complete", "Failed"):
        if ended in holding:
            return ended
    if "deletionTimestamp" in found["metadata"]:
        return "Terminating"
    return next((word for word in ("Suspended", "FailureTarget", "SuccessCriteriaMet") if word in holding), "Running")


def _completions(found: Object) -> str:
    spec, done = found["spec"], found["status"].get("succeeded", 0)
    if "completions" in spec:
        return f"{done}/{spec['completions']}"
    several = spec.get("parallelism", 0)
    return f"{done}/1 of {several}" if several > 1 else f"{done}/1"


def _duration(found: Object) -> str:
    started, ended = found["status"].get("startTime"), found["status"].get("completionTime")
    if not started:
        return ""
    first, last = seconds(started), seconds(ended)
    return age(started) if first is None or last is None else duration(last - first)


def of_containers(field: str) -> TableColumn:
    """A column of the wide table: names or images of what the template runs."""

    def value(found: Object) -> str:
        pod = found["spec"]["template"]["spec"]
        return ",".join(container.get(field, "") for container in pod.get("containers", ()))

    words = {"name": ("Containers", "Names of its containers."), "image": ("Images", "Images of its containers.")}
    name, description = words[field]
    return TableColumn(name, value, priority=1, description=description)


def jobs() -> Resource:
    """The resource ``jobs``."""
    return Resource(
        group="batch",
        version="v1",
        plural="jobs",
        kind="Job",
        namespaced=True,
        schema=Schema.sound(partial(expand_schema, SHAPES, "Job")),
        strategy=JobStrategy(),
        columns=(
            NAME,
            TableColumn("Status", _status, description="Where the job stands."),
            TableColumn("Completions", _completions, description="Succeeded pods and required completions."),
            TableColumn("Duration", _duration, description="How long it runs, or ran."),
            AGE,
            of_containers("name"),
            of_containers("image"),
            TableColumn(
                "Selector",
                lambda found: shown(found["spec"].get("selector")),
                priority=1,
                description="How it finds its pods.",
            ),
        ),
        singular="job",
        categories=("all",),
        subresources=frozenset({"status"}),
        fields={"status.successful": ("status", "succeeded")},
    )
