"""Job plugins: what they create for a job and add to its pods. A file per plugin; ``plugin`` says what one is.

The arguments, and which plugins others need, are defined in ``pumice.admission.jobs.plugin_arguments``, because
admission checks them. A plugin with arguments that admission would have rejected works with its defaults, and an Event
reports that (``plugin_problems``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

from pumice.admission.jobs.job_plugins import ignored_arguments
from pumice.admission.jobs.plugin_arguments import ARGUMENTS, ArgumentError, parse_arguments
from pumice.controllers.jobs.plugins.env import EnvPlugin
from pumice.controllers.jobs.plugins.hcclrank import HcclrankPlugin
from pumice.controllers.jobs.plugins.mpi import MpiPlugin
from pumice.controllers.jobs.plugins.plugin import JOB_NAMESPACE, JobPlugin, PodDraft
from pumice.controllers.jobs.plugins.pytorch import PytorchPlugin
from pumice.controllers.jobs.plugins.ray import RayPlugin
from pumice.controllers.jobs.plugins.ssh import SshPlugin
from pumice.controllers.jobs.plugins.svc import SvcPlugin
from pumice.controllers.jobs.plugins.tensorflow import TensorflowPlugin
from pumice.controllers.jobs.spec import Job

__all__ = ["JOB_NAMESPACE", "PLUGINS", "JobPlugin", "PodDraft", "plugin_problems", "plugins_of"]

PLUGINS: Final[dict[str, Callable[[Any], JobPlugin]]] = {
    "env": EnvPlugin,
    "svc": SvcPlugin,
    "ssh": SshPlugin,
    "pytorch": PytorchPlugin,
    "tensorflow": TensorflowPlugin,
    "mpi": MpiPlugin,
    "ray": RayPlugin,
    "hcclrank": HcclrankPlugin,  # reads what pytorch sets
}
"""In the order in which they are applied, whatever the order in the job."""


def plugins_of(job: Job) -> Iterator[JobPlugin]:
    """The plugins of a job."""
    for name, make in PLUGINS.items():
        if name in job.plugins:
            try:
                yield make(parse_arguments(name, job.plugins[name]).values)
            except ArgumentError:
                yield make(ARGUMENTS[name]())


def plugin_problems(job: Job) -> Iterator[str]:
    """Plugins and arguments that are unknown, and values that cannot be used."""
    for name, arguments in sorted(job.plugins.items()):
        if name not in PLUGINS:
            yield f"spec.plugins.{name}: has no effect; supported plugins: {', '.join(sorted(PLUGINS))}"
            continue
        yield from ignored_arguments(name, arguments)
        try:
            parse_arguments(name, arguments)
        except ArgumentError as error:
            yield f"spec.plugins.{name}[{error.index}]: {error}; the plugin works with its defaults"
