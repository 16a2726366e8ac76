"""``env``: the index of a pod in its task, as environment variables."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from pumice.admission.jobs.plugin_arguments import NoArguments
from pumice.controllers.jobs.plugins.plugin import JobPlugin, PodDraft
from pumice.controllers.jobs.spec import Job, Task

INDEX_NAMES: Final = ("VK_TASK_INDEX", "VC_TASK_INDEX")
"""That from before the project was renamed, and today's."""


@dataclass(frozen=True, slots=True)
class EnvPlugin(JobPlugin):
    """The identity of a pod."""

    arguments: NoArguments

    def equip(self, job: Job, task: Task, index: int, pod: PodDraft) -> None:
        """The index of the pod."""
        pod.add_env([{"name": name, "value": str(index)} for name in INDEX_NAMES])
