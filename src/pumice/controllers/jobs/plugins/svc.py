"""``svc``: how the pods of a job find each other.

It creates a ConfigMap ``JOB-svc`` with the host names of every task, a headless Service that gives the pods these
names, and a NetworkPolicy that lets only pods of the job connect to them. Pods find the names in ``/etc/volcano`` and
in ``VC_TASK_HOSTS``.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from pumice.admission.jobs.job_tasks import LABEL
from pumice.admission.jobs.plugin_arguments import SvcArguments
from pumice.controllers.jobs.plugins.plugin import JobPlugin, PodDraft, host_names, owned_metadata, pod_labels
from pumice.controllers.jobs.pod_index import pod_name
from pumice.controllers.jobs.spec import Job, Task
from pumice.kube.resources import CONFIG_MAPS, NETWORK_POLICIES, SERVICES, Document, Resource

HOSTS_FOLDER: Final = "/etc/volcano"


@dataclass(frozen=True, slots=True)
class SvcPlugin(JobPlugin):
    """Host names, and who may connect."""

    arguments: SvcArguments

    def objects(self, job: Job) -> Iterator[tuple[Resource[Document], Document]]:
        """The ConfigMap, the Service and the NetworkPolicy."""
        yield CONFIG_MAPS, hosts(job)
        yield SERVICES, service(job, publish_not_ready=self.arguments.publish_not_ready_addresses)
        if not self.arguments.disable_network_policy:
            yield NETWORK_POLICIES, network_policy(job)

    def equip(self, job: Job, task: Task, index: int, pod: PodDraft) -> None:
        """The host name of the pod, and the names of all others."""
        if LABEL.fullmatch(pod_name(job, task, index)) and LABEL.fullmatch(job.name):  # valid as a host name
            pod.spec.setdefault("hostname", pod_name(job, task, index))
            pod.spec.setdefault("subdomain", job.name)
        source = hosts_name(job)
        if self.arguments.inject_hosts_env:
            keys = [f"VC_{_shouted(other)}_{what}" for other in job.tasks for what in ("HOSTS", "NUM")]
            pod.add_env([{"name": key, "valueFrom": {"configMapKeyRef": {"name": source, "key": key}}} for key in keys])
        pod.mount({"name": source, "configMap": {"name": source}}, mount={"name": source, "mountPath": HOSTS_FOLDER})


def hosts_name(job: Job) -> str:
    """The name of the ConfigMap with the hosts."""
    return f"{job.name}-svc"


def hosts(job: Job) -> Document:
    """The ConfigMap with the host names of every task."""
    found: dict[str, str] = {}
    for task in job.tasks:
        names = host_names(job, task)
        found[f"{task.name.replace('-', '_')}.host"] = "\n".join(names)
        found[f"VC_{_shouted(task)}_HOSTS"] = ",".join(names)
        found[f"VC_{_shouted(task)}_NUM"] = str(len(names))
    about = owned_metadata(job, hosts_name(job))
    return {"apiVersion": "v1", "kind": CONFIG_MAPS.kind, "metadata": about, "data": found}


def service(job: Job, *, publish_not_ready: bool = False) -> Document:
    """The headless Service that gives its pods DNS names."""
    return {
        "apiVersion": "v1",
        "kind": SERVICES.kind,
        "metadata": owned_metadata(job, job.name),
        "spec": {
            "clusterIP": "None",
            "publishNotReadyAddresses": publish_not_ready,
            "selector": pod_labels(job),
            "ports": [{"name": "placeholder-volcano", "port": 1, "protocol": "TCP", "targetPort": 1}],
        },
    }


def network_policy(job: Job) -> Document:
    """The NetworkPolicy that lets only pods of the job connect to its pods."""
    members = {"matchLabels": pod_labels(job)}
    return {
        "apiVersion": NETWORK_POLICIES.api_version,
        "kind": NETWORK_POLICIES.kind,
        "metadata": owned_metadata(job, job.name),
        "spec": {
            "podSelector": members,
            "ingress": [{"from": [{"podSelector": members}]}],
            "policyTypes": ["Ingress"],
        },
    }


def _shouted(task: Task) -> str:
    return task.name.upper().replace("-", "_")
