"""The storage objects of a cluster, and what follows from them for one claim."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from kubebase.label_selector import meets
from pumice.kube.decode.storage import Claim, Class, FreeCapacity, Volume, selects_node
from pumice.model.specs import NodeTerm


@dataclass(slots=True)
class StorageView:
    """Claims, volumes and classes, with decisions that the cluster has not confirmed yet."""

    claims: dict[str, Claim] = field(default_factory=dict)
    volumes: dict[str, Volume] = field(default_factory=dict)
    classes: dict[str, Class] = field(default_factory=dict)
    capacities: dict[str, FreeCapacity] = field(default_factory=dict)  # by key
    capacity_drivers: set[str] = field(default_factory=set)  # that publish their free capacity
    limits: dict[str, tuple[tuple[str, int], ...]] = field(default_factory=dict)  # of drivers, by node
    node_labels: dict[str, Mapping[str, str]] = field(default_factory=dict)
    reserved: dict[str, str] = field(default_factory=dict)  # volumes that we chose, with their claims
    selected: dict[str, str] = field(default_factory=dict)  # claims for which we chose a node
    _by_class: dict[str, dict[str, None]] = field(default_factory=dict)  # names of volumes

    # ---- volumes ------------------------------------------------------------------------------------------

    def set_volume(self, name: str, found: Volume | None) -> None:
        """A volume is as described, or gone (None)."""
        before = self.volumes.pop(name, None)
        if before is not None:
            self._by_class[before.storage_class].pop(name, None)
        if found is not None:
            self.volumes[name] = found
            self._by_class.setdefault(found.storage_class, {})[name] = None

    def matching_volumes(self, claim: Claim) -> list[Volume]:
        """The volumes that a claim could be bound to, the smallest first: one reserved for it, else free ones."""
        usable = [
            volume
            for volume in map(self.volumes.__getitem__, self._by_class.get(claim.storage_class, ()))
            if not volume.deleting and volume.size >= claim.size and volume.volume_mode == claim.volume_mode
        ]
        own = [volume for volume in usable if self._is_reserved_for(volume, claim)]
        found = own or [volume for volume in usable if self._is_free_for(volume, claim)]
        return sorted(found, key=lambda volume: (volume.size, volume.name))

    def _is_reserved_for(self, volume: Volume, claim: Claim) -> bool:
        return volume.is_reserved_for(claim) or self.reserved.get(volume.name) == claim.key

    def _is_free_for(self, volume: Volume, claim: Claim) -> bool:
        return (
            volume.available
            and not volume.claim
            and volume.name not in self.reserved
            and claim.access_modes <= volume.access_modes
            and meets(claim.selector, volume.labels)
        )

    def is_usable_from(self, volume: Volume, node: str) -> bool:
        """Whether the node affinity of a volume allows a node."""
        return volume.nodes is None or selects_node(volume.nodes, node, self.node_labels.get(node, {}))

    # ---- claims -------------------------------------------------------------------------------------------

    def waits_for_consumer(self, claim: Claim) -> bool:
        """Whether the volume of an unbound claim is chosen together with a node for its first pod."""
        found = self.classes.get(claim.storage_class)
        return not claim.volume and found is not None and found.waits

    def selected_node(self, claim: Claim) -> str:
        """The node for which the volume of a claim is being made; empty: none was chosen."""
        return claim.selected_node or self.selected.get(claim.key, "")

    def driver_of(self, claim: Claim) -> str:
        """The driver that attaches the volume of a claim; empty: not known."""
        if claim.bound:
            volume = self.volumes.get(claim.volume)
            return volume.driver if volume is not None else ""
        found = self.classes.get(claim.storage_class)
        return found.provisioner if found is not None and found.provisions else ""

    @property
    def limited_drivers(self) -> set[str]:
        """The drivers of which some node takes a limited number of volumes."""
        return {driver for limits in self.limits.values() for driver, _ in limits}

    # ---- provisioning -------------------------------------------------------------------------------------

    def capacity_terms(self, claim: Claim, storage_class: Class) -> tuple[NodeTerm, ...] | None:
        """The nodes where a class has capacity for the volume of a claim; None: everywhere."""
        if storage_class.provisioner not in self.capacity_drivers:
            return None
        terms: tuple[NodeTerm, ...] = ()
        for capacity in self._capacities_for(claim):
            if capacity.nodes == ():
                return None
            terms += (NodeTerm(capacity.nodes or ()),)
        return tuple(dict.fromkeys(terms))

    def _capacities_for(self, claim: Claim) -> Iterator[FreeCapacity]:
        for _, capacity in sorted(self.capacities.items()):
            fits = capacity.largest is not None and capacity.largest >= claim.size
            if capacity.storage_class == claim.storage_class and fits and capacity.nodes is not None:
                yield capacity
