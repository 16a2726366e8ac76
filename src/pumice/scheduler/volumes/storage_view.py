"""The storage objects of a cluster, and what follows from them for one claim."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from kubebase.label_selector import Requirement, meets
from pumice.kube.decode.storage import Claim, Class, FreeCapacity, Terms, Volume, selects_node
from pumice.model.specs import NodeTerm

Signature = tuple[str, int, frozenset[str], str, tuple[Requirement, ...]]
"""What a claim asks of a volume: claims of one signature could be bound to the same volumes."""


EVERYWHERE = Requirement("", "In", ("",))
"""The place of volumes whose nodes no single label decides: they are counted on every node."""


class MatchingVolumes:
    """The free volumes for claims of one signature, the smallest first; those on few nodes are found by node."""

    __slots__ = ("_anywhere", "_by_label", "volumes")

    def __init__(self, volumes: Iterable[Volume]) -> None:
        self.volumes = sorted(volumes, key=_by_size)
        self._anywhere: list[Volume] = []  # to be looked at for every node
        self._by_label: dict[str, dict[str, list[Volume]]] = {}  # volumes on nodes with a value of a label
        for volume in self.volumes:
            label = label_values(volume.nodes)
            if label is None:
                self._anywhere.append(volume)
                continue
            by_value = self._by_label.setdefault(label.key, {})
            for value in label.values:
                by_value.setdefault(value, []).append(volume)

    def near(self, labels: Mapping[str, str]) -> list[Volume]:
        """The volumes that a node with these labels may be able to use."""
        found = [*self._anywhere]
        for key, by_value in self._by_label.items():
            found += by_value.get(labels.get(key, ""), ())
        return sorted(found, key=_by_size)


@dataclass(slots=True)
class StorageView:
    """Claims, volumes and classes, with decisions that the cluster has not confirmed yet."""

    claims: dict[str, Claim] = field(default_factory=dict)
    volumes: dict[str, Volume] = field(default_factory=dict)
    classes: dict[str, Class] = field(default_factory=dict)
    capacities: dict[str, FreeCapacity] = field(default_factory=dict)  # by key
    capacity_drivers: set[str] = field(default_factory=set)  # that publish their free capacity
    limits: dict[str, tuple[tuple[str, int], ...]] = field(default_factory=dict)  # of drivers, by node
    limited_drivers: Counter[str] = field(default_factory=Counter)  # by how many nodes limit them
    node_labels: dict[str, Mapping[str, str]] = field(default_factory=dict)
    reserved: dict[str, str] = field(default_factory=dict)  # volumes that we chose, with their claims
    selected: dict[str, str] = field(default_factory=dict)  # claims for which we chose a node
    _numbers: dict[str, dict[str, Counter[str]]] = field(default_factory=dict)  # volumes by class, node label, value
    _free: dict[str, dict[str, None]] = field(default_factory=dict)  # names of volumes without a claim, by class
    _of_claim: dict[str, dict[str, None]] = field(default_factory=dict)  # names of volumes by claim
    _matches: dict[Signature, MatchingVolumes] = field(default_factory=dict)  # until a volume changes
    _match_terms: dict[Signature, Terms | None] = field(default_factory=dict)  # where those not reserved can be used

    # ---- volumes ------------------------------------------------------------------------------------------

    def set_volume(self, name: str, found: Volume | None) -> None:
        """A volume is as described, or gone (None)."""
        before = self.volumes.pop(name, None)
        if before is not None:
            index, key = self._place_of(before)
            del index[key][name]
            if not index[key]:
                del index[key]
            self._count(before, -1)
        if found is not None:
            self._count(found, 1)
            self.volumes[name] = found
            index, key = self._place_of(found)
            index.setdefault(key, {})[name] = None
        self._matches.clear()
        self._match_terms.clear()

    def _place_of(self, volume: Volume) -> tuple[dict[str, dict[str, None]], str]:
        return (self._of_claim, volume.claim) if volume.claim else (self._free, volume.storage_class)

    def _count(self, volume: Volume, sign: int) -> None:
        """Count a volume by the values of the node label by which it is found, or as one that is found everywhere."""
        label = label_values(volume.nodes) or EVERYWHERE
        numbers = self._numbers.setdefault(volume.storage_class, {}).setdefault(label.key, Counter())
        for value in label.values:
            numbers[value] += sign
            if not numbers[value]:
                del numbers[value]

    def static_limits(self, node: str) -> tuple[tuple[str, int], ...]:
        """How many claims of each class that makes no volumes the pods of a node can have: as many as it has volumes.

        A volume that exists serves one claim. So the engine puts no more pods on a node than find a volume there, even
        if it places them together. Volumes that are too small, or taken by claims without pods, are counted too; what
        this overlooks is found when the volumes are bound.
        """
        labels = self.node_labels.get(node, {})
        found = []
        for storage_class in self.classes.values():
            if storage_class.is_static:
                numbers = self._numbers.get(storage_class.name, {})
                here = sum(number[labels.get(key, "")] for key, number in numbers.items())
                found.append((static_driver(storage_class.name), here))
        return tuple(sorted(found))

    def set_limits(self, node: str, limits: tuple[tuple[str, int], ...]) -> None:
        """So many volumes of drivers can be attached to a node."""
        for driver, _ in self.limits.pop(node, ()):
            self.limited_drivers[driver] -= 1
            if not self.limited_drivers[driver]:
                del self.limited_drivers[driver]
        if limits:
            self.limits[node] = limits
            self.limited_drivers.update(driver for driver, _ in limits)

    def reserve(self, volume: str, claim: str) -> None:
        """Reserve a volume for a claim, until the cluster shows it."""
        self.reserved[volume] = claim
        self._match_terms.clear()

    def release(self, volume: str) -> None:
        """End a reservation."""
        self.reserved.pop(volume, None)
        self._match_terms.clear()

    def matching_volumes(self, claim: Claim) -> Sequence[Volume]:
        """The volumes that a claim could be bound to, the smallest first: those reserved for it, else free ones."""
        own = self._own_volumes(claim)
        return own or [volume for volume in self._free_volumes(claim).volumes if volume.name not in self.reserved]

    def usable_volumes(self, claim: Claim, node: str) -> Iterator[Volume]:
        """The same, as far as a node can use them."""
        own, labels = self._own_volumes(claim), self.node_labels.get(node, {})
        for volume in own or self._free_volumes(claim).near(labels):
            if (own or volume.name not in self.reserved) and self.is_usable_from(volume, node):
                yield volume

    def existing_terms(self, claim: Claim) -> Terms | None:
        """The nodes from which a volume that exists could be used for a claim; None: every node."""
        own = self._own_volumes(claim)
        if own:
            return _terms_of(own)
        signature = _signature(claim)
        if signature not in self._match_terms:
            self._match_terms[signature] = _terms_of(self.matching_volumes(claim))
        return self._match_terms[signature]

    def _own_volumes(self, claim: Claim) -> list[Volume]:
        """The volumes that are reserved for a claim."""
        ours = (name for name, key in self.reserved.items() if key == claim.key)
        names = dict.fromkeys((*self._of_claim.get(claim.key, ()), *ours))
        volumes = (self.volumes[name] for name in names if name in self.volumes)
        return sorted((volume for volume in volumes if self._may_be_reserved(volume, claim)), key=_by_size)

    def _may_be_reserved(self, volume: Volume, claim: Claim) -> bool:
        same = volume.is_reserved_for(claim) or self.reserved.get(volume.name) == claim.key
        return same and volume.storage_class == claim.storage_class and _is_large_enough(volume, claim)

    def _free_volumes(self, claim: Claim) -> MatchingVolumes:
        """The volumes without a claim that a claim could be bound to; we may have reserved some of them."""
        signature = _signature(claim)
        found = self._matches.get(signature)
        if found is None:
            free = map(self.volumes.__getitem__, self._free.get(claim.storage_class, ()))
            found = self._matches[signature] = MatchingVolumes(v for v in free if self._fits(v, claim))
        return found

    def _fits(self, volume: Volume, claim: Claim) -> bool:
        return (
            volume.available
            and _is_large_enough(volume, claim)
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


def static_driver(storage_class: str) -> str:
    """The name under which the volumes of a class that makes none are limited."""
    return f"persistentvolumes of class {storage_class}"


def label_values(terms: Terms | None) -> Requirement | None:
    """The label and the values that alone decide about the nodes of a volume; None: it is not that simple."""
    if terms is None or len(terms) != 1 or terms[0].fields or len(terms[0].labels) != 1:
        return None
    return terms[0].labels[0] if terms[0].labels[0].operator == "In" else None


def merged_terms(terms: Iterable[NodeTerm]) -> Terms:
    """Terms that select the same nodes, as few as possible.

    Local volumes have a node each: "n1 or n2 or ..." is one term, which is far cheaper to compare than thousands.
    """
    values: dict[str, dict[str, None]] = {}
    others: dict[NodeTerm, None] = {}
    for term in terms:
        label = label_values((term,))
        if label is None:
            others[term] = None
        else:
            values.setdefault(label.key, {}).update(dict.fromkeys(label.values))
    merged = [NodeTerm((Requirement(key, "In", tuple(sorted(found))),)) for key, found in sorted(values.items())]
    return (*merged, *others)


def _terms_of(volumes: Sequence[Volume]) -> Terms | None:
    if any(volume.nodes is None for volume in volumes):
        return None
    return merged_terms(term for volume in volumes for term in volume.nodes or ())


def _signature(claim: Claim) -> Signature:
    return claim.storage_class, claim.size, claim.access_modes, claim.volume_mode, claim.selector


def _is_large_enough(volume: Volume, claim: Claim) -> bool:
    return not volume.deleting and volume.size >= claim.size and volume.volume_mode == claim.volume_mode


def _by_size(volume: Volume) -> tuple[int, str]:
    return volume.size, volume.name
