"""Kubernetes and Volcano objects as they are written, reduced to the fields that are read.

Attribute names are ours, names on the wire camelCase; what is not listed here is ignored. A field without a
default is required. Ranges and types are checked while decoding, everything that needs a second look (names
out of a fixed list, fields that depend on each other) in the translation.
"""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any

from msgspec import Meta, Struct, field

Time = Annotated[datetime, Meta(tz=True)]
Int32 = Annotated[int, Meta(ge=-(2**31), lt=2**31)]
Count = Annotated[int, Meta(ge=0, lt=2**31)]
Positive = Annotated[int, Meta(ge=1, lt=2**31)]
Weight = Annotated[int, Meta(ge=1, le=65535)]
Percent = Annotated[int, Meta(ge=0, le=100)]
Preference = Annotated[int, Meta(ge=1, le=100)]
Port = Annotated[int, Meta(ge=0, le=65535)]

Texts = dict[str, str]
Quantities = dict[str, Any]  # the registry of resources reads the values


class Wire(Struct, rename="camel", gc=False, frozen=True):
    """An object or a part of one. None refers back to its owner, so they need no garbage collection."""


class Owner(Wire, frozen=True):
    """An owner of an object; one of them may be its controller."""

    controller: bool | None = None


class Metadata(Wire, frozen=True):
    """The metadata of an object. A name is required, but the conversion reports its absence."""

    name: str = ""
    namespace: str = ""
    labels: Texts = {}
    annotations: Texts = {}
    creation_timestamp: Time | None = None
    deletion_timestamp: Time | None = None
    owner_references: tuple[Owner, ...] = ()


class Object(Wire, frozen=True):
    """The fields of every object."""

    metadata: Metadata = Metadata()


class Requirement(Wire, frozen=True):
    """``key operator values``."""

    key: str
    operator: str
    values: tuple[str, ...] = ()


class LabelSelector(Wire, frozen=True):
    """Objects by their labels: all of it must hold."""

    match_labels: Texts = {}
    match_expressions: tuple[Requirement, ...] = ()


# ---- Node -------------------------------------------------------------------------------------------------


class Taint(Wire, frozen=True):
    """Keeps pods away that do not tolerate it."""

    key: str
    effect: str
    value: str = ""


class NodeSpec(Wire, frozen=True):
    """The spec of a node."""

    taints: tuple[Taint, ...] = ()
    unschedulable: bool = False


class NodeCondition(Wire, frozen=True):
    """One observation of the kubelet; only ``Ready`` is looked at."""

    type: str
    status: str


class NodeStatus(Wire, frozen=True):
    """The status of a node."""

    allocatable: Quantities = {}
    capacity: Quantities = {}
    conditions: tuple[NodeCondition, ...] = ()


class Node(Object, frozen=True):
    """A machine."""

    spec: NodeSpec = NodeSpec()
    status: NodeStatus = NodeStatus()


# ---- ResourceQuota, PriorityClass, PodDisruptionBudget -----------------------------------------------------


class ResourceQuotaSpec(Wire, frozen=True):
    """Limits of a namespace."""

    hard: Quantities = {}


class ResourceQuota(Object, frozen=True):
    """Limits of a namespace, and the weight of the namespace among them."""

    spec: ResourceQuotaSpec = ResourceQuotaSpec()


class PriorityClass(Object, frozen=True):
    """A named priority."""

    value: Int32 = 0
    global_default: bool = False
    preemption_policy: str = ""


class PodDisruptionBudgetSpec(Wire, frozen=True):
    """How many of the pods selected must stay, or may go."""

    selector: LabelSelector | None = None
    min_available: int | str | None = None
    max_unavailable: int | str | None = None


class PodDisruptionBudget(Object, frozen=True):
    """The spec of a PodDisruptionBudget."""

    spec: PodDisruptionBudgetSpec = PodDisruptionBudgetSpec()


# ---- Queue, PodGroup ---------------------------------------------------------------------------------------


class Guarantee(Wire, frozen=True):
    """The guarantee of a queue."""

    resource: Quantities = {}


class Parameter(Wire, frozen=True):
    """A field of the Queue spec, by name, with its value."""

    name: str
    value: object


class HierarchyEntry(Wire, frozen=True):
    """A child queue in the hierarchy of another."""

    name: str
    parameters: tuple[Parameter, ...] = ()
    hierarchy: tuple[HierarchyEntry, ...] = ()


class NodeGroups(Wire, frozen=True):
    """Groups of nodes by name: those that are a must, and those that are a wish."""

    required: tuple[str, ...] = field(default=(), name="requiredDuringSchedulingIgnoredDuringExecution")
    preferred: tuple[str, ...] = field(default=(), name="preferredDuringSchedulingIgnoredDuringExecution")


class QueueAffinity(Wire, frozen=True):
    """Groups of nodes that a queue's tasks go to, and those that they keep away from."""

    node_group_affinity: NodeGroups = NodeGroups()
    node_group_anti_affinity: NodeGroups = NodeGroups()


class QueueSpec(Wire, frozen=True):
    """The spec of a queue."""

    weight: Weight = 1
    parent: str = ""
    capability: Quantities = {}
    deserved: Quantities = {}
    guarantee: Guarantee = Guarantee()
    priority: Count = 0
    reclaimable: bool = True
    dequeue_strategy: str = ""
    min_user_limit_percent: Percent | None = None
    user_limit_factor: float | None = None
    affinity: QueueAffinity | None = None
    type: object = None
    extend_clusters: object = None
    hierarchy: tuple[HierarchyEntry, ...] = ()


class QueueStatus(Wire, frozen=True):
    """The status of a queue: its state; the other fields, which the scheduler writes, are kept undecoded."""

    state: str = ""
    weight: Any = None
    path: Any = None
    allocated: Any = None
    entitled: Any = None
    share: Any = None
    pending: Any = None
    inqueue: Any = None
    running: Any = None
    unknown: Any = None
    completed: Any = None
    namespaces: Any = None
    inner_nodes: Any = None
    scheduler: Any = None


class Queue(Object, frozen=True):
    """A node of the share tree."""

    spec: QueueSpec = QueueSpec()
    status: QueueStatus = QueueStatus()


class NetworkTopology(Wire, frozen=True):
    """How far apart in the network the pods of a job may be."""

    mode: str = ""
    highest_tier_allowed: Count | None = None
    highest_tier_name: str = ""


class PodGroupSpec(Wire, frozen=True):
    """How many of its pods must start together, and where."""

    min_member: Count = 1
    min_task_member: dict[str, Count] = {}
    min_resources: Quantities = {}
    queue: str = ""
    priority_class_name: str = ""
    network_topology: NetworkTopology | None = None


class PodGroupStatus(Wire, frozen=True):
    """How far a group has come, how many of its pods are how far, and what was said about it last."""

    phase: str = ""
    conditions: tuple[PodCondition, ...] = ()
    running: int | None = None
    succeeded: int | None = None
    failed: int | None = None


class PodGroup(Object, frozen=True):
    """Pods that belong together."""

    spec: PodGroupSpec = PodGroupSpec()
    status: PodGroupStatus = PodGroupStatus()


# ---- HyperNode ---------------------------------------------------------------------------------------------


class ExactMatch(Wire, frozen=True):
    """A member by its name."""

    name: str


class RegexMatch(Wire, frozen=True):
    """Members by a regular expression that their names match."""

    pattern: str


class MemberSelector(Wire, frozen=True):
    """The members of a HyperNode, by one of the three."""

    exact_match: ExactMatch | None = None
    regex_match: RegexMatch | None = None
    label_match: LabelSelector | None = None


class HyperNodeMember(Wire, frozen=True):
    """Nodes or HyperNodes that belong to a HyperNode."""

    type: str
    selector: MemberSelector = MemberSelector()


class HyperNodeSpec(Wire, frozen=True):
    """The tier of a HyperNode, and its members."""

    tier: Positive
    tier_name: str = ""
    members: tuple[HyperNodeMember, ...] = ()


class HyperNode(Object, frozen=True, kw_only=True):
    """Nodes that are close to one another in the network."""

    spec: HyperNodeSpec


# ---- Pod ---------------------------------------------------------------------------------------------------


class Resources(Wire, frozen=True):
    """Requests and limits of a container, or of a pod as a whole."""

    requests: Quantities = {}
    limits: Quantities = {}


class ContainerPort(Wire, frozen=True):
    """A port of a container, perhaps also one of its node."""

    container_port: Port = 0
    host_port: Port = 0
    host_ip: str = field(default="", name="hostIP")
    protocol: str = ""


class Container(Wire, frozen=True):
    """A container or init container."""

    name: str = ""
    resources: Resources = Resources()
    ports: tuple[ContainerPort, ...] = ()
    restart_policy: str = ""


class NodeSelectorTerm(Wire, frozen=True):
    """Nodes by their labels and fields: all of it must hold, and an empty term matches none."""

    match_expressions: tuple[Requirement, ...] = ()
    match_fields: tuple[Requirement, ...] = ()


class NodeSelector(Wire, frozen=True):
    """Any of the terms must hold."""

    node_selector_terms: tuple[NodeSelectorTerm, ...]


class PreferredNodes(Wire, frozen=True):
    """Nodes that a pod would rather run on."""

    weight: Preference
    preference: NodeSelectorTerm = NodeSelectorTerm()


class NodeAffinity(Wire, frozen=True):
    """Nodes a pod must, or would rather, run on."""

    required: NodeSelector | None = field(default=None, name="requiredDuringSchedulingIgnoredDuringExecution")
    preferred: tuple[PreferredNodes, ...] = field(default=(), name="preferredDuringSchedulingIgnoredDuringExecution")


class PodAffinityTerm(Wire, frozen=True):
    """Pods by label and namespace, seen per domain of a topology key."""

    topology_key: str
    label_selector: LabelSelector | None = None
    namespaces: tuple[str, ...] = ()
    namespace_selector: LabelSelector | None = None
    match_label_keys: tuple[str, ...] = ()
    mismatch_label_keys: tuple[str, ...] = ()


class PodAffinity(Wire, frozen=True):
    """Pods to be near to, or away from."""

    required: tuple[PodAffinityTerm, ...] = field(default=(), name="requiredDuringSchedulingIgnoredDuringExecution")


class Affinity(Wire, frozen=True):
    """The affinity of a pod."""

    node_affinity: NodeAffinity = NodeAffinity()
    pod_affinity: PodAffinity = PodAffinity()
    pod_anti_affinity: PodAffinity = PodAffinity()


class Toleration(Wire, frozen=True):
    """A taint that a pod does not mind."""

    key: str = ""
    operator: str = ""
    value: str = ""
    effect: str = ""


class TopologySpread(Wire, frozen=True):
    """How evenly pods spread over the domains of a topology key."""

    max_skew: Positive
    topology_key: str
    when_unsatisfiable: str
    label_selector: LabelSelector | None = None
    min_domains: Positive = 1
    node_affinity_policy: str = "Honor"
    node_taints_policy: str = "Ignore"
    match_label_keys: tuple[str, ...] = ()


class ClaimSource(Wire, frozen=True):
    """A volume of a pod that is a claim."""

    claim_name: str = ""


class PodVolume(Wire, frozen=True):
    """A volume of a pod, as far as it is a claim: one that exists, or one that is made for the pod."""

    name: str = ""
    persistent_volume_claim: ClaimSource | None = None
    ephemeral: Any = None


class PodSpec(Wire, frozen=True):
    """The spec of a pod."""

    containers: tuple[Container, ...] = ()
    init_containers: tuple[Container, ...] = ()
    volumes: tuple[PodVolume, ...] = ()
    overhead: Quantities = {}
    resources: Resources | None = None
    node_name: str = ""
    node_selector: Texts = {}
    affinity: Affinity | None = None
    tolerations: tuple[Toleration, ...] = ()
    topology_spread_constraints: tuple[TopologySpread, ...] = ()
    host_network: bool = False
    scheduler_name: str = ""
    scheduling_gates: tuple[Texts, ...] = ()
    priority: Int32 | None = None
    priority_class_name: str = ""
    preemption_policy: str = ""


class PodCondition(Wire, frozen=True):
    """Something that is so with a pod, or not, since when and why."""

    type: str = ""
    status: str = ""
    reason: str = ""
    message: str = ""
    last_transition_time: Time | None = None


class ActualResources(Wire, frozen=True):
    """What a container has been given by its runtime."""

    requests: Quantities = {}


class ContainerStatus(Wire, frozen=True):
    """What the kubelet has allocated to a container, and given to it: both lag behind the spec during a resize."""

    name: str = ""
    allocated_resources: Quantities | None = None
    resources: ActualResources | None = None


class PodStatus(Wire, frozen=True):
    """How far a pod has come."""

    phase: str = ""
    start_time: Time | None = None
    conditions: tuple[PodCondition, ...] = ()
    container_statuses: tuple[ContainerStatus, ...] = ()
    init_container_statuses: tuple[ContainerStatus, ...] = ()


class Pod(Object, frozen=True):
    """A task."""

    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()
