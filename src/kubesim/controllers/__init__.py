"""What kube-controller-manager does, where people would miss it. One file answers one question.

Each controller follows what it needs to know and keeps a list of what to look at (``WorkQueue``). To look at something
means to read its newest state, decide, and write; whatever changes in between brings it back onto the list. The
decision is a function of objects and the time, without any I/O, and can be read and tested alone.
"""

from __future__ import annotations

from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kubesim.api.client import InProcessClient
    from kubesim.clock import Clock


def all_controllers(api: InProcessClient, clock: Clock) -> list[Coroutine[Any, Any, None]]:
    """All controllers, each to be run until it is cancelled."""
    # Imported here, because the verbs use decisions of some of these modules, and these use the verbs.
    from kubesim.controllers import crd_finalizer, disruption, events, namespaces, quotas, service_accounts
    from kubesim.controllers.apps import deployments, replicasets
    from kubesim.controllers.gc import garbage_collector
    from kubesim.controllers.jobs import job_controller
    from kubesim.controllers.nodes import node_lifecycle

    return [
        service_accounts.run(api),
        disruption.run(api, clock),
        crd_finalizer.run(api, clock),
        deployments.run(api, clock),
        events.run(api, clock),
        job_controller.run(api, clock),
        namespaces.run(api, clock),
        node_lifecycle.run(api, clock),
        garbage_collector.run(api),
        quotas.run(api),
        replicasets.run(api, clock),
    ]
