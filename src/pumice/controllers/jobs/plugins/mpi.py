"""``mpi``: the hosts of the workers for ``mpiexec`` on the master, and the port of their ssh servers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from pumice.admission.jobs.plugin_arguments import MpiArguments
from pumice.controllers.jobs.plugins.plugin import JobPlugin, PodDraft, host_names
from pumice.controllers.jobs.spec import Job, Task

VARIABLE: Final = "MPI_HOST"
PORT_NAME: Final = "mpijob-port"


@dataclass(frozen=True, slots=True)
class MpiPlugin(JobPlugin):
    """Master and workers of an MPI job."""

    arguments: MpiArguments

    def equip(self, job: Job, task: Task, index: int, pod: PodDraft) -> None:
        """The hosts of the workers, if this is the master; and the port."""
        worker = job.task(self.arguments.worker)
        if task.name == self.arguments.master and worker is not None:
            pod.add_env([{"name": VARIABLE, "value": ",".join(host_names(job, worker))}])
        pod.open_ports({PORT_NAME: self.arguments.port}, init=True)
