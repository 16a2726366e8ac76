"""Controllers that start with the first object of their kind.

Most clusters have no CronJob and no DaemonSet. Until there is one, its controller costs a waiting task: its module is
not imported, and it does not follow pods.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import aclosing
from importlib import import_module
from typing import Final

from kubesim.api.client import InProcessClient
from kubesim.clock import Clock

LAZY_CONTROLLERS: Final[Mapping[str, str]] = {
    "services": "kubesim.controllers.endpoints",
    "replicationcontrollers": "kubesim.controllers.apps.replication_controllers",
    "statefulsets.apps": "kubesim.controllers.apps.statefulsets",
    "daemonsets.apps": "kubesim.controllers.apps.daemonsets",
    "cronjobs.batch": "kubesim.controllers.jobs.cron_jobs",
}
"""The module with the ``run`` of a controller, by the resource whose first object starts it."""


async def run_when_used(api: InProcessClient, clock: Clock, resource: str) -> None:
    """Wait for the first object of a resource, then run its controller until cancelled."""
    async with aclosing(api.follow(resource)) as batches:
        async for batch in batches:
            if batch:
                break
    await import_module(LAZY_CONTROLLERS[resource]).run(api, clock)
