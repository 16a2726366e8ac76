"""The controller of ReplicationControllers: that of ReplicaSets, for the kind that came before them."""

from __future__ import annotations

from typing import Final

from kubesim.api.client import InProcessClient
from kubesim.clock import Clock
from kubesim.controllers.apps import replicasets
from kubesim.kinds.replication_controllers import selector_of

REPLICATION_CONTROLLER: Final = replicasets.ReplicatedKind(
    resource="replicationcontrollers",
    api_version="v1",
    kind="ReplicationController",
    component="replication-controller",
    selector_of=selector_of,
    counts_terminating=False,
)


async def run(api: InProcessClient, clock: Clock) -> None:
    """Run the controller until cancelled."""
    await replicasets.run(api, clock, REPLICATION_CONTROLLER)
