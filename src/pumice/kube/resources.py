"""The resources of a Kubernetes API: their paths, and the types to which their objects are decoded."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar, cast

import msgspec

from kubebase.field_error import FieldError
from pumice.kube.decode import api_types, storage_types
from pumice.kube.decode.manifest_errors import ObjectError
from pumice.kube.decode.struct_decode import read
from pumice.kube.resource_name import JOB, NODE, ResourceName

S = TypeVar("S")
T = TypeVar("T")
Document = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Resource(ResourceName, Generic[T]):
    """A resource. ``shape`` is the struct to which objects are decoded, or ``dict`` for whole objects."""

    shape: type[T]
    optional: bool = False  # a cluster that does not serve it has no such objects
    checked_as: type[Any] | None = None  # a struct that whole objects must fit

    @property
    def raw(self) -> Resource[Document]:
        """The same resource with whole objects: an object that was decoded to a struct must not be written back."""
        return replace(cast("Resource[Document]", self), shape=dict)

    @property
    def checked_raw(self) -> Resource[Document]:
        """The same with whole objects whose fields have the right types: a server may store others (CRDs change)."""
        return replace(self.raw, checked_as=_Parts if self.shape is dict else self.shape)

    def decoded_as(self, shape: type[S]) -> Resource[S]:
        """The same resource with objects that are decoded to another struct."""
        return replace(cast("Resource[S]", self), shape=shape, checked_as=None)

    def decode(self, content: bytes | msgspec.Raw) -> T:
        """Decode one object; raises ``ObjectError``."""
        if self.shape is dict:
            document = self._named(_anything.decode(content))
            if self.checked_as is not None:
                replace(cast("Resource[Any]", self), shape=self.checked_as, checked_as=None).decode(content)
            return cast("T", document)
        try:
            return cast("T", _decoder(self.shape).decode(content))
        except msgspec.ValidationError:
            document = _anything.decode(content)
        try:  # slower, but it takes a null for an absence, and says what is wrong in words
            return read(document, self.shape)
        except FieldError as error:
            raise ObjectError(f"{self.kind}/{_key(document)}", error.field, error.message) from None

    def _named(self, document: Any) -> Document:
        """The document with apiVersion and kind, which servers leave out in the items of a list."""
        if not isinstance(document, dict):
            raise ObjectError(f"{self.kind}/?", "", f"Invalid value: {type(document).__name__}: must be a mapping")
        if "kind" not in document:
            return {"apiVersion": self.api_version, "kind": self.kind, **document}
        return document


class _Parts(msgspec.Struct):
    """The parts of any object."""

    metadata: api_types.Metadata
    spec: dict[str, Any] | None = None
    status: dict[str, Any] | None = None


_anything = msgspec.json.Decoder()
_decoders: dict[type[Any], msgspec.json.Decoder[Any]] = {}


def _decoder(shape: type[Any]) -> msgspec.json.Decoder[Any]:
    found = _decoders.get(shape)
    if found is None:
        found = _decoders[shape] = msgspec.json.Decoder(shape)
    return found


def _key(document: Any) -> str:
    about = document.get("metadata") if isinstance(document, dict) else None
    about = about if isinstance(about, dict) else {}
    return "/".join(str(about[part]) for part in ("namespace", "name") if about.get(part)) or "?"


_SCHEDULING = "scheduling.volcano.sh/v1beta1"
_STORAGE = "storage.k8s.io/v1"

NAMESPACES = Resource("v1", "namespaces", "Namespace", api_types.Object, namespaced=False)
NODES = Resource(NODE.api_version, NODE.plural, NODE.kind, api_types.Node, namespaced=False)
PODS = Resource("v1", "pods", "Pod", api_types.Pod)
RESOURCE_QUOTAS = Resource("v1", "resourcequotas", "ResourceQuota", api_types.ResourceQuota)
EVENTS: Resource[Document] = Resource("v1", "events", "Event", dict)
PRIORITY_CLASSES = Resource(
    "scheduling.k8s.io/v1", "priorityclasses", "PriorityClass", api_types.PriorityClass, namespaced=False
)
POD_DISRUPTION_BUDGETS = Resource(
    "policy/v1", "poddisruptionbudgets", "PodDisruptionBudget", api_types.PodDisruptionBudget
)
QUEUES = Resource(_SCHEDULING, "queues", "Queue", api_types.Queue, namespaced=False)
POD_GROUPS = Resource(_SCHEDULING, "podgroups", "PodGroup", api_types.PodGroup)
CLAIMS = Resource("v1", "persistentvolumeclaims", "PersistentVolumeClaim", storage_types.PersistentVolumeClaim)
VOLUMES = Resource("v1", "persistentvolumes", "PersistentVolume", storage_types.PersistentVolume, namespaced=False)
STORAGE_CLASSES = Resource(_STORAGE, "storageclasses", "StorageClass", storage_types.StorageClass, namespaced=False)
CSI_NODES = Resource(_STORAGE, "csinodes", "CSINode", storage_types.CSINode, namespaced=False)
CSI_DRIVERS = Resource(_STORAGE, "csidrivers", "CSIDriver", storage_types.CSIDriver, namespaced=False)
STORAGE_CAPACITIES = Resource(_STORAGE, "csistoragecapacities", "CSIStorageCapacity", storage_types.CSIStorageCapacity)
JOBS: Resource[Document] = Resource(JOB.api_version, JOB.plural, JOB.kind, dict)
CRON_JOBS: Resource[Document] = Resource("batch.volcano.sh/v1alpha1", "cronjobs", "CronJob", dict, optional=True)
JOB_TEMPLATES: Resource[Document] = Resource(
    "flow.volcano.sh/v1alpha1", "jobtemplates", "JobTemplate", dict, optional=True
)
JOB_FLOWS: Resource[Document] = Resource("flow.volcano.sh/v1alpha1", "jobflows", "JobFlow", dict, optional=True)
HYPER_NODES = Resource(
    "topology.volcano.sh/v1alpha1", "hypernodes", "HyperNode", api_types.HyperNode, namespaced=False, optional=True
)
COMMANDS: Resource[Document] = Resource("bus.volcano.sh/v1alpha1", "commands", "Command", dict)
LEASES: Resource[Document] = Resource("coordination.k8s.io/v1", "leases", "Lease", dict)
CONFIG_MAPS: Resource[Document] = Resource("v1", "configmaps", "ConfigMap", dict)
SECRETS: Resource[Document] = Resource("v1", "secrets", "Secret", dict)
SERVICES: Resource[Document] = Resource("v1", "services", "Service", dict)
NETWORK_POLICIES: Resource[Document] = Resource("networking.k8s.io/v1", "networkpolicies", "NetworkPolicy", dict)
