"""``hcclrank``: the rank of a pod as the annotation that the tools of Ascend devices read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from pumice.admission.jobs.plugin_arguments import HcclrankArguments
from pumice.controllers.jobs.plugins.plugin import JobPlugin, PodDraft
from pumice.controllers.jobs.spec import Job, Task

RANK: Final = "hccl/rankIndex"


@dataclass(frozen=True, slots=True)
class HcclrankPlugin(JobPlugin):
    """Ranks of masters, then of workers."""

    arguments: HcclrankArguments

    def equip(self, job: Job, task: Task, index: int, pod: PodDraft) -> None:
        """The rank: that of the annotation, else that of the variable RANK, else the place among the pods."""
        if pod.annotations.get(RANK):
            return
        for container in pod.containers:
            for entry in container.get("env") or ():
                if entry.get("name") == "RANK" and entry.get("value"):
                    pod.annotations[RANK] = entry["value"]
                    return
        master = job.task(self.arguments.master)
        if task.name == self.arguments.master:
            pod.annotations[RANK] = str(index)
        elif task.name == self.arguments.worker:
            pod.annotations[RANK] = str(index + (master.replicas if master else 0))
