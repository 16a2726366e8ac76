"""Rules about jobs that are not there yet: the specs in a JobTemplate, and in other kinds that make Jobs."""

from __future__ import annotations

from collections.abc import Iterator

from pumice.admission.cluster_view import ClusterView
from pumice.admission.jobs import job_defaults, job_plugins, job_policies, job_tasks
from pumice.admission.request import CREATE, JOBS, Object, Refusal, Request, spec_of

_DEFAULTS = (*job_defaults.RULES, *job_plugins.DEFAULTS)
_RULES = (*job_tasks.RULES, *job_policies.RULES, *job_plugins.RULES)


def job_problems(spec: Object, name: str, world: ClusterView, where: str) -> Iterator[Refusal]:
    """What admission would say of a job with this spec, apart from its queue, which may change until then."""
    job: Object = {"metadata": {"name": name}, "spec": dict(spec)}
    request = Request(CREATE, JOBS, job)
    for default in _DEFAULTS:
        default(job, request, world)
    for rule in _RULES:
        for refusal in rule(request, world):
            yield Refusal(refusal.message, refusal.field.replace("spec", where, 1))


def template_is_a_job(request: Request, world: ClusterView) -> Iterator[Refusal]:
    """A job could be made from a JobTemplate. An update that only changes metadata is none of its business."""
    if request.old is None or spec_of(request.old) != spec_of(request.object):
        yield from job_problems(spec_of(request.object), request.name, world, "spec")


RULES = (template_is_a_job,)
