"""The answer to ``why``: plain values, amounts as quantities, times in microseconds."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

Amounts = dict[str, str]

Cause = Literal[
    "running",  # nothing of it waits
    "finished",
    "starting",  # it has its places and waits for others to leave them
    "next",  # nothing is in its way: it starts in the next cycle
    "turn",  # others come first and leave it no room
    "no group",  # its podgroup is not there
    "no queue",
    "queue",  # its queue takes no work
    "not let in",  # it may not create pods yet
    "pods",  # too few of its pods exist
    "never",  # it would not fit an empty cluster
    "line",  # its queue is first come first served, and another is first
    "limit",
    "room",
]


@dataclass(frozen=True, slots=True)
class Competitor:
    """A node of the share tree, in numbers."""

    name: str
    weight: float
    used: Amounts
    entitled: Amounts  # where queues go by what they deserve: that
    whole: Amounts  # the whole targets below it together, where there are targets
    used_share: float  # of the cluster, by dominant resource
    entitled_share: float
    key: float | None  # by which it is compared; None: nothing below it is in the running
    owed: bool  # whether something that waits below it is within its whole target
    limit: Amounts  # the most it may hold, of what is less than the whole cluster


@dataclass(frozen=True, slots=True)
class TreeLevel:
    """One level on the way from the root to the job: its side there, and who is served first."""

    ours: Competitor
    first: Competitor | None  # None: it is first itself
    place: int | None  # counted from 1; None: it is not in the running
    rivals: int  # how many are
    decided_by: str = ""


@dataclass(frozen=True, slots=True)
class Competition:
    """Whose turn it is, level by level."""

    measure: str  # what keys are: want (the largest first) or share (the least first)
    lending: bool  # nobody is owed: what is left is lent
    supposing: bool  # the job finds no room: the order is as it would be if there were some
    first_job: str | None
    rungs: list[TreeLevel]


@dataclass(frozen=True, slots=True)
class Limit:
    """A limit that a unit would break."""

    kind: str  # capability, guarantee, user, deserved, or the plugin that refuses
    queue: str
    resource: str
    message: str
    most: str = ""
    held: str = ""
    asks: str = ""
    lacks: str = ""  # how much has to come free


@dataclass(frozen=True, slots=True)
class Shortage:
    """What nodes lack of a resource."""

    resource: str
    needs: str
    most: str  # the most that one of them has


@dataclass(frozen=True, slots=True)
class ExcludedNodes:
    """Nodes that will not do, all for one reason."""

    reason: str
    count: int
    lacks: list[Shortage]
    nodes: list[str]  # the first few of them


@dataclass(frozen=True, slots=True)
class NodeFit:
    """Where one task of a shape may go."""

    asks: Amounts
    tasks: int  # of the unit are of this shape
    nodes: int
    fitting: int
    out: list[ExcludedNodes]


@dataclass(frozen=True, slots=True)
class Missing:
    """What has to come free on a node so that the unit finds its place."""

    node: str
    amounts: Amounts


@dataclass(frozen=True, slots=True)
class Eviction:
    """A task that would go."""

    task: str
    job: str
    node: str


@dataclass(slots=True)
class Forecast:
    """What the engine decides next and, if nothing else happens, later."""

    first: list[str] = field(default_factory=list)  # jobs that start something in the next cycle, in that order
    starts_at: int | None = None
    tasks: int = 0  # that start then
    waits_for_room: bool = False  # which is being freed
    evictions: list[Eviction] = field(default_factory=list)
    action: str = ""  # by which they go
    holds_at: int | None = None  # room is kept for it from then on
    holds_on: list[str] = field(default_factory=list)
    hold_lack: float = 0.0
    hold_ends: int | None = None  # unless it has made progress
    patience_at: int | None = None  # when it has waited long enough for room to be kept
    takes_at: int | None = None  # when it has waited long enough to take back
    may_not_take: str = ""  # why it takes nothing back all the same
    kept_for: list[str] = field(default_factory=list)  # others for whom room is kept


@dataclass(slots=True)
class WaitReport:
    """Why a job waits, or what it has."""

    job: str
    cause: Cause
    verdict: str = ""
    called: str = ""  # what was asked for, where that is not the name of the job
    queue: str = ""
    path: str = ""
    user: str = ""
    phase: str = ""
    now: int = 0
    created: int = 0
    running_since: int = 0  # since when the first of its tasks runs; 0: none does
    last_start: int = 0
    running: int = 0
    starting: int = 0
    pending: int = 0
    succeeded: int = 0
    minimum: int = 1
    holds: Amounts = field(default_factory=dict)
    unit_tasks: int = 0
    unit: Amounts = field(default_factory=dict)
    fitting_now: int = 0  # tasks of the unit that would find a place now
    owed: bool | None = None
    target: float | None = None  # tasks it is entitled to
    whole: Amounts = field(default_factory=dict)  # in whole units
    contest: Competition | None = None
    limits: list[Limit] = field(default_factory=list)
    places: list[NodeFit] = field(default_factory=list)
    missing: list[Missing] = field(default_factory=list)
    outlook: Forecast = field(default_factory=Forecast)
    rules: str = ""  # where the configuration is from by which this was answered
    needs: list[str] = field(default_factory=list)  # what would have to happen
    notes: list[str] = field(default_factory=list)
