"""What the claims of a pod demand of its node, for the engine: node terms, numbers and names, no objects of the API.

For a claim that waits for its first consumer, a node must be able to use a volume that exists or be one for which the
class makes volumes. Both are node terms. Only if several claims of a pod compete for the same volumes, the nodes are
tried one by one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence

from kubebase.label_selector import Requirement
from pumice.kube.decode.storage import NODE_NAME, ONE_POD, Claim, PodClaim, Terms
from pumice.model.specs import Attachment, NodeTerm, VolumeDemand, VolumeNodes
from pumice.scheduler.volumes.storage_view import StorageView, static_driver
from pumice.scheduler.volumes.volume_plan import NO_SPACE, NO_VOLUME, plan_volumes

NODE_CONFLICT = "node(s) didn't match PersistentVolume's node affinity"
ZONE_CONFLICT = "node(s) had no available volume zone"
VOLUME_GONE = "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)"
TOO_MANY = "node(s) exceed max volume count"
UNBOUND = "pod has unbound immediate PersistentVolumeClaims"

NO_NODE: Terms = ()


def volume_wait(claims: Sequence[PodClaim], namespace: str, storage: StorageView) -> str:
    """Why a pod can use no node yet: a claim is missing, lost, or waits for a controller; empty: none of it."""
    unbound = False
    for asked in claims:
        claim = storage.claims.get(f"{namespace}/{asked.name}")
        if claim is None:
            if asked.ephemeral:
                return f'waiting for ephemeral volume controller to create the persistentvolumeclaim "{asked.name}"'
            return f'persistentvolumeclaim "{asked.name}" not found'
        if claim.lost:
            return f'persistentvolumeclaim "{claim.name}" bound to non-existent persistentvolume "{claim.volume}"'
        if claim.deleting:
            return f'persistentvolumeclaim "{claim.name}" is being deleted'
        unbound = unbound or not (claim.bound or storage.waits_for_consumer(claim))
    return UNBOUND if unbound else ""


def nodes_for(claims: Sequence[Claim], storage: StorageView) -> tuple[VolumeNodes, ...]:
    """The nodes from which all claims can be used, one entry for each condition."""
    found: dict[VolumeNodes, None] = {}
    for claim in claims:
        if claim.bound:
            found.update(dict.fromkeys(_nodes_of_bound(claim, storage)))
    unbound = [claim for claim in claims if not claim.bound]
    rivals = _rivals(unbound, storage)
    if rivals:
        found.update(dict.fromkeys(_nodes_one_by_one(unbound, storage)))
    for claim in unbound:
        if storage.selected_node(claim) or not rivals:
            found.update(dict.fromkeys(_nodes_of_unbound(claim, storage)))
    return tuple(found)


def _nodes_of_bound(claim: Claim, storage: StorageView) -> Iterator[VolumeNodes]:
    volume = storage.volumes.get(claim.volume)
    if volume is None:
        yield VolumeNodes(NO_NODE, VOLUME_GONE)
        return
    if volume.nodes is not None:
        yield VolumeNodes(volume.nodes, NODE_CONFLICT)
    if volume.zones is not None:
        yield VolumeNodes(volume.zones, ZONE_CONFLICT)


def _nodes_of_unbound(claim: Claim, storage: StorageView) -> Iterator[VolumeNodes]:
    node = storage.selected_node(claim)
    if node:
        yield VolumeNodes((_named([node]),), NO_VOLUME)
        return
    existing = storage.existing_terms(claim)
    if existing is None:
        return
    storage_class = storage.classes[claim.storage_class]
    if not storage_class.provisions:
        yield VolumeNodes(existing, NO_VOLUME)
        return
    if storage_class.topologies is not None:
        yield VolumeNodes((*existing, *storage_class.topologies), NO_VOLUME)
    capacity = storage.capacity_terms(claim, storage_class)
    if capacity is not None:
        yield VolumeNodes((*existing, *capacity), NO_SPACE)


def _rivals(unbound: Sequence[Claim], storage: StorageView) -> bool:
    """Whether several claims of a pod could be bound to the same volumes."""
    free = [claim for claim in unbound if not storage.selected_node(claim)]
    if len(free) < 2:
        return False
    wanted = Counter(volume.name for claim in free for volume in storage.matching_volumes(claim))
    return any(number > 1 for number in wanted.values())


def _nodes_one_by_one(unbound: Sequence[Claim], storage: StorageView) -> Iterator[VolumeNodes]:
    conflicts = {node: plan_volumes(unbound, node, storage).conflict for node in sorted(storage.node_labels)}
    for reason in (NO_VOLUME, NO_SPACE):
        if reason in conflicts.values():
            yield VolumeNodes((_named([node for node, why in conflicts.items() if why != reason]),), reason)


def _named(nodes: Sequence[str]) -> NodeTerm:
    return NodeTerm(fields=(Requirement(NODE_NAME, "In", tuple(nodes)),))


def attachments(
    claims: Sequence[Claim], storage: StorageView, is_shared: Callable[[str], bool]
) -> tuple[Attachment, ...]:
    """The volumes that a pod attaches to its node, of drivers with a limit there. ``is_shared``: by several pods.

    The volumes that exist in a class that makes none are limited in the same way (``StorageView.static_limits``).
    """
    private: Counter[str] = Counter()
    shared: dict[str, set[str]] = {}
    reasons: dict[str, str] = {}
    for claim in claims:
        for driver, reason in _limited_by(claim, storage):
            reasons[driver] = reason
            if is_shared(claim.key):
                shared.setdefault(driver, set()).add(claim.key)
            else:
                private[driver] += 1
    return tuple(
        Attachment(driver, private[driver], tuple(sorted(shared.get(driver, ()))), reason)
        for driver, reason in sorted(reasons.items())
    )


def _limited_by(claim: Claim, storage: StorageView) -> Iterator[tuple[str, str]]:
    """The drivers that limit a claim, and the words for nodes that take no more."""
    driver = storage.driver_of(claim)
    if driver in storage.limited_drivers:
        yield driver, TOO_MANY
    storage_class = storage.classes.get(claim.storage_class)
    if storage_class is not None and storage_class.is_static:
        yield static_driver(storage_class.name), NO_VOLUME


def exclusive_claims(claims: Sequence[Claim], is_shared: Callable[[str], bool]) -> tuple[str, ...]:
    """The claims that one pod may use at a time, as far as other pods ask for them too."""
    return tuple(sorted({claim.key for claim in claims if ONE_POD in claim.access_modes and is_shared(claim.key)}))


def combine(waits_for: str, nodes: tuple[VolumeNodes, ...], placed: VolumeDemand) -> VolumeDemand | None:
    """The demand of a pod: where it may go, and what it counts for once it is placed. None if it demands nothing."""
    if not (waits_for or nodes or placed.attached or placed.exclusive):
        return None
    return VolumeDemand(waits_for, nodes, placed.attached, placed.exclusive)
