"""The report of ``pumice why``: plain values, amounts as quantities, times in microseconds."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

Amounts = dict[str, str]

Cause = Literal[
    "running",  # no task of it is pending
    "finished",
    "starting",  # its tasks are pipelined and wait for others to be released
    "next",  # nothing blocks it: it starts in the next cycle
    "turn",  # other jobs come first and use up the capacity
    "no group",  # its PodGroup does not exist
    "status",  # not explained by an engine: the reason is what the scheduler wrote into objects
    "no queue",
    "queue",  # its queue accepts no work
    "not let in",  # it may not create pods yet
    "pods",  # too few of its pods exist
    "volume",  # a claim of its pods is missing or not bound
    "never",  # it would not fit an empty cluster
    "line",  # its queue is first come first served, and another job is first
    "limit",
    "room",
]


@dataclass(frozen=True, slots=True)
class Competitor:
    """A node of the share tree, in numbers."""

    name: str
    weight: float
    used: Amounts
    entitled: Amounts  # the deserved amount, where queues are ordered by it
    whole: Amounts  # the sum of the integer targets below it, where there are targets
    used_share: float  # of the cluster, by dominant resource
    entitled_share: float
    key: float | None  # sort key; None: no candidate below it
    owed: bool  # whether a pending unit below it is within its integer target
    limit: Amounts  # the most it may hold, where that is less than the whole cluster


@dataclass(frozen=True, slots=True)
class TreeLevel:
    """One level on the path from the root to the job: its side there, and the first of its siblings."""

    ours: Competitor
    first: Competitor | None  # None: it is first itself
    place: int | None  # counted from 1; None: it is no candidate
    rivals: int  # number of candidates
    decided_by: str = ""


@dataclass(frozen=True, slots=True)
class Competition:
    """The serving order, level by level."""

    measure: str  # meaning of keys: want (the largest first) or share (the least first)
    lending: bool  # no job is owed anything: the rest is lent
    supposing: bool  # the job cannot be placed: the order is hypothetical, as if it could
    first_job: str | None
    rungs: list[TreeLevel]


@dataclass(frozen=True, slots=True)
class Limit:
    """A limit that a unit would break."""

    kind: str  # capability, guarantee, user, deserved, or the plugin that rejects
    queue: str
    resource: str
    message: str
    most: str = ""
    held: str = ""
    asks: str = ""
    lacks: str = ""  # how much has to be freed


@dataclass(frozen=True, slots=True)
class Shortage:
    """What nodes lack of a resource."""

    resource: str
    needs: str
    most: str  # the most that one of them has


@dataclass(frozen=True, slots=True)
class ExcludedNodes:
    """Nodes excluded for one reason."""

    reason: str
    count: int
    lacks: list[Shortage]
    nodes: list[str]  # the first few of them


@dataclass(frozen=True, slots=True)
class NodeFit:
    """The nodes that fit one task of a shape."""

    asks: Amounts
    tasks: int  # tasks of the unit with this shape
    nodes: int
    fitting: int
    out: list[ExcludedNodes]


@dataclass(frozen=True, slots=True)
class Missing:
    """What has to be freed on a node so that the unit fits."""

    node: str
    amounts: Amounts


@dataclass(frozen=True, slots=True)
class Eviction:
    """A task that would be evicted."""

    task: str
    job: str
    node: str


@dataclass(slots=True)
class Forecast:
    """What the engine decides next and, if nothing else happens, later."""

    first: list[str] = field(default_factory=list)  # jobs that start something in the next cycle, in that order
    starts_at: int | None = None
    tasks: int = 0  # tasks that start then
    waits_for_room: bool = False  # capacity that is being released
    evictions: list[Eviction] = field(default_factory=list)
    action: str = ""  # the action that evicts them
    holds_at: int | None = None  # capacity is reserved for it from then on
    holds_on: list[str] = field(default_factory=list)
    hold_lack: float = 0.0
    hold_ends: int | None = None  # unless it has made progress
    patience_at: int | None = None  # when it has waited long enough for a reservation
    takes_at: int | None = None  # when it has waited long enough to preempt
    may_not_take: str = ""  # why it does not preempt nevertheless
    kept_for: list[str] = field(default_factory=list)  # other jobs with reservations


@dataclass(slots=True)
class WaitReport:
    """Why a job waits, or what it has."""

    job: str
    cause: Cause
    verdict: str = ""
    called: str = ""  # the requested name, where that is not the name of the job
    queue: str = ""
    path: str = ""
    user: str = ""
    phase: str = ""
    now: int = 0
    created: int = 0
    running_since: int = 0  # start time of its first running task; 0: none runs
    last_start: int = 0
    running: int = 0
    starting: int = 0
    pending: int = 0
    succeeded: int = 0
    minimum: int = 1
    holds: Amounts = field(default_factory=dict)
    unit_tasks: int = 0
    unit: Amounts = field(default_factory=dict)
    fitting_now: int = 0  # tasks of the unit that could be placed now
    no_domain: str = ""  # why no HyperNode has room for the unit; empty: that is not the obstacle
    owed: bool | None = None
    target: float | None = None  # tasks it is entitled to
    whole: Amounts = field(default_factory=dict)  # in whole units
    contest: Competition | None = None
    limits: list[Limit] = field(default_factory=list)
    places: list[NodeFit] = field(default_factory=list)
    missing: list[Missing] = field(default_factory=list)
    outlook: Forecast = field(default_factory=Forecast)
    containers: list[str] = field(default_factory=list)  # those that cannot start although their pods have nodes
    rules: str = ""  # origin of the configuration behind this report
    needs: list[str] = field(default_factory=list)  # what would have to happen
    notes: list[str] = field(default_factory=list)
