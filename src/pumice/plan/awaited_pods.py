"""The pods of Volcano Jobs that are not let in yet: a controller creates them when the scheduler lets the job in."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from pumice.admission.request import JOBS, PODGROUPS
from pumice.engine.engine import Engine
from pumice.kube.decode.manifest_errors import ObjectError
from pumice.model.specs import JobPhase, TaskSpec
from pumice.plan.plan_basis import StoredObject
from pumice.sim.job_expansion import JOB_VERSION, expand_job


def awaited_pods(workloads: Iterable[StoredObject], engine: Engine) -> dict[str, tuple[TaskSpec, ...]]:
    """The pods of every job of the engine that waits to be let in and has none, by the key of its PodGroup.

    Tasks that depend on others are left out: their pods come later, or never.
    """
    groups, jobs = {}, {}
    for resource, namespace, name, document in workloads:
        if resource == PODGROUPS:
            groups[f"{namespace}/{name}"] = document
        elif resource == JOBS:
            jobs[document["metadata"].get("uid")] = document
    found: dict[str, tuple[TaskSpec, ...]] = {}
    for key, group in groups.items():
        known = engine.state.jobs.get(key)
        owners = group["metadata"].get("ownerReferences") or ()
        job = next((jobs[owner.get("uid")] for owner in owners if owner.get("uid") in jobs), None)
        if job is None or known is None or known.phase is not JobPhase.PENDING or known.task_count:
            continue
        roles = [role for role in job["spec"].get("tasks") or () if not role.get("dependsOn")]
        document = {
            "apiVersion": JOB_VERSION,
            "kind": "Job",
            **job,
            "spec": {**job["spec"], "tasks": roles},
        }
        try:
            expanded = list(expand_job(document, f"Job/{key}", engine.state.registry, engine.now))
        except ObjectError:
            continue  # its controller cannot create them either
        found[key] = tuple(replace(pod, job=key) for pod in expanded if isinstance(pod, TaskSpec))
    return found
