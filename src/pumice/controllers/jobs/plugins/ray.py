"""``ray``: a Ray cluster: the commands of head and workers, and a Service ``JOB-head-svc`` in front of the head."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from pumice.admission.jobs.plugin_arguments import RayArguments
from pumice.controllers.jobs.plugins.plugin import JobPlugin, PodDraft, host_name, owned_metadata, pod_labels
from pumice.controllers.jobs.spec import Job, Task
from pumice.kube.decode.pods import TASK_SPEC
from pumice.kube.resources import SERVICES, Document, Resource


@dataclass(frozen=True, slots=True)
class RayPlugin(JobPlugin):
    """Head and workers of a Ray cluster."""

    arguments: RayArguments

    @property
    def ports(self) -> dict[str, int]:
        """The ports of the head by name."""
        names = self.arguments
        return {"gcs": names.port, "dashboard": names.dashboard_port, "client-server": names.client_port}

    def objects(self, job: Job) -> Iterator[tuple[Resource[Document], Document]]:
        """The Service in front of the head, for clients and the dashboard."""
        spec = {
            "selector": {**pod_labels(job), TASK_SPEC: self.arguments.head},
            "ports": [
                # By number: the container may declare the port under a name of its own.
                {"name": name, "port": port, "targetPort": port, "protocol": "TCP"}
                for name, port in self.ports.items()
            ],
        }
        about = owned_metadata(job, f"{job.name}-head-svc")
        yield SERVICES, {"apiVersion": "v1", "kind": SERVICES.kind, "metadata": about, "spec": spec}

    def equip(self, job: Job, task: Task, index: int, pod: PodDraft) -> None:
        """The command that starts Ray."""
        names = self.arguments
        head = job.task(names.head)
        if head is None:
            return
        if task.name == names.head:
            start = (
                f"ray start --head --block --dashboard-host=0.0.0.0 --port={names.port} "
                f"--dashboard-port={names.dashboard_port} --ray-client-server-port={names.client_port}"
            )
            pod.open_ports(self.ports, container=names.head_container)
            pod.set_command(names.head_container, ["sh", "-c", start])
        elif task.name == names.worker:
            start = f"ray start --block --address={host_name(job, head, 0)}:{names.port}"
            pod.set_command(names.worker_container, ["sh", "-c", start])
