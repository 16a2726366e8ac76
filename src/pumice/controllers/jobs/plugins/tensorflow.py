"""``tensorflow``: ``TF_CONFIG`` with the addresses of all pods by role, and the role of this one."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Final

from pumice.admission.jobs.plugin_arguments import TensorflowArguments
from pumice.controllers.jobs.plugins.plugin import JobPlugin, PodDraft, host_name
from pumice.controllers.jobs.spec import Job, Task

VARIABLE: Final = "TF_CONFIG"


@dataclass(frozen=True, slots=True)
class TensorflowPlugin(JobPlugin):
    """Parameter servers, workers, chief and evaluator of a TensorFlow job."""

    arguments: TensorflowArguments

    def equip(self, job: Job, task: Task, index: int, pod: PodDraft) -> None:
        """The cluster specification. A job of one pod needs none."""
        if len(job.tasks) == 1 and job.tasks[0].replicas == 1:
            return
        names = self.arguments
        roles = {names.ps: "ps", names.worker: "worker", names.chief: "chief", names.evaluator: "evaluator"}
        cluster = {
            roles[other.name]: [f"{host_name(job, other, i)}:{names.port}" for i in range(other.replicas)]
            for other in job.tasks
            if other.name in roles and other.replicas
        }
        config = {"cluster": cluster, "task": {"type": roles.get(task.name, task.name), "index": index}}
        pod.add_env([{"name": VARIABLE, "value": json.dumps(config, separators=(",", ":"))}], init=False)
