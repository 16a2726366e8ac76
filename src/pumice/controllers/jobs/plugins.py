"""Job plugins: the identity of pods (``env``) and how they find each other (``svc``).

``svc`` creates a ConfigMap ``JOB-svc`` with the host names of every task, and a headless Service where the cluster has
Services; pods find the names in ``/etc/volcano`` and in ``VC_TASK_HOSTS``. Other plugins are ignored, and an Event
reports that (``ignored``).
"""

from __future__ import annotations

from typing import Final

from pumice.admission.jobs.job_tasks import LABEL
from pumice.controllers.jobs.pod_index import JOB_NAME, pod_name
from pumice.controllers.jobs.spec import Job, Task
from pumice.kube.resources import CONFIG_MAPS, Document, Resource

ENV: Final = "env"
SVC: Final = "svc"
KNOWN: Final = frozenset({ENV, SVC})
JOB_NAMESPACE: Final = "volcano.sh/job-namespace"
INDEX_NAMES: Final = ("VC_TASK_INDEX", "VK_TASK_INDEX")
"""Environment variables with a pod's index: today's, and that from before the project was renamed."""
HOSTS_FOLDER: Final = "/etc/volcano"

SERVICES: Resource[Document] = Resource("v1", "services", "Service", dict)


def ignored(job: Job) -> list[str]:
    """The plugins of a job that have no effect here."""
    return sorted(job.plugins.keys() - KNOWN)


def hosts_name(job: Job) -> str:
    """The name of the ConfigMap with the hosts."""
    return f"{job.name}-svc"


def hosts(job: Job, owner: Document) -> Document:
    """The ConfigMap with the host names of every task."""
    found: dict[str, str] = {}
    for task in job.tasks:
        names = [f"{pod_name(job, task, index)}.{job.name}" for index in range(task.replicas)]
        found[f"{task.name}.host"] = "\n".join(names)
        found[f"VC_{_shouted(task)}_HOSTS"] = ",".join(names)
        found[f"VC_{_shouted(task)}_NUM"] = str(task.replicas)
    about = {"name": hosts_name(job), "namespace": job.namespace, "ownerReferences": [owner]}
    return {"apiVersion": "v1", "kind": CONFIG_MAPS.kind, "metadata": about, "data": found}


def service(job: Job, owner: Document) -> Document:
    """The headless Service that gives its pods DNS names."""
    return {
        "apiVersion": "v1",
        "kind": SERVICES.kind,
        "metadata": {"name": job.name, "namespace": job.namespace, "ownerReferences": [owner]},
        "spec": {
            "clusterIP": "None",
            "publishNotReadyAddresses": True,
            "selector": {JOB_NAME: job.name, JOB_NAMESPACE: job.namespace},
            "ports": [{"name": "placeholder", "port": 1, "protocol": "TCP", "targetPort": 1}],
        },
    }


def equip(job: Job, task: Task, index: int, spec: Document) -> None:
    """Add the plugins' settings to a pod spec, which the caller owns."""
    given: list[Document] = [{"name": name, "value": str(index)} for name in INDEX_NAMES]
    mounts: list[Document] = []
    if SVC in job.plugins:
        if LABEL.fullmatch(pod_name(job, task, index)) and LABEL.fullmatch(job.name):  # valid as a host name
            spec.setdefault("hostname", pod_name(job, task, index))
            spec.setdefault("subdomain", job.name)
        source = hosts_name(job)
        for other in job.tasks:
            for what in ("HOSTS", "NUM"):
                key = f"VC_{_shouted(other)}_{what}"
                given.append({"name": key, "valueFrom": {"configMapKeyRef": {"name": source, "key": key}}})
        volumes = [volume for volume in spec.get("volumes") or () if volume.get("name") != source]
        spec["volumes"] = [*volumes, {"name": source, "configMap": {"name": source}}]
        mounts = [{"name": source, "mountPath": HOSTS_FOLDER}]
    for group in ("initContainers", "containers"):
        if spec.get(group):
            spec[group] = [_equipped(container, given, mounts) for container in spec[group]]


def _equipped(container: Document, given: list[Document], mounts: list[Document]) -> Document:
    """A container with additional environment and mounts; its own settings take precedence."""
    named = {entry.get("name") for entry in container.get("env") or ()}
    mounted = {mount.get("mountPath") for mount in container.get("volumeMounts") or ()}
    env = [*(container.get("env") or ()), *(entry for entry in given if entry["name"] not in named)]
    more = [mount for mount in mounts if mount["mountPath"] not in mounted]
    found = {**container, "env": env}
    return {**found, "volumeMounts": [*(container.get("volumeMounts") or ()), *more]} if more else found


def _shouted(task: Task) -> str:
    return task.name.upper().replace("-", "_")
