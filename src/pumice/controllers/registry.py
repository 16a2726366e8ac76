"""All controllers of a batch cluster."""

from __future__ import annotations

from collections.abc import Callable, Collection
from functools import partial

from pumice.controllers.cron_jobs import CronJobController
from pumice.controllers.default_queues import DefaultQueues
from pumice.controllers.flows import JobFlowController, JobTemplateController
from pumice.controllers.jobs import JobController
from pumice.controllers.manager import Controller, SharedInformers
from pumice.controllers.podgroup_conditions import PodGroupConditions
from pumice.controllers.podgroups import PodGroupController
from pumice.controllers.queues import QueueController
from pumice.controllers.routing_events import RoutingEvents
from pumice.kube.client.api import Api
from pumice.kube.decode.convert import SCHEDULERS

Maker = Callable[[Api, SharedInformers], Controller]


def all_controllers(schedulers: Collection[str] = SCHEDULERS, *, jobs: bool = True) -> tuple[Maker, ...]:
    """All controllers, for pods of these schedulers; without ``jobs`` those of Volcano handle its batch kinds."""
    groups = partial(PodGroupController, schedulers=schedulers)
    conditions = partial(PodGroupConditions, schedulers=schedulers)
    batch = (JobController, JobFlowController, JobTemplateController, CronJobController) if jobs else ()
    return (DefaultQueues, groups, conditions, *batch, QueueController, RoutingEvents)


ALL_CONTROLLERS = all_controllers()
