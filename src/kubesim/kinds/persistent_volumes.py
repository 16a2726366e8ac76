"""The kinds PersistentVolume and PersistentVolumeClaim. ``controllers/volumes`` binds them to each other."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator
from functools import partial
from typing import Final

from kubebase.quantity import parse
from kubesim.api.field_errors import FieldProblem, forbidden, invalid, required, unsupported
from kubesim.api.metadata import name_faults
from kubesim.kinds.pods.resources import canonical
from kubesim.kinds.schema_dsl import OBJECT_REFERENCE, expand_schema
from kubesim.kinds.selectors import check_requirement, check_selector
from kubesim.kinds.storage_classes import DEFAULT_CLASS, STORAGE_CLASSES
from kubesim.registry.registry import Context, Object, Resource, Strategy, TableColumn
from kubesim.schema import Schema
from kubesim.tables import AGE, NAME

CLASS_ANNOTATION: Final = "volume.beta.kubernetes.io/storage-class"
ACCESS_MODES: Final = {
    "ReadWriteOnce": "RWO",
    "ReadOnlyMany": "ROX",
    "ReadWriteMany": "RWX",
    "ReadWriteOncePod": "RWOP",
}
"""The access modes, and how tables abbreviate them."""
VOLUME_MODES: Final = ("Block", "Filesystem")
RECLAIM_POLICIES: Final = ("Delete", "Recycle", "Retain")
PROPERTIES: Final = frozenset(
    {
        "accessModes",
        "capacity",
        "claimRef",
        "mountOptions",
        "nodeAffinity",
        "persistentVolumeReclaimPolicy",
        "storageClassName",
        "volumeAttributesClassName",
        "volumeMode",
    }
)
"""The fields of a volume's spec that are no volume source."""
IMMUTABLE_CLAIM: Final = (
    "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims"
)

SHAPES: Final = (
    """
PersistentVolume
  spec! VolumeSpec
  status VolumeStatus
VolumeSpec
  accessModes [text]
  awsElasticBlockStore any
  azureDisk any
  azureFile any
  capacity {quantity}
  cephfs any
  cinder any
  claimRef ObjectReference
  csi CSIPersistentVolume
  fc any
  flexVolume any
  flocker any
  gcePersistentDisk any
  glusterfs any
  hostPath HostPathVolume
  iscsi any
  local LocalVolume
  mountOptions [text]
  nfs NFSVolume
  nodeAffinity VolumeNodeAffinity
  persistentVolumeReclaimPolicy text = "Retain"
  photonPersistentDisk any
  portworxVolume any
  quobyte any
  rbd any
  scaleIO any
  storageClassName text
  storageos any
  volumeAttributesClassName text
  volumeMode text = "Filesystem"
  vsphereVolume any
CSIPersistentVolume
  controllerExpandSecretRef SecretReference
  controllerPublishSecretRef SecretReference
  driver! text
  fsType text
  nodeExpandSecretRef SecretReference
  nodePublishSecretRef SecretReference
  nodeStageSecretRef SecretReference
  readOnly bool
  volumeAttributes {text}
  volumeHandle! text
SecretReference
  name text
  namespace text
HostPathVolume
  path! text
  type text
LocalVolume
  fsType text
  path! text
NFSVolume
  path! text
  readOnly bool
  server! text
VolumeNodeAffinity
  required NodeSelector
NodeSelector
  nodeSelectorTerms! [NodeSelectorTerm]
NodeSelectorTerm
  matchExpressions [Requirement]
  matchFields [Requirement]
Requirement
  key! text
  operator! text
  values [text]
VolumeStatus
  lastPhaseTransitionTime time
  message text
  phase text
  reason text

PersistentVolumeClaim
  spec! ClaimSpec
  status ClaimStatus
ClaimSpec
  accessModes [text]
  dataSource LocalSource
  dataSourceRef AnySource
  resources VolumeResources
  selector LabelSelector
  storageClassName text
  volumeAttributesClassName text
  volumeMode text = "Filesystem"
  volumeName text
LocalSource
  apiGroup text
  kind! text
  name! text
AnySource
  apiGroup text
  kind! text
  name! text
  namespace text
VolumeResources
  limits {quantity}
  requests {quantity}
LabelSelector
  matchExpressions [Requirement]
  matchLabels {text}
ClaimStatus
  accessModes [text]
  allocatedResourceStatuses {text}
  allocatedResources {quantity}
  capacity {quantity}
  conditions [ClaimCondition] by type
  currentVolumeAttributesClassName text
  modifyVolumeStatus ModifyVolumeStatus
  phase text
ClaimCondition
  lastProbeTime time
  lastTransitionTime time
  message text
  reason text
  status! text
  type! text
ModifyVolumeStatus
  status! text
  targetVolumeAttributesClassName text
"""
    + OBJECT_REFERENCE
)


def storage_class_name(claim_or_volume: Object) -> str:
    """The storage class of a claim or volume; empty: none."""
    annotations = claim_or_volume["metadata"].get("annotations") or {}
    return str(annotations.get(CLASS_ANNOTATION) or claim_or_volume["spec"].get("storageClassName") or "")


def requested_storage(claim: Object) -> int:
    """How many bytes a claim requests."""
    requests = (claim["spec"].get("resources") or {}).get("requests") or {}
    return parse(requests.get("storage", 0)).value()


# ---- volumes ----------------------------------------------------------------------------------------------


class VolumeStrategy(Strategy):
    """A volume has a capacity, access modes and exactly one source, which never changes."""

    has_generation = True
    returns_deleted = True

    def on_create(self, new: Object, context: Context) -> None:
        """A new volume is Pending until the controller has looked at it."""
        canonical(new["spec"].get("capacity"), "PersistentVolume")
        if "hostPath" in new["spec"]:
            new["spec"]["hostPath"].setdefault("type", "")
        new["status"] = {"phase": "Pending", "lastPhaseTransitionTime": context.now}

    def on_update(self, new: Object, old: Object, context: Context) -> None:
        """Write amounts in canonical form."""
        canonical(new["spec"].get("capacity"), "PersistentVolume")

    def on_status(self, new: Object, old: Object, context: Context) -> None:
        """Note when the phase changed."""
        found, before = new.setdefault("status", {}), old.get("status") or {}
        if found.get("phase") != before.get("phase"):
            found["lastPhaseTransitionTime"] = context.now

    def check(self, new: Object) -> Iterator[FieldProblem]:
        """The problems of a volume."""
        spec = new["spec"]
        yield from _check_access_modes(spec, "")
        if not spec.get("capacity"):
            yield required("spec.capacity")
            yield unsupported("spec.capacity", spec.get("capacity"), ("storage",))
        elif spec["capacity"].keys() != {"storage"}:
            yield unsupported("spec.capacity", next(iter(spec["capacity"])), ("storage",))
        elif parse(spec["capacity"]["storage"]).nano <= 0:
            yield invalid("spec.capacity[storage]", spec["capacity"]["storage"], "must be greater than zero")
        if spec["persistentVolumeReclaimPolicy"] not in RECLAIM_POLICIES:
            yield unsupported(
                "spec.persistentVolumeReclaimPolicy", spec["persistentVolumeReclaimPolicy"], RECLAIM_POLICIES
            )
        if spec["volumeMode"] not in VOLUME_MODES:
            yield unsupported("spec.volumeMode", spec["volumeMode"], VOLUME_MODES)
        yield from _check_source(spec)
        yield from _check_node_affinity(spec)

    def check_update(self, new: Object, old: Object) -> Iterator[FieldProblem]:
        """The source of a volume and its mode are immutable; so is its node affinity, once it is set."""
        spec, before = new["spec"], old["spec"]
        if _source(spec) != _source(before):
            yield forbidden("spec.persistentvolumesource", "spec.persistentvolumesource is immutable after creation")
        if spec["volumeMode"] != before["volumeMode"]:
            yield invalid("volumeMode", spec["volumeMode"], "field is immutable")
        if before.get("nodeAffinity") and spec.get("nodeAffinity") != before["nodeAffinity"]:
            yield invalid("nodeAffinity", spec.get("nodeAffinity"), "field is immutable")


def _source(spec: Object) -> Object:
    return {name: source for name, source in spec.items() if name not in PROPERTIES}


def _check_access_modes(spec: Object, missing: str) -> Iterator[FieldProblem]:
    modes: list[str] = spec.get("accessModes") or []
    if not modes:
        yield required("spec.accessModes", missing)
    for mode in modes:
        if mode not in ACCESS_MODES:
            yield unsupported("spec.accessModes", mode, sorted(ACCESS_MODES))
    if "ReadWriteOncePod" in modes and len(set(modes)) > 1:
        detail = "may not use ReadWriteOncePod with other access modes"
        yield forbidden("spec.accessModes", detail)


def _check_source(spec: Object) -> Iterator[FieldProblem]:
    sources = sorted(_source(spec))
    if not sources:
        yield required("spec", "must specify a volume type")
    for name in sources[1:]:
        yield forbidden(f"spec.{name}", "may not specify more than 1 volume type")
    for name, fields in (("csi", ("driver", "volumeHandle")), ("hostPath", ("path",)), ("local", ("path",))):
        for field in fields:
            if name in spec and not spec[name].get(field):
                yield required(f"spec.{name}.{field}")
    if "local" in spec and not spec.get("nodeAffinity"):
        yield required("spec.nodeAffinity", "Local volume requires node affinity")


def _check_node_affinity(spec: Object) -> Iterator[FieldProblem]:
    affinity = spec.get("nodeAffinity")
    if affinity is None:
        return
    field = "spec.nodeAffinity.required"
    if not affinity.get("required"):
        yield required(field, "must specify required node constraints")
        return
    terms = affinity["required"].get("nodeSelectorTerms") or []
    if not terms:
        yield required(f"{field}.nodeSelectorTerms", "must have at least one node selector term")
    for i, term in enumerate(terms):
        for j, requirement in enumerate(term.get("matchExpressions") or ()):
            where = f"{field}.nodeSelectorTerms[{i}].matchExpressions[{j}]"
            yield from check_requirement(requirement, where, numeric=True)


# ---- claims -----------------------------------------------------------------------------------------------


class ClaimStrategy(Strategy):
    """A claim without a class gets the default one; once it is created, only its binding changes it."""

    reads_cluster = True

    returns_deleted = True

    def on_create(self, new: Object, context: Context) -> None:
        """Fill in the default storage class."""
        self._complete(new)
        spec, annotations = new["spec"], new["metadata"].get("annotations") or {}
        if "storageClassName" not in spec and CLASS_ANNOTATION not in annotations:
            found = default_class(context.list(STORAGE_CLASSES, ""))
            if found is not None:
                spec["storageClassName"] = found["metadata"]["name"]
        new["status"] = {"phase": "Pending"}

    def on_update(self, new: Object, old: Object, context: Context) -> None:
        """Write amounts in canonical form."""
        self._complete(new)

    def check(self, new: Object) -> Iterator[FieldProblem]:
        """The problems of a claim."""
        spec = new["spec"]
        yield from _check_access_modes(spec, "at least 1 access mode is required")
        requests = (spec.get("resources") or {}).get("requests") or {}
        if "storage" not in requests:
            yield required("spec.resources[storage]")
        elif parse(requests["storage"]).nano <= 0:
            yield invalid("spec.resources[storage]", requests["storage"], "must be greater than zero")
        if spec["volumeMode"] not in VOLUME_MODES:
            yield unsupported("spec.volumeMode", spec["volumeMode"], VOLUME_MODES)
        if "selector" in spec:
            yield from check_selector(spec["selector"], "spec.selector")
        if spec.get("storageClassName"):
            for fault in name_faults(spec["storageClassName"]):
                yield invalid("spec.storageClassName", spec["storageClassName"], fault)

    def check_update(self, new: Object, old: Object) -> Iterator[FieldProblem]:
        """A claim gets its volume, and a class if it has none, once. A bound one may ask for more."""
        spec, before = copy.deepcopy(new["spec"]), copy.deepcopy(old["spec"])
        if not before.get("volumeName"):
            before["volumeName"] = spec.get("volumeName", "")
        spec.setdefault("volumeName", "")
        if "storageClassName" not in before and "storageClassName" in spec:
            before["storageClassName"] = spec["storageClassName"]
        if (old.get("status") or {}).get("phase") == "Bound":
            for each in (spec, before):
                each.pop("volumeAttributesClassName", None)
                each.get("resources", {}).pop("requests", None)
        if spec != before:
            yield forbidden("spec", IMMUTABLE_CLAIM)
        elif requested_storage(new) < requested_storage(old):
            yield forbidden("spec.resources.requests.storage", "field can not be less than status.capacity")

    def _complete(self, claim: Object) -> None:
        resources = claim["spec"].setdefault("resources", {})
        for which in ("requests", "limits"):
            canonical(resources.get(which), "PersistentVolumeClaim")


def default_class(classes: Iterable[Object]) -> Object | None:
    """The default storage class: of several the newest one."""
    marked = [found for found in classes if (found["metadata"].get("annotations") or {}).get(DEFAULT_CLASS) == "true"]
    marked.sort(key=lambda found: str(found["metadata"]["name"]))
    return max(marked, key=lambda found: str(found["metadata"].get("creationTimestamp", "")), default=None)


# ---- tables -----------------------------------------------------------------------------------------------


def _modes(modes: Iterable[str]) -> str:
    found = set(modes)
    return ",".join(short for mode, short in ACCESS_MODES.items() if mode in found)


def _phase(found: Object) -> str:
    if "deletionTimestamp" in found["metadata"]:
        return "Terminating"
    return str((found.get("status") or {}).get("phase", ""))


def _claim_of(volume: Object) -> str:
    reference = volume["spec"].get("claimRef") or {}
    return f"{reference.get('namespace', '')}/{reference.get('name', '')}" if reference else ""


def _bound(claim: Object, text: str) -> str:
    return text if claim["spec"].get("volumeName") else ""


def _claim_status(claim: Object) -> Object:
    found: Object = claim.get("status") or {}
    return found


_ATTRIBUTES: Final = TableColumn(
    "VolumeAttributesClass",
    lambda found: found["spec"].get("volumeAttributesClassName") or "<unset>",
    description="The class of its attributes.",
)
_MODE: Final = TableColumn(
    "VolumeMode", lambda found: found["spec"].get("volumeMode", "<unset>"), priority=1, description="How it is used."
)


def persistent_volumes() -> Resource:
    """The resource ``persistentvolumes``."""
    return Resource(
        group="",
        version="v1",
        plural="persistentvolumes",
        kind="PersistentVolume",
        namespaced=False,
        schema=Schema.sound(partial(expand_schema, SHAPES, "PersistentVolume")),
        strategy=VolumeStrategy(),
        columns=(
            NAME,
            TableColumn("Capacity", lambda found: found["spec"].get("capacity", {}).get("storage", "")),
            TableColumn("Access Modes", lambda found: _modes(found["spec"].get("accessModes") or ())),
            TableColumn("Reclaim Policy", lambda found: found["spec"].get("persistentVolumeReclaimPolicy", "")),
            TableColumn("Status", _phase),
            TableColumn("Claim", _claim_of, description="Namespace and name of the claim it is bound to."),
            TableColumn("StorageClass", storage_class_name),
            _ATTRIBUTES,
            TableColumn("Reason", lambda found: (found.get("status") or {}).get("reason", "")),
            AGE,
            _MODE,
        ),
        singular="persistentvolume",
        short_names=("pv",),
        subresources=frozenset({"status"}),
    )


def persistent_volume_claims() -> Resource:
    """The resource ``persistentvolumeclaims``."""
    return Resource(
        group="",
        version="v1",
        plural="persistentvolumeclaims",
        kind="PersistentVolumeClaim",
        namespaced=True,
        schema=Schema.sound(partial(expand_schema, SHAPES, "PersistentVolumeClaim")),
        strategy=ClaimStrategy(),
        columns=(
            NAME,
            TableColumn("Status", _phase),
            TableColumn("Volume", lambda found: found["spec"].get("volumeName", "")),
            TableColumn("Capacity", lambda f: _bound(f, _claim_status(f).get("capacity", {}).get("storage", ""))),
            TableColumn("Access Modes", lambda f: _bound(f, _modes(_claim_status(f).get("accessModes") or ()))),
            TableColumn("StorageClass", storage_class_name),
            _ATTRIBUTES,
            AGE,
            _MODE,
        ),
        singular="persistentvolumeclaim",
        short_names=("pvc",),
        subresources=frozenset({"status"}),
    )
