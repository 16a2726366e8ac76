"""The group ``storage.k8s.io``: StorageClass, and what CSI drivers publish about themselves, nodes and capacity."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Final

from kubesim.api.field_errors import FieldProblem, invalid, required, unsupported
from kubesim.api.metadata import name_faults
from kubesim.kinds.pods.resources import canonical_amount
from kubesim.kinds.schema_dsl import LABEL_SELECTOR, expand_schema
from kubesim.kinds.selectors import check_selector
from kubesim.registry.registry import Context, Object, Resource, Strategy, TableColumn
from kubesim.schema import Schema
from kubesim.tables import AGE, NAME

GROUP: Final = "storage.k8s.io"
STORAGE_CLASSES: Final = f"storageclasses.{GROUP}"
DEFAULT_CLASS: Final = "storageclass.kubernetes.io/is-default-class"
BINDING_MODES: Final = ("Immediate", "WaitForFirstConsumer")
RECLAIM_POLICIES: Final = ("Delete", "Retain")
LIFECYCLE_MODES: Final = ("Ephemeral", "Persistent")

SHAPES: Final = (
    LABEL_SELECTOR
    + """
StorageClass
  allowVolumeExpansion bool
  allowedTopologies [TopologyTerm]
  mountOptions [text]
  parameters {text}
  provisioner! text
  reclaimPolicy text = "Delete"
  volumeBindingMode text = "Immediate"
TopologyTerm
  matchLabelExpressions [TopologyRequirement]
TopologyRequirement
  key! text
  values [text]

CSINode
  spec! CSINodeSpec
CSINodeSpec
  drivers [CSINodeDriver] by name
CSINodeDriver
  allocatable VolumeNodeResources
  name! text
  nodeID! text
  topologyKeys [text]
VolumeNodeResources
  count int32

CSIDriver
  spec! CSIDriverSpec
CSIDriverSpec
  attachRequired bool = true
  fsGroupPolicy text = "ReadWriteOnceWithFSType"
  nodeAllocatableUpdatePeriodSeconds int64
  podInfoOnMount bool = false
  preventPodSchedulingIfMissing bool
  requiresRepublish bool = false
  seLinuxMount bool = false
  serviceAccountTokenInSecrets bool
  storageCapacity bool = false
  tokenRequests [DriverToken]
  volumeLifecycleModes [text] = ["Persistent"]
DriverToken
  audience! text
  expirationSeconds int64

CSIStorageCapacity
  capacity quantity
  maximumVolumeSize quantity
  nodeTopology LabelSelector
  storageClassName! text
"""
)


class StorageClassStrategy(Strategy):
    """Only metadata and allowVolumeExpansion of a class can change."""

    returns_deleted = True

    def check(self, new: Object) -> Iterator[FieldProblem]:
        """The problems of a class."""
        if not new["provisioner"]:
            yield required("provisioner")
        if new["reclaimPolicy"] not in RECLAIM_POLICIES:
            yield unsupported("reclaimPolicy", new["reclaimPolicy"], RECLAIM_POLICIES)
        if new["volumeBindingMode"] not in BINDING_MODES:
            yield unsupported("volumeBindingMode", new["volumeBindingMode"], BINDING_MODES)
        for i, term in enumerate(new.get("allowedTopologies") or ()):
            for j, requirement in enumerate(term.get("matchLabelExpressions") or ()):
                if not requirement.get("values"):
                    yield required(f"allowedTopologies[{i}].matchLabelExpressions[{j}].values")

    def check_update(self, new: Object, old: Object) -> Iterator[FieldProblem]:
        """Everything that decides how volumes are made is immutable."""
        for field in ("provisioner", "parameters", "reclaimPolicy", "volumeBindingMode"):
            if (new.get(field) or {}) != (old.get(field) or {}):
                yield invalid(field, new.get(field), "field is immutable")


class CSINodeStrategy(Strategy):
    """A CSINode names each driver once."""

    returns_deleted = True

    def check(self, new: Object) -> Iterator[FieldProblem]:
        """The problems of the drivers of a node."""
        for i, driver in enumerate(new["spec"].get("drivers") or ()):
            for field in ("name", "nodeID"):
                if not driver.get(field):
                    yield required(f"spec.drivers[{i}].{field}")
            count = (driver.get("allocatable") or {}).get("count", 0)
            if count < 0:
                yield invalid(f"spec.drivers[{i}].allocatable.count", count, "must be greater than or equal to 0")


class CSIDriverStrategy(Strategy):
    """A CSI driver says how its volumes are used."""

    has_generation = True
    returns_deleted = True

    def check(self, new: Object) -> Iterator[FieldProblem]:
        """The problems of a driver."""
        for i, mode in enumerate(new["spec"].get("volumeLifecycleModes") or ()):
            if mode not in LIFECYCLE_MODES:
                yield unsupported(f"spec.volumeLifecycleModes[{i}]", mode, LIFECYCLE_MODES)


class CapacityStrategy(Strategy):
    """The free storage of a class in a part of the cluster. Class and topology are immutable."""

    returns_deleted = True

    def on_create(self, new: Object, context: Context) -> None:
        """Write amounts in canonical form."""
        self._complete(new)

    def on_update(self, new: Object, old: Object, context: Context) -> None:
        """Write amounts in canonical form."""
        self._complete(new)

    def check(self, new: Object) -> Iterator[FieldProblem]:
        """The problems of a capacity."""
        for fault in name_faults(new["storageClassName"]):
            yield invalid("storageClassName", new["storageClassName"], fault)
        if "nodeTopology" in new:
            yield from check_selector(new["nodeTopology"], "nodeTopology")

    def check_update(self, new: Object, old: Object) -> Iterator[FieldProblem]:
        """Only amounts change."""
        for field in ("storageClassName", "nodeTopology"):
            if new.get(field) != old.get(field):
                yield invalid(field, new.get(field), "field is immutable")

    def _complete(self, capacity: Object) -> None:
        for field in ("capacity", "maximumVolumeSize"):
            if field in capacity:
                capacity[field] = canonical_amount(capacity[field], "CSIStorageCapacity")


def _class_name(found: Object) -> str:
    name: str = found["metadata"].get("name", "")
    default = (found["metadata"].get("annotations") or {}).get(DEFAULT_CLASS) == "true"
    return f"{name} (default)" if default else name


def storage_classes() -> Resource:
    """The resource ``storageclasses``."""
    return Resource(
        group=GROUP,
        version="v1",
        plural="storageclasses",
        kind="StorageClass",
        namespaced=False,
        schema=Schema.sound(partial(expand_schema, SHAPES, "StorageClass")),
        strategy=StorageClassStrategy(),
        columns=(
            TableColumn("Name", _class_name, format="name", description="Its name, and whether it is the default."),
            TableColumn("Provisioner", lambda found: found["provisioner"]),
            TableColumn("ReclaimPolicy", lambda found: found["reclaimPolicy"]),
            TableColumn("VolumeBindingMode", lambda found: found["volumeBindingMode"]),
            TableColumn("AllowVolumeExpansion", lambda found: bool(found.get("allowVolumeExpansion")), "boolean"),
            AGE,
        ),
        singular="storageclass",
        short_names=("sc",),
    )


def csi_nodes() -> Resource:
    """The resource ``csinodes``."""
    return Resource(
        group=GROUP,
        version="v1",
        plural="csinodes",
        kind="CSINode",
        namespaced=False,
        schema=Schema.sound(partial(expand_schema, SHAPES, "CSINode")),
        strategy=CSINodeStrategy(),
        columns=(
            NAME,
            TableColumn("Drivers", lambda found: len(found["spec"].get("drivers") or ()), "integer"),
            AGE,
        ),
        singular="csinode",
    )


def csi_drivers() -> Resource:
    """The resource ``csidrivers``."""
    return Resource(
        group=GROUP,
        version="v1",
        plural="csidrivers",
        kind="CSIDriver",
        namespaced=False,
        schema=Schema.sound(partial(expand_schema, SHAPES, "CSIDriver")),
        strategy=CSIDriverStrategy(),
        columns=(
            NAME,
            TableColumn("AttachRequired", lambda found: found["spec"].get("attachRequired", True), "boolean"),
            TableColumn("PodInfoOnMount", lambda found: found["spec"].get("podInfoOnMount", False), "boolean"),
            TableColumn("StorageCapacity", lambda found: found["spec"].get("storageCapacity", False)),
            TableColumn("TokenRequests", _token_audiences),
            TableColumn("RequiresRepublish", lambda found: found["spec"].get("requiresRepublish", False), "boolean"),
            TableColumn("Modes", lambda found: ",".join(found["spec"].get("volumeLifecycleModes") or ())),
            AGE,
        ),
        singular="csidriver",
    )


def _token_audiences(driver: Object) -> str:
    tokens = driver["spec"].get("tokenRequests") or ()
    return ",".join(str(token["audience"]) for token in tokens) or "<unset>"


def csi_storage_capacities() -> Resource:
    """The resource ``csistoragecapacities``."""
    return Resource(
        group=GROUP,
        version="v1",
        plural="csistoragecapacities",
        kind="CSIStorageCapacity",
        namespaced=True,
        schema=Schema.sound(partial(expand_schema, SHAPES, "CSIStorageCapacity")),
        strategy=CapacityStrategy(),
        columns=(
            NAME,
            TableColumn("StorageClassName", lambda found: found["storageClassName"]),
            TableColumn("Capacity", lambda found: found.get("capacity", "<unset>")),
        ),
        singular="csistoragecapacity",
    )
