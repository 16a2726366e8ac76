"""The controllers of kube-controller-manager that a test cluster needs.

Each controller follows the resources it depends on and adds keys to a ``WorkQueue``. Reconciling a key means reading
the newest state, deciding, and writing; a change in between adds the key again. Decisions are functions of objects and
the time, without I/O, and can be read and tested alone. Controllers of kinds that few clusters use start with the
first object of their kind (``lazy_start``).
"""

from __future__ import annotations

from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kubesim.api.client import InProcessClient
    from kubesim.clock import Clock


def all_controllers(api: InProcessClient, clock: Clock) -> list[Coroutine[Any, Any, None]]:
    """All controllers, each to be run until cancelled."""
    # Imported here: kubesim.api imports some of these modules, and they import kubesim.api.
    from kubesim.controllers import crd_finalizer, disruption, events, namespaces, quotas, service_accounts
    from kubesim.controllers.apps import deployments, replicasets
    from kubesim.controllers.gc import garbage_collector
    from kubesim.controllers.jobs import job_controller
    from kubesim.controllers.lazy_start import LAZY_CONTROLLERS, run_when_used
    from kubesim.controllers.nodes import node_lifecycle
    from kubesim.controllers.volumes import ephemeral_claims, volume_controller

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
        *(run_when_used(api, clock, resource) for resource in LAZY_CONTROLLERS),
        volume_controller.run(api, clock),
        ephemeral_claims.run(api, clock),
    ]
