"""What kube-controller-manager does, where people would miss it. One file answers one question.

Each controller follows what it needs to know and keeps a list of what to look at (``work``). To look at something
means to read its newest state, decide, and write; whatever changes in between brings it back onto the list. The
decision is a function of objects and the time, without any I/O, and can be read and tested alone.
"""

from __future__ import annotations

from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pumice.apiserver.clock import Clock
    from pumice.apiserver.verbs import Api


def everybody(api: Api, clock: Clock) -> list[Coroutine[Any, Any, None]]:
    """All controllers, each to be run until it is cancelled."""
    # Imported here, because the verbs use decisions of some of these modules, and these use the verbs.
    from pumice.apiserver.controllers import (
        accounts,
        budgets,
        definitions,
        deployments,
        events,
        jobs,
        namespaces,
        nodelife,
        owners,
        quotas,
        replicasets,
    )

    return [
        accounts.run(api),
        budgets.run(api, clock),
        definitions.run(api, clock),
        deployments.run(api, clock),
        events.run(api, clock),
        jobs.run(api, clock),
        namespaces.run(api, clock),
        nodelife.run(api, clock),
        owners.run(api),
        quotas.run(api),
        replicasets.run(api, clock),
    ]
