"""The kind CronJob (``batch/v1``): Jobs at the times of a schedule."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from kubebase.ages import age
from kubesim.api.field_errors import FieldProblem, invalid, required, unsupported
from kubesim.kinds.controlled import NOT_NEGATIVE, ControlledStrategy, check_counts
from kubesim.kinds.jobs import COUNTS, MODES
from kubesim.kinds.jobs import SHAPES as JOB_SHAPES
from kubesim.kinds.pods.defaults import default_pod_spec
from kubesim.kinds.pods.validation import check_template
from kubesim.kinds.schema_dsl import OBJECT_REFERENCE, expand_schema
from kubesim.registry.registry import Object, Resource, TableColumn
from kubesim.schema import Schema
from kubesim.tables import AGE, NAME

CONCURRENCY: Final = ("Allow", "Forbid", "Replace")
LONGEST_NAME: Final = 52
"""Names of Jobs are those of their CronJob with eleven characters more, and at most 63 long."""
SUCCESSFUL, FAILED = 3, 1
"""How many finished Jobs are kept by default."""

SHAPES: Final = (
    OBJECT_REFERENCE
    + """
CronJob
  spec! CronJobSpec
  status! CronJobStatus
CronJobSpec
  concurrencyPolicy text
  failedJobsHistoryLimit int32
  jobTemplate! JobTemplateSpec
  schedule! text
  startingDeadlineSeconds int64
  successfulJobsHistoryLimit int32
  suspend bool
  timeZone text
JobTemplateSpec
  metadata! TemplateMeta
  spec! JobSpec
CronJobStatus
  active [ObjectReference]
  lastScheduleTime time
  lastSuccessfulTime time
"""
)


class CronJobStrategy(ControlledStrategy):
    """Defaults, and a schedule that can be read."""

    def _complete(self, new: Object) -> None:
        spec = new["spec"]
        spec["concurrencyPolicy"] = spec.get("concurrencyPolicy") or "Allow"
        spec.setdefault("suspend", False)
        spec.setdefault("successfulJobsHistoryLimit", SUCCESSFUL)
        spec.setdefault("failedJobsHistoryLimit", FAILED)
        template = spec["jobTemplate"]["spec"]["template"]
        template.setdefault("metadata", {})
        default_pod_spec(template.setdefault("spec", {}), "Job")

    def check(self, new: Object) -> Iterator[FieldProblem]:
        """The schedule, the policies and the template."""
        spec, name = new["spec"], new["metadata"].get("name", "")
        if len(name) > LONGEST_NAME:
            yield invalid("metadata.name", name, f"must be no more than {LONGEST_NAME} characters")
        yield from _check_schedule(spec)
        limits = ("startingDeadlineSeconds", "successfulJobsHistoryLimit", "failedJobsHistoryLimit")
        yield from check_counts(new, "spec", limits)
        if spec["concurrencyPolicy"] not in CONCURRENCY:
            yield unsupported("spec.concurrencyPolicy", spec["concurrencyPolicy"], CONCURRENCY)
        yield from _check_job(spec["jobTemplate"]["spec"])


def _check_schedule(spec: Object) -> Iterator[FieldProblem]:
    from kubebase.cron_schedule import ScheduleError, parse_schedule, time_zone  # time zones are read from files

    schedule, zone = spec["schedule"], spec.get("timeZone")
    if not schedule:
        yield required("spec.schedule")
    else:
        try:
            parse_schedule(schedule)
        except ScheduleError as error:
            yield invalid("spec.schedule", schedule, str(error))
    if zone is not None:
        try:
            time_zone(zone)
        except ScheduleError:
            yield invalid("spec.timeZone", zone, f"unknown time zone {zone}")


def _check_job(job: Object) -> Iterator[FieldProblem]:
    field = "spec.jobTemplate.spec"
    for count in COUNTS:
        if job.get(count, 0) < 0:
            yield invalid(f"{field}.{count}", job[count], NOT_NEGATIVE)
    if job.get("completionMode", MODES[0]) not in MODES:
        yield unsupported(f"{field}.completionMode", job["completionMode"], MODES)
    if job.get("selector") is not None and not job.get("manualSelector"):
        yield invalid(f"{field}.selector", job["selector"], "`selector` will be auto-generated")
    if job.get("manualSelector"):
        yield unsupported(f"{field}.manualSelector", job["manualSelector"], ("nil", "false"))
    yield from check_template(job["template"], f"{field}.template")
    if job["template"]["spec"]["restartPolicy"] == "Always":
        yield required(f"{field}.template.spec.restartPolicy", 'valid values: "OnFailure", "Never"')


# ---- table ------------------------------------------------------------------------------------------------


def _last_schedule(found: Object) -> str:
    last = found["status"].get("lastScheduleTime")
    return age(last) if last else "<none>"


def _of_containers(name: str, field: str, description: str) -> TableColumn:
    def value(found: Object) -> str:
        pod = found["spec"]["jobTemplate"]["spec"]["template"]["spec"]
        return ",".join(container.get(field, "") for container in pod.get("containers", ()))

    return TableColumn(name, value, priority=1, description=description)


def cron_jobs() -> Resource:
    """The resource ``cronjobs``."""
    return Resource(
        group="batch",
        version="v1",
        plural="cronjobs",
        kind="CronJob",
        namespaced=True,
        schema=Schema.sound(lambda: expand_schema(JOB_SHAPES + SHAPES, "CronJob")),
        strategy=CronJobStrategy(),
        columns=(
            NAME,
            TableColumn("Schedule", lambda found: found["spec"]["schedule"], description="When it makes a Job."),
            TableColumn(
                "Timezone",
                lambda found: found["spec"].get("timeZone", "<none>"),
                description="The time zone of the schedule.",
            ),
            TableColumn(
                "Suspend", lambda found: str(found["spec"]["suspend"]), description="Whether it makes no Jobs."
            ),
            TableColumn(
                "Active", lambda found: len(found["status"].get("active") or ()), "integer", description="Its Jobs now."
            ),
            TableColumn("Last Schedule", _last_schedule, description="Time since it was last due."),
            AGE,
            _of_containers("Containers", "name", "Names of its containers."),
            _of_containers("Images", "image", "Images of its containers."),
            TableColumn("Selector", lambda found: "<none>", priority=1, description="Jobs find their pods."),
        ),
        singular="cronjob",
        short_names=("cj",),
        categories=("all",),
        subresources=frozenset({"status"}),
    )
