"""Rules about CronJobs: schedule, time zone, name, and the job that is made."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from pumice.admission.cluster_view import ClusterView
from pumice.admission.jobs.job_templates import job_problems
from pumice.admission.request import Refusal, Request, spec_of

LONGEST_NAME: Final = 52
"""Jobs are named after the CronJob and the minute in which they are due, and their names are labels of pods."""
EXAMPLE_SUFFIX: Final = "-29999999"
"""As long as the suffix of a job."""


def schedule_can_be_read(request: Request, world: ClusterView) -> Iterator[Refusal]:
    """The schedule is one, and the time zone exists."""
    from kubebase.cron_schedule import ScheduleError, parse_schedule, time_zone  # loaded by the first CronJob

    spec = spec_of(request.object)
    try:
        parse_schedule(str(spec.get("schedule") or ""))
    except ScheduleError as error:
        yield Refusal(f"Invalid value: {error}", "spec.schedule")
    if spec.get("timeZone") is not None:
        try:
            time_zone(str(spec["timeZone"]))
        except ScheduleError as error:
            yield Refusal(f"Invalid value: {error}", "spec.timeZone")


def jobs_can_be_named(request: Request, world: ClusterView) -> Iterator[Refusal]:
    """The name leaves room for the suffix of its jobs."""
    if len(request.name) > LONGEST_NAME:
        message = f"Invalid value: {request.name[:70]!r}: must be no more than {LONGEST_NAME} characters"
        yield Refusal(message, "metadata.name")


def job_can_be_made(request: Request, world: ClusterView) -> Iterator[Refusal]:
    """The template is that of a valid job. An update that leaves it alone is not judged for it."""
    template = spec_of(request.object).get("jobTemplate") or {}
    if request.old is None or spec_of(request.old).get("jobTemplate") != template:
        name = f"{request.name or 'generated'}{EXAMPLE_SUFFIX}"
        yield from job_problems(template.get("spec") or {}, name, world, "spec.jobTemplate.spec")


RULES = (schedule_can_be_read, jobs_can_be_named, job_can_be_made)
