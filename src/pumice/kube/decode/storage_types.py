"""Volumes, claims and what storage drivers publish, as they are written, reduced to the fields that are read."""

from __future__ import annotations

from typing import Any

from msgspec import field

from pumice.kube.decode.api_types import Count, LabelSelector, NodeSelector, Object, Quantities, Wire


class ClaimReference(Wire, frozen=True):
    """The claim that a volume is bound to, or reserved for."""

    namespace: str = ""
    name: str = ""
    uid: str = ""


class VolumeNodeAffinity(Wire, frozen=True):
    """The nodes from which a volume can be used."""

    required: NodeSelector | None = None


class CSISource(Wire, frozen=True):
    """A volume of a CSI driver."""

    driver: str = ""


class PersistentVolumeSpec(Wire, frozen=True):
    """The spec of a volume."""

    capacity: Quantities = field(default_factory=dict)
    access_modes: tuple[str, ...] = ()
    claim_ref: ClaimReference | None = None
    storage_class_name: str = ""
    volume_mode: str = "Filesystem"
    node_affinity: VolumeNodeAffinity = VolumeNodeAffinity()
    csi: CSISource | None = None


class Phase(Wire, frozen=True):
    """The status of a volume or claim."""

    phase: str = ""


class PersistentVolume(Object, frozen=True):
    """A volume."""

    spec: PersistentVolumeSpec = PersistentVolumeSpec()
    status: Phase = Phase()


class VolumeResources(Wire, frozen=True):
    """How large a volume must be."""

    requests: Quantities = field(default_factory=dict)


class PersistentVolumeClaimSpec(Wire, frozen=True):
    """The spec of a claim."""

    access_modes: tuple[str, ...] = ()
    resources: VolumeResources = VolumeResources()
    selector: LabelSelector | None = None
    storage_class_name: str = ""
    volume_mode: str = "Filesystem"
    volume_name: str = ""


class PersistentVolumeClaim(Object, frozen=True):
    """A request for a volume."""

    spec: PersistentVolumeClaimSpec = PersistentVolumeClaimSpec()
    status: Phase = Phase()


class TopologyRequirement(Wire, frozen=True):
    """Values that a label of a node may have."""

    key: str
    values: tuple[str, ...] = ()


class TopologyTerm(Wire, frozen=True):
    """Nodes by their labels: all of it must hold."""

    match_label_expressions: tuple[TopologyRequirement, ...] = ()


class StorageClass(Object, frozen=True):
    """How volumes are made."""

    provisioner: str = ""
    volume_binding_mode: str = "Immediate"
    allowed_topologies: tuple[TopologyTerm, ...] = ()


class NodeAllocatable(Wire, frozen=True):
    """How many volumes of a driver can be attached to a node."""

    count: Count | None = None


class NodeDriver(Wire, frozen=True):
    """A CSI driver on a node."""

    name: str
    allocatable: NodeAllocatable = NodeAllocatable()


class CSINodeSpec(Wire, frozen=True):
    """The CSI drivers on a node."""

    drivers: tuple[NodeDriver, ...] = ()


class CSINode(Object, frozen=True):
    """What the CSI drivers on a node publish; it has the name of the node."""

    spec: CSINodeSpec = CSINodeSpec()


class CSIDriverSpec(Wire, frozen=True):
    """Whether a driver publishes its free capacity."""

    storage_capacity: bool = False


class CSIDriver(Object, frozen=True):
    """A CSI driver."""

    spec: CSIDriverSpec = CSIDriverSpec()


class CSIStorageCapacity(Object, frozen=True):
    """The free capacity of a storage class in a part of the cluster."""

    storage_class_name: str = ""
    node_topology: LabelSelector | None = None
    capacity: Any = None
    maximum_volume_size: Any = None
