"""How the claims of a pod get volumes on one node: volumes that exist, or volumes to be made.

Follows ``FindPodVolumes`` of kube-scheduler: the smallest claims choose first, each the smallest volume that fits and
can be used from the node; claims that find none are provisioned there, if their class can.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from pumice.kube.decode.storage import Claim, selects_node
from pumice.scheduler.volumes.storage_view import StorageView

NO_VOLUME = "node(s) didn't find available persistent volumes to bind"
NO_SPACE = "node(s) did not have enough free storage"


@dataclass(frozen=True, slots=True)
class VolumePlan:
    """The claims of a pod on a node that are not bound yet."""

    node: str
    claims: tuple[Claim, ...]  # all of them
    bindings: dict[str, str] = field(default_factory=dict)  # volumes that exist, by claim
    provisions: tuple[str, ...] = ()  # claims for which a volume has to be made
    conflict: str = ""  # why the pod cannot use the node, in the words of kube-scheduler


def plan_volumes(claims: Iterable[Claim], node: str, storage: StorageView) -> VolumePlan:
    """The plan for claims that wait for their first consumer. Claims whose node was chosen before are only awaited."""
    unbound = tuple(sorted(claims, key=lambda claim: (claim.size, claim.key)))
    bindings: dict[str, str] = {}
    provisions: list[str] = []
    conflict = ""
    for claim in unbound:
        if storage.selected_node(claim):
            continue
        usable = storage.usable_volumes(claim, node)
        volume = next((volume for volume in usable if volume.name not in bindings.values()), None)
        if volume is not None:
            bindings[claim.key] = volume.name
            continue
        provisions.append(claim.key)
        conflict = conflict or provision_conflict(claim, node, storage)
    return VolumePlan(node, unbound, bindings, tuple(provisions), conflict)


def provision_conflict(claim: Claim, node: str, storage: StorageView) -> str:
    """Why the class of a claim cannot make its volume for a node; empty: it can."""
    storage_class = storage.classes.get(claim.storage_class)
    if storage_class is None or not storage_class.provisions:
        return NO_VOLUME
    labels = storage.node_labels.get(node, {})
    if storage_class.topologies is not None and not selects_node(storage_class.topologies, node, labels):
        return NO_VOLUME
    capacity = storage.capacity_terms(claim, storage_class)
    return NO_SPACE if capacity is not None and not selects_node(capacity, node, labels) else ""
