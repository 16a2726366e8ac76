"""Volumes, claims and classes as the scheduler needs them: sizes as bytes, topologies as node terms."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from kubebase.field_error import FieldError
from kubebase.label_selector import Requirement, meets
from kubebase.quantity import QuantityError, parse
from pumice.kube.decode import api_types, storage_types
from pumice.kube.selectors import label_selector, node_term
from pumice.model.specs import NodeTerm

SELECTED_NODE = "volume.kubernetes.io/selected-node"
BIND_COMPLETED = "pv.kubernetes.io/bind-completed"
BOUND_BY_CONTROLLER = "pv.kubernetes.io/bound-by-controller"
CLASS_ANNOTATION = "volume.beta.kubernetes.io/storage-class"
NO_PROVISIONER = "kubernetes.io/no-provisioner"
ONE_POD = "ReadWriteOncePod"
NODE_NAME = "metadata.name"
ZONE_LABELS = {
    "topology.kubernetes.io/zone": "failure-domain.beta.kubernetes.io/zone",
    "topology.kubernetes.io/region": "failure-domain.beta.kubernetes.io/region",
}
"""Labels by which volumes without node affinity say where they are, and their older names."""
ZONE_SEPARATOR = "__"

Terms = tuple[NodeTerm, ...]


@dataclass(frozen=True, slots=True)
class PodClaim:
    """A claim of a pod, by name. ``ephemeral``: a controller creates it for the pod."""

    name: str
    ephemeral: bool = False


@dataclass(frozen=True, slots=True)
class Claim:
    """A PersistentVolumeClaim."""

    key: str
    uid: str
    revision: str
    storage_class: str
    size: int  # bytes
    access_modes: frozenset[str]
    volume_mode: str
    selector: tuple[Requirement, ...]
    volume: str = ""
    bind_completed: bool = False
    lost: bool = False
    deleting: bool = False
    selected_node: str = ""

    @property
    def name(self) -> str:
        """The name without the namespace."""
        return self.key.rpartition("/")[2]

    @property
    def bound(self) -> bool:
        """Whether the claim has its volume, for good."""
        return bool(self.volume) and self.bind_completed


@dataclass(frozen=True, slots=True)
class Volume:
    """A PersistentVolume."""

    name: str
    uid: str
    revision: str
    storage_class: str
    size: int  # bytes
    access_modes: frozenset[str]
    volume_mode: str
    available: bool
    deleting: bool = False
    claim: str = ""  # the key of the claim that it is bound to or reserved for
    claim_uid: str = ""
    driver: str = ""  # of a CSI volume
    nodes: Terms | None = None  # None: it can be used from every node
    zones: Terms | None = None  # the same, by the labels of older volumes
    labels: Mapping[str, str] = field(default_factory=dict)

    def is_reserved_for(self, claim: Claim) -> bool:
        """Whether its claimRef names a claim; a uid that is missing there matches every claim."""
        return self.claim == claim.key and self.claim_uid in ("", claim.uid)


@dataclass(frozen=True, slots=True)
class Class:
    """A StorageClass."""

    name: str
    provisioner: str
    waits: bool  # for the first consumer of a claim
    topologies: Terms | None  # where it makes volumes; None: everywhere

    @property
    def provisions(self) -> bool:
        """Whether it makes volumes at all."""
        return self.provisioner not in ("", NO_PROVISIONER)

    @property
    def is_static(self) -> bool:
        """Whether a scheduler chooses among volumes that exist, and no others."""
        return self.waits and not self.provisions


@dataclass(frozen=True, slots=True)
class FreeCapacity:
    """A CSIStorageCapacity: how large a volume of a class may be in a part of the cluster."""

    storage_class: str
    largest: int | None  # bytes; None: not known, so no volume can be made
    nodes: tuple[Requirement, ...] | None  # None: no node; (): every node


def claims_of(pod: api_types.Pod) -> tuple[PodClaim, ...]:
    """The claims of a pod, in the order of its volumes."""
    found: tuple[PodClaim, ...] = ()
    for volume in pod.spec.volumes:
        if volume.persistent_volume_claim is not None:
            found += (PodClaim(volume.persistent_volume_claim.claim_name),)
        elif volume.ephemeral is not None:
            found += (PodClaim(f"{pod.metadata.name}-{volume.name}", ephemeral=True),)
    return found


def claim(found: storage_types.PersistentVolumeClaim, uid: str = "", revision: str = "") -> Claim:
    """A claim of the API."""
    about, spec = found.metadata, found.spec
    return Claim(
        key=f"{about.namespace}/{about.name}",
        uid=uid,
        revision=revision,
        storage_class=about.annotations.get(CLASS_ANNOTATION) or spec.storage_class_name,
        size=_bytes(spec.resources.requests.get("storage"), "spec.resources.requests.storage") or 0,
        access_modes=frozenset(spec.access_modes),
        volume_mode=spec.volume_mode,
        selector=label_selector(spec.selector, (), "spec.selector") or (),
        volume=spec.volume_name,
        bind_completed=BIND_COMPLETED in about.annotations,
        lost=found.status.phase == "Lost",
        deleting=about.deletion_timestamp is not None,
        selected_node=about.annotations.get(SELECTED_NODE, ""),
    )


def volume(found: storage_types.PersistentVolume, uid: str = "", revision: str = "") -> Volume:
    """A volume of the API."""
    about, spec = found.metadata, found.spec
    reference = spec.claim_ref
    return Volume(
        name=about.name,
        uid=uid,
        revision=revision,
        storage_class=about.annotations.get(CLASS_ANNOTATION) or spec.storage_class_name,
        size=_bytes(spec.capacity.get("storage"), "spec.capacity.storage") or 0,
        access_modes=frozenset(spec.access_modes),
        volume_mode=spec.volume_mode,
        available=found.status.phase == "Available",
        deleting=about.deletion_timestamp is not None,
        claim=f"{reference.namespace}/{reference.name}" if reference is not None else "",
        claim_uid=reference.uid if reference is not None else "",
        driver=spec.csi.driver if spec.csi is not None else "",
        nodes=_affinity_terms(spec.node_affinity.required),
        zones=_zone_terms(about.labels),
        labels=about.labels,
    )


def _affinity_terms(selector: api_types.NodeSelector | None) -> Terms | None:
    if selector is None:
        return None
    where = "spec.nodeAffinity.required.nodeSelectorTerms"
    terms = (node_term(term, f"{where}[{i}]") for i, term in enumerate(selector.node_selector_terms))
    return tuple(term for term in terms if term is not None)


def _zone_terms(labels: Mapping[str, str]) -> Terms | None:
    """The nodes in the zone and region of a volume, and nodes without any of these labels."""
    found = []
    for name, older in ZONE_LABELS.items():
        zones = labels.get(name) or labels.get(older)
        if zones:
            found.append((name, older, tuple(sorted(zones.split(ZONE_SEPARATOR)))))
    if not found:
        return None
    keys = [key for pair in ZONE_LABELS.items() for key in pair]
    unlabelled = NodeTerm(tuple(Requirement(key, "DoesNotExist") for key in sorted(keys)))
    here = NodeTerm(tuple(Requirement(name, "In", zones) for name, _, zones in found))
    before = NodeTerm(tuple(Requirement(older, "In", zones) for _, older, zones in found))
    return unlabelled, here, before


def storage_class(found: storage_types.StorageClass) -> Class:
    """A storage class of the API."""
    terms = tuple(
        NodeTerm(tuple(Requirement(r.key, "In", tuple(sorted(r.values))) for r in term.match_label_expressions))
        for term in found.allowed_topologies
    )
    waits = found.volume_binding_mode == "WaitForFirstConsumer"
    return Class(found.metadata.name, found.provisioner, waits, terms or None)


def volume_limits(found: storage_types.CSINode) -> tuple[tuple[str, int], ...]:
    """How many volumes of each driver can be attached to a node; drivers without a limit are left out."""
    limits = ((driver.name, driver.allocatable.count) for driver in found.spec.drivers)
    return tuple(sorted((name, count) for name, count in limits if count is not None))


def free_capacity(found: storage_types.CSIStorageCapacity) -> FreeCapacity:
    """A storage capacity of the API: the largest volume that can be made, if known, else what is free in all."""
    largest = _bytes(found.maximum_volume_size, "maximumVolumeSize")
    if largest is None:
        largest = _bytes(found.capacity, "capacity")
    return FreeCapacity(found.storage_class_name, largest, label_selector(found.node_topology, (), "nodeTopology"))


def selects_node(terms: Terms, name: str, labels: Mapping[str, str]) -> bool:
    """Whether any of the terms selects a node."""
    return any(
        bool(term.labels or term.fields) and meets(term.labels, labels) and meets(term.fields, {NODE_NAME: name})
        for term in terms
    )


def _bytes(quantity: Any, where: str) -> int | None:
    if quantity is None:
        return None
    try:
        return parse(quantity).value()
    except QuantityError as error:
        raise FieldError(where, str(error)) from None
