"""The pods of a job: their spec, labels and annotations."""

from __future__ import annotations

from typing import Final

from pumice.admission.jobs.job_arrays import JobArray
from pumice.controllers.jobs.job_status import JobStatus
from pumice.controllers.jobs.plugins import JOB_NAMESPACE, PodDraft, plugins_of
from pumice.controllers.jobs.pod_index import JOB_NAME, JOB_VERSION, RESTARTS, TASK_INDEX, pod_name, restarts_of
from pumice.controllers.jobs.podgroup import group_name, owner
from pumice.controllers.jobs.spec import Job, Task
from pumice.kube.decode.pods import GROUP_NAME, TASK_SPEC
from pumice.kube.decode.preemption_annotations import PREEMPTABLE, USER
from pumice.kube.resources import PODS, Document, Resource

QUEUE_NAME: Final = "volcano.sh/queue-name"
RETRY_COUNT: Final = "volcano.sh/job-retry-count"
TEMPLATE: Final = "volcano.sh/template-uid"
ARRAY_INDEX, ARRAY_COUNT = "PUMICE_ARRAY_INDEX", "PUMICE_ARRAY_COUNT"
LONGEST_LABEL = 63
"""Maximum length of a label's value; a longer name goes into the annotations only."""
INHERITED: Final = (
    PREEMPTABLE,
    "volcano.sh/cooldown-time",
    "volcano.sh/revocable-zone",
    "pumice.dev/run-seconds",
    "pumice.dev/fail",
    "pumice.dev/stop-seconds",
)
"""Fields of the job that apply to pods that do not set them."""


CLAIMS: Resource[Document] = Resource("v1", "persistentvolumeclaims", "PersistentVolumeClaim", dict)


def pod_of(job: Job, task: Task, index: int, standing: JobStatus) -> Document:
    """The pod at an index of a task."""
    template = task.template.get("metadata") or {}
    inherited = {name: job.annotations[name] for name in INHERITED if name in job.annotations}
    said = {**inherited, **(template.get("annotations") or {})}
    said.pop(USER, None)  # admission verified the user of the job, not of its templates
    if USER in job.annotations:
        said[USER] = job.annotations[USER]
    restarts = restarts_of(task, index, standing.restarts)
    spec = dict(task.template.get("spec") or {})
    if not spec.get("schedulerName"):
        spec["schedulerName"] = job.scheduler
    if job.priority_class and not spec.get("priorityClassName"):
        spec["priorityClassName"] = job.priority_class
    _mount(job, spec)
    draft = PodDraft(spec, said)
    for plugin in plugins_of(job):
        plugin.equip(job, task, index, draft)
    if job.array is not None:
        draft.add_env([{"name": name, "value": value} for name, value in _array_variables(job.array, index)])
    return {
        "apiVersion": "v1",
        "kind": PODS.kind,
        "metadata": {
            "name": pod_name(job, task, index),
            "namespace": job.namespace,
            "ownerReferences": [owner(job)],
            "labels": (template.get("labels") or {}) | _labels(job, task, index),
            "annotations": {
                **said,
                GROUP_NAME: group_name(job),
                TASK_SPEC: task.name,
                TASK_INDEX: str(index),
                JOB_NAME: job.name,
                JOB_VERSION: str(standing.version),
                RETRY_COUNT: str(standing.retries),
                TEMPLATE: f"{job.uid}-{task.name}",
                **({QUEUE_NAME: job.queue} if job.queue else {}),
                **({RESTARTS: str(restarts)} if restarts else {}),
            },
            **({"finalizers": template["finalizers"]} if template.get("finalizers") else {}),
        },
        "spec": spec,
    }


def _array_variables(array: JobArray, position: int) -> list[tuple[str, str]]:
    """The variables by which a pod of an array knows its part of the work."""
    return [(ARRAY_INDEX, str(array.indexes[position])), (ARRAY_COUNT, str(len(array.indexes)))]


def _labels(job: Job, task: Task, index: int) -> dict[str, str]:
    labels = {
        JOB_NAME: job.name,
        JOB_NAMESPACE: job.namespace,
        TASK_SPEC: task.name,
        TASK_INDEX: str(index),
        QUEUE_NAME: job.queue,
    }
    return {name: text for name, text in labels.items() if text and len(text) <= LONGEST_LABEL}


def claim_name(job: Job, position: int) -> str:
    """The claim of a job's volume: the one it names, or the one created for it."""
    return str(job.volumes[position].get("volumeClaimName") or f"{job.name}-volume-{position}")


def claims(job: Job) -> list[Document]:
    """The claims to create for a job: those of volumes that describe one."""
    return [
        {
            "apiVersion": "v1",
            "kind": CLAIMS.kind,
            "metadata": {
                "name": claim_name(job, position),
                "namespace": job.namespace,
                "ownerReferences": [owner(job)],
            },
            "spec": volume["volumeClaim"],
        }
        for position, volume in enumerate(job.volumes)
        if volume.get("volumeClaim")
    ]


def _mount(job: Job, spec: Document) -> None:
    """Mount the job's volumes in every container of a pod."""
    if not job.volumes:
        return
    claimed = [claim_name(job, position) for position in range(len(job.volumes))]
    volumes = [{"name": name, "persistentVolumeClaim": {"claimName": name}} for name in dict.fromkeys(claimed)]
    mounts = [{"name": n, "mountPath": v["mountPath"]} for n, v in zip(claimed, job.volumes, strict=True)]
    spec["volumes"] = [*(spec.get("volumes") or ()), *volumes]
    spec["containers"] = [
        {**container, "volumeMounts": [*(container.get("volumeMounts") or ()), *mounts]}
        for container in spec.get("containers") or ()
    ]
