"""The nodes of the share tree: what a queue, a namespace or a job holds, is entitled to, and would start next.

``ShareTree`` (see ``tree``) changes their structure and accounts, an order (see ``serving_order``) their heaps.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from enum import IntEnum
from itertools import count
from typing import TYPE_CHECKING, Any

from pumice.engine.fairness.integer_target.task_line import Line
from pumice.engine.fairness.share_tree.demand import NO_DEMAND
from pumice.engine.fairness.share_tree.equal_jobs import EXACT_BITS, HALF, UNIT, Equality, EqualJobs
from pumice.engine.fairness.share_tree.inner_parts import InnerParts
from pumice.engine.fairness.share_tree.shared_vectors import Counters, no_counters, shared_dues, shared_zeros
from pumice.engine.fairness.share_tree.waiting_line import WaitingLine
from pumice.engine.state.job import Job
from pumice.engine.state.task import Task
from pumice.model.specs import Items

if TYPE_CHECKING:
    from pumice.engine.fairness.integer_target.settled_passes import Cohort

Entry = tuple[Any, ...]
"""A heap entry: sort key first, the node last; ``rank`` before the node decides every comparison."""

Rank = tuple[Any, ...]
"""Age, kind, name and serial number of a node. No two nodes have the same, not even an old one and its successor."""

BranchKey = tuple["NodeKind", str]
"""Kind and name of a queue or namespace."""

ChildKey = BranchKey | int
"""The same, or the serial number of a job."""


class NodeKind(IntEnum):
    """The kind of object that a node of the tree represents."""

    QUEUE = 0
    NAMESPACE = 1
    JOB = 2


class ChildHeap:
    """The children of a node in the order a policy serves them: a heap with lazy deletion.

    An entry is valid only while its node refers to it; ``changed`` holds the children to refresh before the heap is
    read.
    """

    __slots__ = ("changed", "heap")

    def __init__(self) -> None:
        self.heap: list[Entry] = []
        self.changed: list[ShareNode] = []

    def leave(self, children: int) -> None:
        """A child left, ``children`` stay. This heap may never be read: entries of those that left must not pile up."""
        if len(self.changed) > 2 * children + 64:
            self.changed[:] = [node for node in self.changed if not node.gone]


_SERIALS = count()
_NO_FRONT = ChildHeap()
_NO_CHILDREN: dict[ChildKey, ShareNode] = {}
_NO_STARTS: list[int] = []


def own_target(leaf: JobNode) -> None:
    """Before the integer target of a job changes in place: give it a vector of its own. It may have been shared."""
    leaf.integer_target = list(leaf.integer_target)


_NOTHING_INSIDE = InnerParts(0)


class ShareNode:
    """A node of the share tree."""

    __slots__ = (
        "able_asks",
        "child_heap",
        "children",
        "counters",
        "dirty",
        "due",
        "entitled",
        "exact",
        "gone",
        "heap_entry",
        "held",
        "inner",
        "integer_target",
        "kind",
        "last_turn",
        "latest",
        "latest_owed",
        "lending_entry",
        "lending_heap",
        "lent_flagged",
        "name",
        "owed_asks",
        "parent",
        "rank",
        "serial",
        "stale",
        "stale_owed",
        "weight",
    )

    def __init__(self, kind: NodeKind, name: str, parent: ShareNode | None, width: int) -> None:
        self.kind = kind
        self.name = name
        self.parent = parent
        job = kind is NodeKind.JOB  # jobs have no children and are many: they share the empty containers
        self.children: dict[ChildKey, ShareNode] = _NO_CHILDREN if job else {}
        self.weight = 1.0
        self.serial: Any = next(_SERIALS)  # Any: the same object is a key of several tables, compiled too
        self.rank: Rank = (0, kind, name, self.serial)  # the final tie-break
        # Jobs that hold nothing share one vector of zeros: ``charge`` makes their own. So do those without a target.
        self.held: list[int] = shared_zeros(width) if job else [0] * width
        # The entitlement three times: exact, in units of 2^-40 so that a third and two thirds add up to one; rounded,
        # for reports; and as floats, for keys. Only the exact values are summed.
        self.exact: list[int] = shared_zeros(width) if job else [0] * width
        self.entitled: list[int] = shared_zeros(width) if job else [0] * width
        self.due: list[float] = shared_dues(width) if job else [0.0] * width
        self.latest = 0  # latest start below; an upper bound while stale
        self.stale = False
        self.latest_owed = 0  # the same over starts made while owed (docs/fairness.md, section 3.2, ties in rounding)
        self.stale_owed = False
        self.last_turn = 0  # when a queue or job was last served while owed, whether or not that task still runs
        # What only queues and namespaces have; one empty object for all jobs.
        self.inner = _NOTHING_INSIDE if job else InnerParts(width)
        # Request, inqueue and elastic (see ``usage_ledger``). Those of jobs never change in place: most are equal.
        self.counters: Counters = no_counters(width) if job else ([0] * width, [0] * width, [0] * width)
        self.integer_target: list[int] = shared_zeros(width) if job else [0] * width  # below (see ``rounding``)
        self.gone = False  # removed from the tree
        self.able_asks: tuple[int, ...] = ()
        self.owed_asks: tuple[int, ...] = ()
        self.child_heap = _NO_FRONT if job else ChildHeap()
        self.heap_entry: Entry | None = None
        self.dirty = False
        self.lending_heap = _NO_FRONT if job else ChildHeap()
        self.lending_entry: Entry | None = None
        self.lent_flagged = False

    def entitle(self, exact: list[int]) -> bool:
        """Set the entitlement; returns whether it changed."""
        if exact == self.exact:
            return False
        self.exact = exact
        self.entitled = [(amount + HALF) >> EXACT_BITS for amount in exact]
        self.due = [float(amount) * UNIT for amount in exact]
        return True

    @property
    def branches(self) -> dict[BranchKey, ShareNode]:
        """Children that are no jobs."""
        return self.inner.branches

    @property
    def equal_jobs(self) -> dict[Equality, EqualJobs]:
        """The jobs among the children, in groups."""
        return self.inner.equal_jobs

    @property
    def queue_name(self) -> str | None:
        """The name of the Queue object behind a queue."""
        return self.inner.queue_name

    @queue_name.setter
    def queue_name(self, queue_name: str | None) -> None:
        self.inner.queue_name = queue_name

    @property
    def guarantee(self) -> list[int] | None:
        """What is reserved: unavailable to other queues."""
        return self.inner.guarantee

    @guarantee.setter
    def guarantee(self, guarantee: list[int] | None) -> None:
        self.inner.guarantee = guarantee

    @property
    def ceiling(self) -> list[int] | None:
        """Real capability: the most that may be held below."""
        return self.inner.ceiling

    @ceiling.setter
    def ceiling(self, ceiling: list[int] | None) -> None:
        self.inner.ceiling = ceiling

    @property
    def deserved(self) -> Items | None:
        """Deserved amount; of the resources named, zeros included."""
        return self.inner.deserved

    @deserved.setter
    def deserved(self, deserved: Items | None) -> None:
        self.inner.deserved = deserved

    @property
    def user_ceilings(self) -> dict[str, list[int]] | None:
        """Of a leaf queue: the most each user may hold."""
        return self.inner.user_ceilings

    @user_ceilings.setter
    def user_ceilings(self, user_ceilings: dict[str, list[int]] | None) -> None:
        self.inner.user_ceilings = user_ceilings

    @property
    def claims(self) -> list[int]:
        """Of a queue: the holdings of its jobs and the claims of its child queues."""
        return self.inner.claims

    @claims.setter
    def claims(self, claims: list[int]) -> None:
        self.inner.claims = claims

    @property
    def held_heads(self) -> dict[Items, int]:
        """The running units that jobs below offer next, counted by their request."""
        return self.inner.held_heads

    @property
    def waiting_heads(self) -> dict[Items, int]:
        """The same of pending units."""
        return self.inner.waiting_heads

    @property
    def able_count(self) -> list[int]:
        """Children with candidates, counted per resource that their units ask for."""
        return self.inner.able_count

    @able_count.setter
    def able_count(self, able_count: list[int]) -> None:
        self.inner.able_count = able_count

    @property
    def owed_count(self) -> list[int]:
        """The same for owed candidates."""
        return self.inner.owed_count

    @owed_count.setter
    def owed_count(self, owed_count: list[int]) -> None:
        self.inner.owed_count = owed_count

    @property
    def request(self) -> list[int]:
        """Total demand, holdings included."""
        return self.counters[0]

    @property
    def inqueue(self) -> list[int]:
        """What was promised on enqueue and is not held yet."""
        return self.counters[1]

    @property
    def elastic(self) -> list[int]:
        """What is held beyond what must run."""
        return self.counters[2]

    @property
    def path(self) -> str:
        """Names from the root down, as reports show them."""
        names: list[str] = []
        node: ShareNode | None = self
        while node is not None:  # a loop: a tree may be deeper than Python's stack
            names.append(node.name)
            node = node.parent
        return "/".join(reversed(names))

    @property
    def queue(self) -> ShareNode:
        """The queue of this node: the node itself, or the queue of this job or namespace."""
        node = self
        while node.kind is not NodeKind.QUEUE:
            assert node.parent is not None
            node = node.parent
        return node

    def walk(self) -> Iterator[ShareNode]:
        """This node and everything below, parents first."""
        stack = [self]
        while stack:
            node = stack.pop()
            yield node
            stack.extend(node.children.values())

    def jobs(self) -> list[JobNode]:
        """The jobs among the children for which targets were solved."""
        return [leaf for equals in self.equal_jobs.values() for leaf in equals.members.values()]

    def walk_inner(self) -> Iterator[ShareNode]:
        """The same without jobs, in the same order: there may be very many jobs."""
        stack = [self]
        while stack:
            node = stack.pop()
            yield node
            stack.extend(node.branches.values())

    def __repr__(self) -> str:
        return f"ShareNode({self.path})"


class JobNode(ShareNode):
    """A job in the tree: its holdings, its demand, and what it would start next (its unit)."""

    __slots__ = (
        "_unit",
        "able",
        "after",
        "arrival",
        "ask",
        "at",
        "base",
        "before",
        "cohort",
        "counted_able",
        "counted_owed",
        "demand",
        "equals",
        "gang",
        "head",
        "head_held",
        "head_room",
        "integer_line",
        "integer_task_counts",
        "integer_tasks",
        "job",
        "line",
        "owed_starts",
        "path_tasks",
        "rank_class",
        "run",
        "started",
        "starts",
        "taken",
        "user",
        "user_held",
        "waiting_line",
    )

    def __init__(self, job: Job, parent: ShareNode, width: int) -> None:
        super().__init__(NodeKind.JOB, job.key, parent, width)
        self.job = job
        self.user = ""  # owner of the job (docs/fairness.md, section 8.4)
        # The user's holdings in this queue, shared by all the user's jobs there; None where users are not limited.
        self.user_held: defaultdict[int, int] | None = None
        self._unit: Any = None  # see ``unit``
        self.arrival = 0  # when it began to wait for that unit: a number that grows from job to job
        self.waiting_line: WaitingLine | None = None  # the equal jobs among which it waits; None: by itself
        self.starts: list[int] = _NO_STARTS  # start times of the tasks it holds, ascending
        self.owed_starts: list[int] = _NO_STARTS  # those made while it was owed; the same list while all of them were
        self.before: tuple[int, ...] = ()  # keys of the plugins before the share in the tiers
        self.after: tuple[int, ...] = ()  # and after it
        self.rank_class: tuple[int, ...] = ()  # the permanent part of ``before``: the job's class in the target
        self.demand = NO_DEMAND
        self.path_tasks: tuple[Task, ...] = ()  # the tasks of its demand in that order; not kept if they are all equal
        self.started = False  # whether its gang has started
        self.gang = 1  # tasks it can start with (what is missing to its minimum counts from here)
        self.equals: EqualJobs | None = None  # the jobs that share its entitlement; None: no target was solved for it
        self.integer_tasks = 0  # the tasks of its integer target
        self.integer_task_counts: dict[Items, int] | None = None  # heterogeneous tasks, by kind (see ``task_rights``)
        self.base: list[int] = shared_zeros(width)  # the part of its integer target that its own entitlement covers
        self.integer_line: Line | None = None  # all of its units; None: its holdings or demand have changed
        self.cohort: Cohort | None = None  # see ``settled_passes``
        # The line from which units are handed out, and how many of each run are (shared); the first run with units
        # left, the run that the job offers in a pass, and the request of a unit of that run.
        self.line: Line = ()
        self.taken: list[int] = shared_zeros(0)
        self.run = 0
        self.at = 0
        self.head: Items = ()
        self.head_held = False
        self.head_room: Items = ()  # what a pass must have left: the head and, before a pending head, running units
        self.ask: Items | None = None  # the request of its unit; None: nothing it could start
        self.able = False  # whether it is a candidate: its unit can be placed now and no gate rejects it
        self.counted_able: Items | None = None
        self.counted_owed: Items | None = None

    @property
    def unit(self) -> Any:
        """What it would start next, an AllocationUnit; None: nothing."""
        return self._unit if self.waiting_line is None else self.waiting_line.unit

    @unit.setter
    def unit(self, unit: Any) -> None:
        self._unit = unit

    @property
    def placeable(self) -> bool:
        """Whether its unit may be placeable now and no gate rejects it."""
        return self.able if self.waiting_line is None else self.waiting_line.able

    @property
    def targets(self) -> tuple[float, ...]:
        """The tasks it is entitled to of each piece of its demand, real numbers; empty if no target was solved."""
        return self.equals.targets or () if self.equals is not None else ()

    @property
    def target(self) -> float:
        """The tasks it is entitled to, a real number."""
        return sum(self.targets[: len(self.demand.parts)])


def latest_start(node: ShareNode) -> int:
    """When a job below was last served: the latest start of a task that still runs there, 0 for none.

    Starts only raise it. When the latest task ends, the value is recomputed once, on demand: a task that ends is rarely
    the latest of a large subtree, so that is cheap.
    """
    if node.stale:
        if isinstance(node, JobNode):
            node.latest = node.starts[-1] if node.starts else 0
        else:
            node.latest = max(map(latest_start, node.children.values()), default=0)
        node.stale = False
    return node.latest


def latest_owed_start(node: ShareNode) -> int:
    """The same over starts made while owed: lent work does not count as a queue's turn."""
    if node.stale_owed:
        if isinstance(node, JobNode):
            node.latest_owed = node.owed_starts[-1] if node.owed_starts else 0
        else:
            node.latest_owed = max(map(latest_owed_start, node.children.values()), default=0)
        node.stale_owed = False
    return node.latest_owed
