"""``pytorch``: the environment that ``torch.distributed`` expects, with the first pod of the master task as master."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from pumice.admission.jobs.plugin_arguments import PytorchArguments
from pumice.controllers.jobs.plugins.plugin import JobPlugin, PodDraft, host_name
from pumice.controllers.jobs.spec import Job, Task
from pumice.kube.resources import Document

PORT_NAME: Final = "pytorchjob-port"
WAIT_CONTAINER: Final = "wait-for-master"
_WAIT_SCRIPT: Final = """\
waited=0
until nc -z {host} {port} 2>/dev/null || (: > /dev/tcp/{host}/{port}) 2>/dev/null; do
  if [ "$waited" -ge {timeout} ]; then
    echo "{host}:{port} does not accept connections after {timeout} s"
    exit 1
  fi
  sleep 2
  waited=$((waited + 2))
done
"""


@dataclass(frozen=True, slots=True)
class PytorchPlugin(JobPlugin):
    """Master and workers of a PyTorch job."""

    arguments: PytorchArguments

    def equip(self, job: Job, task: Task, index: int, pod: PodDraft) -> None:
        """The address of the master, the number of processes, and the rank of this one."""
        names = self.arguments
        master, worker = job.task(names.master), job.task(names.worker)
        if master is None:
            return
        env = {
            "MASTER_ADDR": host_name(job, master, 0),
            "MASTER_PORT": str(names.port),
            "WORLD_SIZE": str(master.replicas + (worker.replicas if worker else 0)),
        }
        if task.name == names.worker:
            env["RANK"] = str(index + 1)
            if names.wait_master_enabled:
                pod.add_init_container(self._wait(env["MASTER_ADDR"]))
        elif task.name == names.master:
            env["RANK"] = "0"
        pod.add_env([{"name": name, "value": value} for name, value in env.items()], init=False)
        pod.open_ports({PORT_NAME: names.port})

    def _wait(self, host: str) -> Document:
        names = self.arguments
        script = _WAIT_SCRIPT.format(host=host, port=names.port, timeout=names.wait_master_timeout)
        return {"name": WAIT_CONTAINER, "image": names.wait_master_image, "command": ["sh", "-c", script]}
