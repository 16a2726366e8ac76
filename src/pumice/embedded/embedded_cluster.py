"""The settings of an embedded server that serves Pumice's kinds and judges by Pumice's rules."""

from __future__ import annotations

from collections.abc import Coroutine
from dataclasses import replace
from typing import Any

from kubesim.api.client import InProcessClient
from kubesim.clock import Clock
from kubesim.server import ServerSettings
from kubesim.storage import Store
from pumice.admission import QUEUE_FINALIZER
from pumice.admission import Settings as Rules
from pumice.admission.request import DEEPEST
from pumice.embedded import bootstrap
from pumice.embedded.admission_hook import EmbeddedAdmission
from pumice.embedded.identity import PUMICE
from pumice.embedded.unserved_pods import KUBE_SCHEDULER, UnservedPods
from pumice.kube.decode.convert import SCHEDULERS


def with_pumice(
    settings: ServerSettings,
    *,
    admission: bool = True,
    max_queue_depth: int = DEEPEST,
    scheduler: bool = False,
    controllers: bool = False,
    default_scheduler: bool = False,
) -> ServerSettings:
    """Add the CRDs, the first queues and the admission rules of Pumice to the settings of a server.

    Without ``admission``, queues, jobs and podgroups are validated by their CRDs only. ``max_queue_depth`` limits the
    depth of the queue tree below root. ``scheduler``: the scheduler of Pumice will run here, and no other; pods for
    others get an event. ``default_scheduler``: it also places pods that name no scheduler. ``controllers``: the
    controllers of Pumice will run here, so a deleted queue waits for them by a finalizer.
    """
    finalizer = QUEUE_FINALIZER if controllers else ""
    schedulers = served_schedulers(default_scheduler=default_scheduler)
    rules = Rules(max_queue_depth=max_queue_depth, queue_finalizer=finalizer, alone=scheduler, schedulers=schedulers)

    def hook(store: Store) -> EmbeddedAdmission:
        return EmbeddedAdmission(store, rules)

    async def prepare(api: InProcessClient) -> None:
        await bootstrap.create_first_objects(api)
        await bootstrap.set_queue_finalizers(api, finalizer)

    def beside(api: InProcessClient, clock: Clock) -> list[Coroutine[Any, Any, None]]:
        return [UnservedPods(api, clock, schedulers).run()] if scheduler else []

    return replace(
        settings, identity=PUMICE, admission=hook if admission else None, prepare=prepare, more_controllers=beside
    )


def served_schedulers(*, default_scheduler: bool) -> frozenset[str]:
    """The values of ``schedulerName`` whose pods the scheduler of Pumice places in its own cluster."""
    return SCHEDULERS | {KUBE_SCHEDULER} if default_scheduler else SCHEDULERS
