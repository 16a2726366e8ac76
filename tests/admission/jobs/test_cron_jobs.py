"""CronJobs at admission: schedule, time zone, name, template and user."""

from __future__ import annotations

import copy

import pytest

from pumice.admission import Request, admit
from pumice.admission.request import CRON_JOBS
from tests.support.admitted import job, world

AROUND = world()


def cron_job(name="c", tasks=None, **spec):
    template = {"spec": job("j", "q", tasks)["spec"]}
    about = {"name": name, "namespace": "ns"}
    return {"kind": "CronJob", "metadata": about, "spec": {"schedule": "@daily", "jobTemplate": template, **spec}}


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (cron_job(), ""),
        (cron_job(timeZone="Europe/Berlin"), ""),
        (cron_job("c" * 52), ""),
        (cron_job("c" * 53), "metadata.name: Invalid value: 'ccc"),
        (cron_job(schedule=""), "spec.schedule: Invalid value: '': must have 5 fields"),
        (cron_job(schedule="61 * * * *"), "spec.schedule: Invalid value: minute '61': must be between 0 and 59"),
        (cron_job(schedule="TZ=UTC @daily"), "use the field timeZone"),
        (cron_job(timeZone=""), "spec.timeZone: Invalid value: '': must be the name of a time zone"),
        (cron_job(timeZone="Mars/Base"), "spec.timeZone: Invalid value: 'Mars/Base': unknown time zone"),
        (cron_job(tasks=[]), "spec.jobTemplate.spec.tasks: Required value: a job needs at least one task"),
        (
            cron_job(tasks=[{"name": "a", "replicas": 1, "minAvailable": 2}]),
            "spec.jobTemplate.spec.tasks[0].minAvailable: Invalid value: 2",
        ),
    ],
)
def test_cron_jobs(given, message):
    verdict = admit(Request("CREATE", CRON_JOBS, given, user="ann"), AROUND)
    assert (message in verdict.message) if message else verdict.allowed, verdict.message
    assert verdict.object["metadata"]["annotations"] == {"volcano.sh/user": "ann"}
    assert verdict.object["spec"] == given["spec"]  # defaults are those of the job


def test_suspending_does_not_judge_the_template_again():
    old = cron_job(tasks=[])
    new = copy.deepcopy(old)
    new["spec"]["suspend"] = True
    assert admit(Request("UPDATE", CRON_JOBS, new, old), AROUND).allowed
