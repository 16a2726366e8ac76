"""What a message is made of: the shapes of the built-in kinds, which name and type the fields, joined with their
numbers.

The notation says what a field holds, so the numbers need not say it again; where the wire holds something else (bytes
instead of their base64), the numbers overrule it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from itertools import chain
from typing import Final

from kubesim.kinds import podspec, schema_dsl
from kubesim.kinds.access_reviews import SHAPES as REVIEWS
from kubesim.kinds.apps import SHAPES as WORKLOADS
from kubesim.kinds.config_maps import SHAPES as CONFIGS
from kubesim.kinds.cron_jobs import SHAPES as CRON_JOBS
from kubesim.kinds.daemon_sets import SHAPES as DAEMON_SETS
from kubesim.kinds.endpoints import SHAPES as ENDPOINTS
from kubesim.kinds.events import SHAPES as EVENTS
from kubesim.kinds.jobs import SHAPES as JOBS
from kubesim.kinds.leases import SHAPES as LEASES
from kubesim.kinds.namespaces import SHAPES as NAMESPACES
from kubesim.kinds.network_policies import SHAPES as POLICIES
from kubesim.kinds.nodes import SHAPES as NODES
from kubesim.kinds.persistent_volumes import SHAPES as VOLUMES
from kubesim.kinds.pod_disruption_budgets import SHAPES as BUDGETS
from kubesim.kinds.pods.schema import SHAPES as PODS
from kubesim.kinds.priority_classes import SHAPES as PRIORITIES
from kubesim.kinds.replication_controllers import SHAPES as REPLICATION
from kubesim.kinds.resource_quotas import SHAPES as QUOTAS
from kubesim.kinds.service_accounts import SHAPES as ACCOUNTS
from kubesim.kinds.services import SHAPES as SERVICES
from kubesim.kinds.stateful_sets import SHAPES as STATEFUL_SETS
from kubesim.kinds.storage_classes import SHAPES as STORAGE
from kubesim.openapi.components import SHAPES as SHARED
from kubesim.protobuf.field_numbers import NUMBERS

SHAPES: Final = (
    *(SHARED, podspec.SHAPES, PODS, WORKLOADS, JOBS, NODES, NAMESPACES, QUOTAS, PRIORITIES),
    *(EVENTS, CONFIGS, ACCOUNTS, LEASES, BUDGETS, POLICIES, REVIEWS, VOLUMES, STORAGE),
    *(SERVICES, ENDPOINTS, REPLICATION, STATEFUL_SETS, DAEMON_SETS, CRON_JOBS),
)
CORE: Final = (
    *("Binding", "ConfigMap", "Endpoints", "Event", "Namespace", "Node", "PersistentVolume", "PersistentVolumeClaim"),
    *("Pod", "ReplicationController", "ResourceQuota", "Secret", "Service", "ServiceAccount"),
)
KINDS: Final = frozenset(
    {
        *(("v1", kind) for kind in CORE),
        ("apps/v1", "Deployment"),
        ("apps/v1", "ReplicaSet"),
        ("apps/v1", "StatefulSet"),
        ("apps/v1", "DaemonSet"),
        ("apps/v1", "ControllerRevision"),
        ("autoscaling/v1", "Scale"),
        ("batch/v1", "Job"),
        ("batch/v1", "CronJob"),
        ("discovery.k8s.io/v1", "EndpointSlice"),
        ("networking.k8s.io/v1", "NetworkPolicy"),
        ("policy/v1", "Eviction"),
        ("policy/v1", "PodDisruptionBudget"),
        ("scheduling.k8s.io/v1", "PriorityClass"),
        ("coordination.k8s.io/v1", "Lease"),
        ("storage.k8s.io/v1", "StorageClass"),
        ("storage.k8s.io/v1", "CSINode"),
        ("storage.k8s.io/v1", "CSIDriver"),
        ("storage.k8s.io/v1", "CSIStorageCapacity"),
        ("authorization.k8s.io/v1", "SelfSubjectAccessReview"),
        ("authorization.k8s.io/v1", "SelfSubjectRulesReview"),
        ("authentication.k8s.io/v1", "SelfSubjectReview"),
    }
)
"""What can be read, beside DeleteOptions, which are sent in the version of what is deleted.

Definitions of custom resources are not here: a schema within a message is a language of its own.
"""

NUMERIC: Final = frozenset({"bool", "int32", "int64"})
_ZEROS: Final = NUMERIC | {"text"}


@dataclass(frozen=True, slots=True)
class Field:
    """A field of an object: its name in JSON, its type in the words of the notation (and those of the numbers)."""

    name: str
    type: str
    drops_zero: bool = False  # a zero says nothing: it is sent because the sender's types have no other way


@dataclass(frozen=True, slots=True)
class Layout:
    """The fields of a message. A layout in place of a field is a message whose fields JSON shows as those of this."""

    fields: Mapping[int, Field | Layout]


METADATA: Final = Field("metadata", "ObjectMeta")


def kind_layout(api_version: str, kind: str) -> Layout | None:
    """How objects of a kind are sent, or None if they cannot be read."""
    if kind == "DeleteOptions":
        return layout(kind)
    if (api_version, kind) not in KINDS:
        return None
    return Layout({1: METADATA, **layout(kind).fields})


@cache
def layout(shape: str) -> Layout:
    """How a shape is sent."""
    numbered = _numbers()[shape]
    tree: dict[int, Field | Layout] = {}
    inner: dict[int, dict[int, Field | Layout]] = {}
    for line in _lines()[shape]:
        field, _, rest = line.partition(" ")
        name = field.removesuffix("!")
        if name not in numbered:
            continue  # the envelope has it
        path, kept, other = numbered[name]
        kind = other or rest.split()[0]
        found = Field(name, kind, kind in _ZEROS and not kept and not field.endswith("!"))
        if len(path) == 1:
            tree[path[0]] = found
        else:
            inner.setdefault(path[0], {})[path[1]] = found
    return Layout({**tree, **{number: Layout(within) for number, within in inner.items()}})


@cache
def _lines() -> dict[str, list[str]]:
    return dict(chain.from_iterable(schema_dsl.parse_shapes(text).items() for text in SHAPES))


@cache
def _numbers() -> dict[str, dict[str, tuple[list[int], bool, str]]]:
    return {shape: dict(_entries(lines)) for shape, lines in schema_dsl.parse_shapes(NUMBERS).items()}


def _entries(lines: list[str]) -> Iterator[tuple[str, tuple[list[int], bool, str]]]:
    for entry in " ".join(lines).split():
        name, _, rest = entry.partition("=")
        number, _, other = rest.partition(":")
        yield name, ([int(part) for part in number.removesuffix("*").split(".")], number.endswith("*"), other)
