"""Rules about updates of a Job: replicas and minimums, priority and TTL may change."""

from __future__ import annotations

from collections.abc import Iterator

from pumice.admission.cluster_view import ClusterView
from pumice.admission.jobs import job_defaults
from pumice.admission.request import Object, Refusal, Request, spec_of

OF_JOB = frozenset({"minAvailable", "priorityClassName", "ttlSecondsAfterFinished"})
OF_TASK = frozenset({"replicas", "minAvailable"})


def rest_stays(request: Request, world: ClusterView) -> Iterator[Refusal]:
    """All other fields are immutable: running pods would not follow a change."""
    if request.old is None:
        return
    new, old = _fixed(spec_of(request.object)), _fixed(_completed_spec(request.old, request, world))
    changed = sorted(name for name in new.keys() | old.keys() if new.get(name) != old.get(name))
    if changed:
        may = ", ".join([*sorted(OF_JOB), *(f"tasks[*].{name}" for name in sorted(OF_TASK))])
        yield Refusal(f"Forbidden: {', '.join(changed)} may not change after creation; only {may} may", "spec")


def _completed_spec(old: Object, request: Request, world: ClusterView) -> Object:
    """The spec of the stored job with defaults. It lacks them if it was stored while no webhook was registered.

    An update fills them in, and would otherwise be rejected for it.
    """
    completed: Object = {**old, "spec": dict(spec_of(old))}
    for rule in job_defaults.RULES:
        rule(completed, request, world)
    return spec_of(completed)


def _fixed(job: Object) -> Object:
    """The immutable part of a job. The controller records the claims it created."""
    fixed = {name: value for name, value in job.items() if name not in OF_JOB}
    fixed["tasks"] = [
        {name: value for name, value in task.items() if name not in OF_TASK} for task in _list(job, "tasks")
    ]
    fixed["volumes"] = [
        {name: value for name, value in volume.items() if name != "volumeClaimName" or not volume.get("volumeClaim")}
        for volume in _list(job, "volumes")
    ]
    return fixed


def _list(job: Object, name: str) -> list[Object]:
    return job.get(name) or []


RULES = (rest_stays,)
