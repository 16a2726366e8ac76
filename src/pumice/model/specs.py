"""Input of the engine: immutable specs of queues, jobs, tasks, nodes and related objects.

A frontend (a scenario file, a Kubernetes informer, a recorded log) translates its input into these and passes them as
events (see ``events``). They describe what users *requested*; what follows from it (usage, idle capacity) is in
``engine.state``. Amounts are integers over a ``Registry``, times are microseconds.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum, IntEnum

from kubebase.label_selector import Requirement
from pumice.model.hyper_nodes import HyperNode, NetworkTopology
from pumice.model.task_topology import TaskTopology

Vector = tuple[int, ...]
Items = tuple[tuple[int, int], ...]
"""The non-zero entries of a vector, as (resource index, amount), by index: inner loops run over these."""

NO_TEXTS: Mapping[str, str] = {}
NO_MINIMUMS: Mapping[str, int] = {}
"""What objects without labels, and jobs without minimums of roles, share: there may be a million. Never changed."""

ROOT = "root"
DEFAULT_QUEUE = "default"


class QueueState(Enum):
    """Whether a queue accepts and starts work."""

    OPEN = "Open"
    CLOSING = "Closing"
    CLOSED = "Closed"
    PAUSED = "Paused"
    UNKNOWN = "Unknown"


class JobPhase(Enum):
    """Phase of a PodGroup. A Pending one waits to be enqueued; its pods may not exist yet."""

    PENDING = "Pending"
    INQUEUE = "Inqueue"
    RUNNING = "Running"
    UNKNOWN = "Unknown"
    COMPLETED = "Completed"


class TaskStatus(IntEnum):
    """Status of a task. The order matters: ``held`` and the others compare by it."""

    PENDING = 0
    PIPELINED = 1  # waits on a node for capacity that is being released
    BINDING = 2  # decided by us, not yet confirmed
    BOUND = 3
    RUNNING = 4
    RELEASING = 5
    SUCCEEDED = 6
    FAILED = 7

    held: bool  # counts in its job's holdings (docs/fairness.md, section 1.2): not while it is being released
    on_node: bool  # occupies its node now
    shown: bool  # the API shows it on its node, and it is not terminating
    has_node: bool  # counts on a node: it is placed there, or waits for capacity that is being released
    unfinished: bool  # part of its job's demand

    def __init__(self, value: int) -> None:
        # Asked for every task in every step: attributes cost less than properties, compiled or not.
        self.held = 1 <= value <= 4
        self.on_node = 2 <= value <= 5
        self.shown = 3 <= value <= 4
        self.has_node = 1 <= value <= 5
        self.unfinished = value <= 4


@dataclass(frozen=True, slots=True)
class HierarchyEntry:
    """One entry of ``spec.hierarchy``: a child queue, its parameters and its nested entries."""

    name: str
    parameters: tuple[tuple[str, object], ...] = ()
    hierarchy: tuple[HierarchyEntry, ...] = ()


@dataclass(frozen=True, slots=True)
class GroupAffinity:
    """The groups of nodes that a queue's tasks use or avoid, by name."""

    required: tuple[str, ...] = ()
    preferred: tuple[str, ...] = ()
    required_anti: tuple[str, ...] = ()
    preferred_anti: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Queue:
    """A queue as its object describes it. Only the named entries of a resource list count; a named 0 is a 0."""

    name: str
    created: int = 0
    weight: int = 1
    parent: str | None = None
    path: str | None = None  # annotation volcano.sh/hierarchy
    path_weights: str | None = None  # annotation volcano.sh/hierarchy-weights
    weights_written: int = 0  # when path or path_weights were last written; 0: when the queue was created
    state: QueueState = QueueState.OPEN
    priority: int = 0
    reclaimable: bool = True
    fifo: bool = False
    capability: Items = ()
    deserved: Items = ()
    guarantee: Items = ()
    min_user_limit_percent: int | None = None
    user_limit_factor: float | None = None  # None and -1: no limit
    affinity: GroupAffinity | None = None  # None: inherited from the parent queue
    hierarchy: tuple[HierarchyEntry, ...] = ()


@dataclass(frozen=True, slots=True)
class Quota:
    """A ResourceQuota, as far as it sets the weight of its namespace. None: no valid weight."""

    namespace: str
    name: str
    weight: int | None = None

    @property
    def key(self) -> str:
        """Namespace and name."""
        return f"{self.namespace}/{self.name}"


@dataclass(frozen=True, slots=True)
class PriorityClass:
    """A named priority. ``preempts`` is false where its preemptionPolicy is Never."""

    name: str
    value: int = 0
    default: bool = False
    preempts: bool = True


@dataclass(frozen=True, slots=True)
class DisruptionBudget:
    """A PodDisruptionBudget: how many of the pods it selects must stay. One of the two numbers is set."""

    namespace: str
    name: str
    selector: tuple[Requirement, ...] | None = None  # None selects nothing, () everything
    min_available: int | None = None
    max_unavailable: int | None = None
    percent: bool = False  # whether the number is a percentage of the pods selected

    @property
    def key(self) -> str:
        """Namespace and name."""
        return f"{self.namespace}/{self.name}"


@dataclass(frozen=True, slots=True)
class JobSpec:
    """A PodGroup: tasks that belong together."""

    namespace: str
    name: str
    queue: str
    created: int = 0
    min_member: int = 1
    min_task_member: Mapping[str, int] = field(default_factory=lambda: NO_MINIMUMS)
    min_resources: Vector = ()
    priority_class: str | None = None
    phase: JobPhase = JobPhase.PENDING
    user: str | None = None
    longest_wait: int | None = None  # sla-waiting-time, microseconds
    preemptable: bool = True  # whether its tasks may be evicted, unless they say otherwise
    topology: NetworkTopology | None = None
    task_topology: TaskTopology | None = None

    @property
    def key(self) -> str:
        """Namespace and name."""
        return f"{self.namespace}/{self.name}"

    @property
    def minimum(self) -> int:
        """How many tasks it starts with: its own minimum, or the sum of the roles' minimums where that is more."""
        return max(self.min_member, sum(self.min_task_member.values()))


@dataclass(frozen=True, slots=True)
class Toleration:
    """A pod's toleration. Empty key with Exists tolerates everything; empty effect every effect."""

    key: str = ""
    operator: str = "Equal"
    value: str = ""
    effect: str = ""


@dataclass(frozen=True, slots=True)
class NodeTerm:
    """A node selector term: all requirements on labels and on fields (metadata.name) hold."""

    labels: tuple[Requirement, ...] = ()
    fields: tuple[Requirement, ...] = ()
    weight: int = 0  # of a preferred term


@dataclass(frozen=True, slots=True)
class PodTerm:
    """Pods that a selector selects in some namespaces, per domain of a topology key."""

    topology_key: str
    selector: tuple[Requirement, ...] | None  # None selects nothing, () everything
    namespaces: tuple[str, ...] | None = None  # None: all namespaces
    weight: int = 0  # of a preferred term


@dataclass(frozen=True, slots=True)
class Spread:
    """A topology spread constraint that must hold (whenUnsatisfiable: DoNotSchedule) or should."""

    topology_key: str
    max_skew: int
    selector: tuple[Requirement, ...] | None
    hard: bool = True
    min_domains: int = 1
    honor_affinity: bool = True  # nodeAffinityPolicy
    honor_taints: bool = False  # nodeTaintsPolicy


@dataclass(frozen=True, slots=True)
class VolumeNodes:
    """The nodes from which a volume of a pod can be used: those that any of the terms selects."""

    terms: tuple[NodeTerm, ...]
    reason: str  # about the other nodes, in the words of kube-scheduler


@dataclass(frozen=True, slots=True)
class Attachment:
    """The volumes of one storage driver that a pod attaches to its node, which may limit their number."""

    driver: str
    private: int = 0  # volumes that no other pod uses
    shared: tuple[str, ...] = ()  # volumes that other pods use too: they count once per node
    reason: str = "node(s) exceed max volume count"  # about nodes that take no more, in the words of kube-scheduler


@dataclass(frozen=True, slots=True)
class VolumeDemand:
    """What the volumes of a pod demand of its node."""

    waits_for: str = ""  # why the pod can use no node until its volumes change, in the words of kube-scheduler
    nodes: tuple[VolumeNodes, ...] = ()
    attached: tuple[Attachment, ...] = ()
    exclusive: tuple[str, ...] = ()  # volumes that one pod of the cluster may use at a time


@dataclass(frozen=True, slots=True)
class Constraints:
    """Scheduling constraints of a task other than its request. ``FREE``, the empty one, is the most common."""

    node_selector: tuple[tuple[str, str], ...] = ()
    node_required: tuple[NodeTerm, ...] | None = None  # None: no requirement; any of the terms
    node_preferred: tuple[NodeTerm, ...] = ()
    tolerations: tuple[Toleration, ...] = ()
    ports: tuple[tuple[str, str, int], ...] = ()  # protocol, host ip, port
    affinity: tuple[PodTerm, ...] = ()
    anti_affinity: tuple[PodTerm, ...] = ()
    spread: tuple[Spread, ...] = ()
    volumes: VolumeDemand | None = None  # None: the pod has no claims

    @property
    def coupled(self) -> bool:
        """Whether feasibility depends on the placement of other pods."""
        if self.ports or self.affinity or self.anti_affinity or self.spread:
            return True
        return self.volumes is not None and bool(self.volumes.attached or self.volumes.exclusive)


FREE = Constraints()


@dataclass(frozen=True, slots=True)
class TaskSpec:
    """A pod. ``job`` names its PodGroup; ``managed`` is false for pods of other schedulers."""

    namespace: str
    name: str
    request: Vector
    job: str | None = None
    created: int = 0
    role: str = ""
    priority: int | None = None
    priority_class: str | None = None
    node: str | None = None
    status: TaskStatus = TaskStatus.PENDING
    started: int = 0
    labels: Mapping[str, str] = field(default_factory=lambda: NO_TEXTS)
    constraints: Constraints = FREE
    managed: bool = True
    preemptable: bool | None = None  # whether it may be evicted; None: as its job
    preempts: bool | None = None  # its own preemptionPolicy; None: its class's
    placed: bool = False  # whether we bound it to its node, now or before a restart
    cards: tuple[int, ...] = ()  # the cards of its node that it uses
    returns: bool = False  # whether a controller creates it again when it is gone

    @property
    def key(self) -> str:
        """Namespace and name."""
        return f"{self.namespace}/{self.name}"


@dataclass(frozen=True, slots=True)
class Taint:
    """A node's taint."""

    key: str
    value: str = ""
    effect: str = "NoSchedule"


@dataclass(frozen=True, slots=True)
class NodeSpec:
    """A node and its capacity."""

    name: str
    allocatable: Vector
    created: int = 0
    labels: Mapping[str, str] = field(default_factory=lambda: NO_TEXTS)
    taints: tuple[Taint, ...] = ()
    unschedulable: bool = False
    ready: bool = True
    volume_limits: tuple[tuple[str, int], ...] = ()  # how many volumes of a storage driver can be attached


Described = NodeSpec | HyperNode | Queue | Quota | PriorityClass | DisruptionBudget | JobSpec | TaskSpec
"""An object of the cluster, as the engine receives it."""
