"""What a job plugin is: it creates objects for a job, and adds to its pods."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from pumice.controllers.jobs.pod_index import JOB_NAME, pod_name
from pumice.controllers.jobs.podgroup import owner
from pumice.controllers.jobs.spec import Job, Task
from pumice.kube.resources import Document, Resource

JOB_NAMESPACE: Final = "volcano.sh/job-namespace"


class JobPlugin:
    """A plugin with its arguments. The default does nothing."""

    def objects(self, job: Job) -> Iterator[tuple[Resource[Document], Document]]:
        """The objects that the job's pods need; they are created before its pods and deleted with the job."""
        yield from ()

    def equip(self, job: Job, task: Task, index: int, pod: PodDraft) -> None:
        """Add to the pod at an index of a task."""


class PodDraft:
    """A pod before it is created. What its template says takes precedence over what plugins add."""

    def __init__(self, spec: Document, annotations: dict[str, str]) -> None:
        self.spec = spec
        self.annotations = annotations

    @property
    def containers(self) -> list[Document]:
        """Its containers, without those that only initialise it."""
        return self.spec.get("containers") or []

    def add_env(self, entries: list[Document], *, init: bool = True) -> None:
        """Add environment variables to all containers, and to init containers as well."""
        for container in self._all(init=init):
            own = container.get("env") or []
            named = {entry.get("name") for entry in own}
            if more := [entry for entry in entries if entry["name"] not in named]:
                container["env"] = [*own, *more]

    def mount(self, volume: Document, mount: Document) -> None:
        """Mount a volume in all containers, unless they have something at that path."""
        others = [each for each in self.spec.get("volumes") or () if each.get("name") != volume["name"]]
        self.spec["volumes"] = [*others, volume]
        for container in self._all(init=True):
            own = container.get("volumeMounts") or []
            if mount["mountPath"] not in {each.get("mountPath") for each in own}:
                container["volumeMounts"] = [*own, mount]

    def open_ports(self, ports: dict[str, int], *, init: bool = False, container: str | None = None) -> None:
        """Declare ports of all containers, or of the one with this name, that they do not declare themselves."""
        for each in self._all(init=init):
            if container not in (None, each.get("name")):
                continue
            own = each.get("ports") or []
            numbers = {port.get("containerPort") for port in own}
            if more := [{"name": name, "containerPort": n} for name, n in ports.items() if n not in numbers]:
                each["ports"] = [*own, *more]

    def set_command(self, container: str, command: list[str]) -> None:
        """Replace the command of the container with this name."""
        for each in self._all(init=False):
            if each.get("name") == container:
                each["command"] = command

    def add_init_container(self, container: Document) -> None:
        """Add a container that has to succeed before the others start."""
        own = self.spec.get("initContainers") or []
        if container["name"] not in {each.get("name") for each in own}:
            self.spec["initContainers"] = [*own, container]

    def _all(self, *, init: bool) -> Iterator[Document]:
        """Containers that may be edited: copies, because the template belongs to the job."""
        for group in ("initContainers", "containers") if init else ("containers",):
            if self.spec.get(group):
                self.spec[group] = [dict(container) for container in self.spec[group]]
                yield from self.spec[group]


def host_name(job: Job, task: Task, index: int) -> str:
    """The DNS name of a pod of the job, as other pods of its namespace resolve it."""
    spec = task.template.get("spec") or {}
    return f"{spec.get('hostname') or pod_name(job, task, index)}.{spec.get('subdomain') or job.name}"


def host_names(job: Job, task: Task) -> list[str]:
    """The DNS names of a task's pods; a template with a host name gives all of them the same."""
    return list(dict.fromkeys(host_name(job, task, index) for index in range(task.replicas)))


def pod_labels(job: Job) -> dict[str, str]:
    """The labels that all pods of a job have, and no others."""
    return {JOB_NAME: job.name, JOB_NAMESPACE: job.namespace}


def owned_metadata(job: Job, name: str) -> Document:
    """The metadata of an object that is deleted with its job."""
    return {"name": name, "namespace": job.namespace, "ownerReferences": [owner(job)]}
