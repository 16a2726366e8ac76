"""All controllers of a batch cluster."""

from __future__ import annotations

from collections.abc import Callable, Collection
from functools import partial

from pumice.controllers.default_queues import FirstQueues
from pumice.controllers.jobs import Jobs
from pumice.controllers.manager import Controller, Seen
from pumice.controllers.podgroups import PodGroups
from pumice.controllers.queues import Queues
from pumice.controllers.routing_events import Routed
from pumice.kube.client.api import Api
from pumice.kube.decode.convert import SCHEDULERS

Maker = Callable[[Api, Seen], Controller]


def everybody(schedulers: Collection[str] = SCHEDULERS, *, jobs: bool = True) -> tuple[Maker, ...]:
    """All of them, for pods of these schedulers; without ``jobs`` somebody else sees to Volcano Jobs."""
    groups = partial(PodGroups, schedulers=schedulers)
    return (FirstQueues, groups, *((Jobs,) if jobs else ()), Queues, Routed)


EVERYBODY = everybody()
