"""Keeps what pods demand of nodes because of their volumes, as claims, volumes, classes and drivers change.

A change of a storage object marks the pods that it may concern. ``take_changed_pods`` hands them out, once per batch of
changes, so that a burst of changes costs one look at each pod. A pod that has a node keeps the demand with which it was
placed; only the number of its attached volumes follows later changes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from kubebase.field_error import FieldError
from pumice.kube.decode import storage
from pumice.kube.decode.manifest_errors import ObjectError
from pumice.kube.decode.storage import Claim, PodClaim
from pumice.kube.resources import (
    CLAIMS,
    CSI_DRIVERS,
    CSI_NODES,
    STORAGE_CAPACITIES,
    STORAGE_CLASSES,
    VOLUMES,
)
from pumice.kube.watch.change_queue import Change
from pumice.model.specs import VolumeDemand
from pumice.scheduler.volumes.storage_view import StorageView
from pumice.scheduler.volumes.volume_demand import attachments, combine, exclusive_claims, nodes_for, volume_wait
from pumice.scheduler.volumes.volume_plan import VolumePlan, plan_volumes

STORAGE_RESOURCES = (CLAIMS, VOLUMES, STORAGE_CLASSES, CSI_NODES, CSI_DRIVERS, STORAGE_CAPACITIES)
_KINDS = {resource.name: resource.kind for resource in STORAGE_RESOURCES}


@dataclass(slots=True)
class _Provision:
    """A claim for which we chose a node, and whether the cluster has shown that, and taken it back."""

    node: str
    seen: bool = False
    refused: bool = False


class VolumeCache:
    """The storage objects of the cluster, the claims of pods, and decisions about them that are under way."""

    def __init__(self) -> None:
        self.storage = StorageView()
        self._pods: dict[str, tuple[PodClaim, ...]] = {}  # pods that are not over, with their claims
        self._users: dict[str, dict[str, None]] = {}  # the pods of each claim
        self._demands: dict[str, VolumeDemand] = {}  # of pods, as computed before they had a node
        self._changed: dict[str, None] = {}  # pods
        self.limits_changed = False  # of some nodes
        self._changed_volumes: set[str] = set()
        self._changed_classes: set[str] = set()  # of which something changed that concerns unbound claims
        self._provisions: dict[str, _Provision] = {}  # by claim
        self._waiters: set[asyncio.Event] = set()
        self._updates: dict[str, Callable[[Change[Any]], None]] = {
            CLAIMS.name: self._set_claim,
            VOLUMES.name: self._set_volume,
            STORAGE_CLASSES.name: self._set_class,
            CSI_NODES.name: self._set_limits,
            CSI_DRIVERS.name: self._set_driver,
            STORAGE_CAPACITIES.name: self._set_capacity,
        }

    # ---- storage objects ----------------------------------------------------------------------------------

    def apply(self, change: Change[Any]) -> None:
        """Record a change of a storage object; raises ``ObjectError`` if the object cannot be understood."""
        try:
            self._updates[change.resource](change)
        except FieldError as error:
            name = f"{_KINDS[change.resource]}/{change.key}"
            raise ObjectError(name, error.field, error.message) from None
        self.wake()

    def _set_claim(self, change: Change[Any]) -> None:
        key = change.key
        if change.new is None:
            self.storage.claims.pop(key, None)
        else:
            found = self.storage.claims[key] = storage.claim(change.new, change.uid, change.revision)
            self._note_selection(found)
        self._changed.update(self._users.get(key, {}))

    def _note_selection(self, claim: Claim) -> None:
        provision = self._provisions.get(claim.key)
        if provision is not None:
            if claim.selected_node == provision.node:
                provision.seen = True
            elif provision.seen:
                provision.refused = True

    def _set_volume(self, change: Change[Any]) -> None:
        before = self.storage.volumes.get(change.key)
        found = None if change.new is None else storage.volume(change.new, change.uid, change.revision)
        self.storage.set_volume(change.key, found)
        if before is None or found is None or before.nodes != found.nodes:
            classes = (self.storage.classes.get(each.storage_class) for each in (before, found) if each is not None)
            self.limits_changed |= any(each is not None and each.is_static for each in classes)
        self._changed_volumes.add(change.key)
        self._changed_classes.update(each.storage_class for each in (before, found) if each is not None)

    def _set_class(self, change: Change[Any]) -> None:
        if change.new is None:
            self.storage.classes.pop(change.key, None)
        else:
            self.storage.classes[change.key] = storage.storage_class(change.new)
        self.limits_changed = True
        self._changed_classes.add(change.key)

    def _set_limits(self, change: Change[Any]) -> None:
        limited = set(self.storage.limited_drivers)
        self.storage.set_limits(change.key, () if change.new is None else storage.volume_limits(change.new))
        self.limits_changed = True
        if self.storage.limited_drivers.keys() != limited:
            self._changed.update(dict.fromkeys(self._pods))

    def _set_driver(self, change: Change[Any]) -> None:
        if change.new is not None and change.new.spec.storage_capacity:
            self.storage.capacity_drivers.add(change.key)
        else:
            self.storage.capacity_drivers.discard(change.key)
        classes = self.storage.classes.values()
        self._changed_classes.update(found.name for found in classes if found.provisioner == change.key)

    def _set_capacity(self, change: Change[Any]) -> None:
        before = self.storage.capacities.pop(change.key, None)
        if change.new is not None:
            self.storage.capacities[change.key] = storage.free_capacity(change.new)
        found = self.storage.capacities.get(change.key)
        self._changed_classes.update(each.storage_class for each in (before, found) if each is not None)

    # ---- nodes and pods -----------------------------------------------------------------------------------

    def set_node(self, name: str, labels: Mapping[str, str] | None) -> None:
        """A node has these labels, or is gone (None)."""
        known = self.storage.node_labels
        if known.get(name) == labels:
            return
        if labels is None:
            known.pop(name, None)
        else:
            known[name] = labels
        # Pods whose claims compete for volumes are told their nodes by name.
        self._changed.update({pod: None for pod, claims in self._pods.items() if len(claims) > 1})

    def limits_of(self, node: str) -> tuple[tuple[str, int], ...]:
        """How many volumes of drivers can be attached to a node, and how many that exist it can use."""
        return (*self.storage.limits.get(node, ()), *self.storage.static_limits(node))

    def set_pod(self, key: str, claims: tuple[PodClaim, ...]) -> None:
        """A pod that is not over uses these claims."""
        if self._pods.get(key) != claims:
            self.drop_pod(key)
            self._pods[key] = claims
            for name in self._claim_keys(key):
                users = self._users.setdefault(name, {})
                self._changed.update(users)  # they share the claim now
                users[key] = None
        self._changed[key] = None

    def drop_pod(self, key: str) -> None:
        """A pod is over or gone."""
        for name in self._claim_keys(key):
            users = self._users.get(name, {})
            users.pop(key, None)
            self._changed.update(users)
            if not users:
                self._users.pop(name, None)
        self._pods.pop(key, None)
        self._demands.pop(key, None)
        self._changed.pop(key, None)
        self.wake()

    def has_pod(self, key: str) -> bool:
        """Whether a pod has claims, and is not over."""
        return key in self._pods

    def take_changed_pods(self) -> list[str]:
        """The pods whose demand may have changed since the last call."""
        if self._changed_volumes or self._changed_classes:
            for key, users in self._users.items():
                claim = self.storage.claims.get(key)
                if claim is not None and self._is_concerned(claim):
                    self._changed.update(users)
            self._changed_volumes.clear()
            self._changed_classes.clear()
        changed, self._changed = list(self._changed), {}
        return [key for key in changed if key in self._pods]

    def _is_concerned(self, claim: Claim) -> bool:
        if claim.volume and claim.volume in self._changed_volumes:
            return True
        return claim.storage_class in self._changed_classes

    def demand(self, key: str, *, placed: bool) -> VolumeDemand | None:
        """What the volumes of a pod demand; None: nothing. A pod that is placed keeps the nodes it could use before."""
        claims = self._claims(key)
        counted = VolumeDemand(
            attached=attachments(claims, self.storage, self._is_shared),
            exclusive=exclusive_claims(claims, self._is_shared),
        )
        if placed:
            before = self._demands.get(key)
            return combine("", before.nodes if before is not None else (), counted)
        namespace = key.partition("/")[0]
        waits_for = volume_wait(self._pods.get(key, ()), namespace, self.storage)
        found = combine(waits_for, () if waits_for else nodes_for(claims, self.storage), counted)
        if found is None:
            self._demands.pop(key, None)
        else:
            self._demands[key] = found
        return found

    def _claim_keys(self, pod: str) -> list[str]:
        namespace = pod.partition("/")[0]
        return list(dict.fromkeys(f"{namespace}/{asked.name}" for asked in self._pods.get(pod, ())))

    def _claims(self, pod: str) -> list[Claim]:
        known = (self.storage.claims.get(key) for key in self._claim_keys(pod))
        return [claim for claim in known if claim is not None]

    def _is_shared(self, claim: str) -> bool:
        return len(self._users.get(claim, ())) > 1

    # ---- decisions ----------------------------------------------------------------------------------------

    def assume(self, pod: str, node: str) -> VolumePlan | None:
        """Plan the volumes of a pod on a node, and reserve them from now on; None: all of its claims are bound."""
        unbound = [claim for claim in self._claims(pod) if not claim.bound]
        if not unbound:
            return None
        plan = plan_volumes(unbound, node, self.storage)
        if not plan.conflict:
            for claim, volume in plan.bindings.items():
                self.storage.reserve(volume, claim)
            for claim in plan.provisions:
                self.storage.selected[claim] = node
                self._provisions[claim] = _Provision(node)
            self._mark_users(plan)
        return plan

    def release(self, plan: VolumePlan) -> None:
        """End the reservations of a plan: the cluster shows its volumes, or it has failed."""
        if plan.conflict:
            return  # nothing was reserved for it; another pod may have reserved the same since
        for volume in plan.bindings.values():
            self.storage.release(volume)
        for claim in plan.provisions:
            self.storage.selected.pop(claim, None)
            self._provisions.pop(claim, None)
        self._mark_users(plan)

    def _mark_users(self, plan: VolumePlan) -> None:
        """Mark the pods of these claims, and of others that could be bound to the same volumes."""
        for claim in plan.claims:
            self._changed_classes.add(claim.storage_class)
            self._changed.update(self._users.get(claim.key, {}))

    def is_refused(self, claim: str) -> bool:
        """Whether a provisioner has taken back the node that we chose for a claim."""
        provision = self._provisions.get(claim)
        return provision is not None and provision.refused

    # ---- waiting ------------------------------------------------------------------------------------------

    def wake(self) -> None:
        """Let all that wait for a change look again."""
        for waiter in self._waiters:
            waiter.set()

    async def wait_for_change(self, seconds: float) -> None:
        """Wait for the next change, at most so long."""
        waiter = asyncio.Event()
        self._waiters.add(waiter)
        try:
            async with asyncio.timeout(seconds):
                await waiter.wait()
        except TimeoutError:
            pass
        finally:
            self._waiters.discard(waiter)
