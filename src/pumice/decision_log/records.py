"""The lines of a decision log: one JSON object each, whose first key ``is`` names its type.

::

    {"is":"log", ...}           first: the writer, the configuration, and how the engine starts
    {"is":"memory", ...}        the engine's checkpoint, if it replaces another engine
    {"is":"object", ...}        and the snapshot of the cluster: queues, nodes and the like,
    {"is":"job", ...}           jobs with their phase,
    {"is":"task", ...}          tasks with their node
    {"is":"resources", ...}     resources named for the first time: their positions in vectors
    {"is":"changed", ...}       events in the order the engine received them: an object was added or updated,
    {"is":"gone", ...}          or deleted,
    {"is":"happened", ...}      or a decision could not be executed
    {"is":"cycle", ...}         a cycle: its time, the targets if they were solved again, and the decisions
    {"is":"quiet", ...}         consecutive cycles without events and decisions

Each line ends with ``chain``, a hash over it and the line before (see ``line_chain``).

Amounts are integers in the units of ``model.resources``, over the resources named so far; times are microseconds; a
task's status is its number in ``TaskStatus``. Objects, events and decisions are written without the fields that equal
their defaults. So the text of a decision depends on the decision alone, and decisions are equal if their texts are.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import MISSING, Field, fields
from hashlib import blake2b
from typing import Any, TypeVar, get_args

import msgspec
from msgspec import Raw, Struct

from pumice.engine.checkpoint.engine_checkpoint import EngineCheckpoint
from pumice.engine.decisions import Decision
from pumice.engine.engine import Engine
from pumice.engine.events import Changed, Event, Gone
from pumice.engine.fairness.share_tree.share_node import NodeKind
from pumice.engine.preemption.cooldown import PreemptionCooldown
from pumice.engine.state.cluster_snapshot import AwaitedSuccessor, ClusterSnapshot, JobSnapshot, TaskSnapshot
from pumice.model.specs import Described, JobPhase, JobSpec, PodTerm, TaskSpec, TaskStatus

FORMAT = 4
"""The version of the format that is written: its lines are chained (see ``line_chain``)."""
READABLE = (3, FORMAT)
"""The versions that a reader supports. Lines of format 3 are the same without a chain."""

T = TypeVar("T")


class Record(Struct, tag_field="is"):
    """A line of the log."""


class Heading(Record, tag="log"):
    """The first line."""

    format: int
    pumice: str
    source: str  # name of the configuration
    config: str  # its text
    cooldown: PreemptionCooldown  # the cooldown, unless the configuration sets one
    resources: list[str]
    cycles: int = 0  # cycles run before this file
    began: int = 0
    standing: int = 0  # number of lines of the cluster snapshot
    machine: str = ""
    follows: str = ""  # the chain of the last line before this file; empty: it is the first, or the one before has none
    awaits: bool = False  # whether evicted tasks that are gone count until they have successors


class Memories(Record, tag="memory"):
    """The engine's checkpoint, and the pod terms and label keys seen so far, also of tasks that may be gone."""

    memory: EngineCheckpoint
    terms: tuple[PodTerm, ...] = ()
    label_keys: tuple[str, ...] = ()


class Object(Record, tag="object"):
    """An object that exists when the engine starts."""

    kind: str
    object: Raw


class AwaitedTask(Struct, omit_defaults=True):
    """An evicted task that is gone and has no successor; ``since``: the first cycle without it, null before that."""

    object: Raw
    since: int | None = None


class Job(Record, tag="job", omit_defaults=True):
    """A job that exists when the engine starts."""

    key: str
    object: Raw  # null if only its tasks are known
    phase: JobPhase
    whole: bool = False
    awaited: list[AwaitedTask] = []


class Task(Record, tag="task", omit_defaults=True):
    """A task that exists when the engine starts."""

    object: Raw
    status: TaskStatus = TaskStatus.PENDING
    node: str | None = None
    started: int = 0
    owed: bool = True
    evicted: bool = False
    cards: tuple[int, ...] = ()
    replaced: bool = False  # whether it terminates and has a successor


class Resources(Record, tag="resources"):
    """Resources named for the first time."""

    names: list[str]


class ObjectChanged(Record, tag="changed"):
    """An object was added or updated."""

    kind: str
    object: Raw


class ObjectGone(Record, tag="gone"):
    """An object was deleted."""

    kind: str
    key: str


class Happened(Record, tag="happened"):
    """Any other event."""

    event: str
    about: Raw


class Targets(Struct):
    """Solved targets: the queues whose entitlement changed, and a digest over all jobs."""

    entitled: dict[str, list[int]]
    jobs: str


class Ran(Record, tag="cycle"):
    """A cycle."""

    cycle: int
    now: int
    decisions: Raw
    targets: Targets | None = None


class Quiet(Record, tag="quiet"):
    """Idle cycles: the number and the time of the first, and for each further one the time since its predecessor.

    An idle cluster has one per second. With a line for each, idle cycles would push the decisions out of the log.
    """

    cycle: int
    now: int
    gaps: list[int] = msgspec.field(default_factory=list)

    def cycles(self) -> Iterator[Ran]:
        """The cycles as single records."""
        now = self.now
        yield Ran(self.cycle, now, NOTHING)
        for number, gap in enumerate(self.gaps, self.cycle + 1):
            now += gap
            yield Ran(number, now, NOTHING)


Line = Heading | Memories | Object | Job | Task | Resources | ObjectChanged | ObjectGone | Happened | Ran | Quiet

ENCODER = msgspec.json.Encoder()
NOTHING = Raw(b"[]")
"""The encoded empty list of decisions."""
_NULL = Raw(b"null")
_LINES: msgspec.json.Decoder[Line] = msgspec.json.Decoder(Line)


def read_line(text: bytes) -> Line:
    """Decode a line; raises msgspec.MsgspecError (or UnicodeDecodeError, a ValueError too) if it is invalid."""
    return _LINES.decode(text)


# ---- objects, events, decisions --------------------------------------------------------------------------------------


def _short(kind: type) -> str:
    """The name in the log: ``task`` for TaskSpec."""
    return kind.__name__.removesuffix("Spec").lower()


KINDS: dict[str, type[Described]] = {_short(kind): kind for kind in get_args(Described)}
EVENTS: dict[str, type[Event]] = {_short(kind): kind for kind in get_args(Event) if kind not in (Changed, Gone)}
_NAMES = {kind: _short(kind) for kind in (*get_args(Described), *get_args(Event), *get_args(Decision))}


_DECODERS: dict[type, msgspec.json.Decoder[Any]] = {
    kind: msgspec.json.Decoder(kind) for kind in (*KINDS.values(), *EVENTS.values())
}


def _decoded(kind: type[T], text: Raw) -> T:
    found: T = _DECODERS[kind].decode(text)
    return found


def _default(field: Field[Any]) -> object:
    return field.default_factory() if field.default_factory is not MISSING else field.default


_DEFAULTS = {kind: [(field.name, _default(field)) for field in fields(kind)] for kind in _NAMES}


def _said(described: Any) -> dict[str, object]:
    """The fields that differ from their defaults."""
    found = {}
    for name, default in _DEFAULTS[type(described)]:
        value = getattr(described, name)
        if value is not default and value != default:
            found[name] = value
    return found


def _raw(described: Any) -> Raw:
    return Raw(ENCODER.encode(_said(described)))


def event_record(event: Event) -> Record:
    """The line of an event."""
    if isinstance(event, Changed):
        return ObjectChanged(_NAMES[type(event.object)], _raw(event.object))
    if isinstance(event, Gone):
        return ObjectGone(_NAMES[event.kind], event.key)
    return Happened(_NAMES[type(event)], _raw(event))


def event_of(record: ObjectChanged | ObjectGone | Happened) -> Event:
    """The event of a line; raises as ``read_line`` does."""
    if isinstance(record, ObjectChanged):
        return Changed(_decoded(_known(record.kind, KINDS), record.object))
    if isinstance(record, ObjectGone):
        return Gone(_known(record.kind, KINDS), record.key)
    return _decoded(_known(record.event, EVENTS), record.about)


def _known(name: str, among: dict[str, T]) -> T:
    if name not in among:
        raise msgspec.ValidationError(f"{name!r} is not one of {', '.join(among)}")
    return among[name]


def decisions_text(decisions: Iterable[Decision]) -> bytes:
    """Encoded decisions, to compare and to write."""
    return ENCODER.encode([{"does": _NAMES[type(decision)], **_said(decision)} for decision in decisions])


# ---- snapshots -------------------------------------------------------------------------------------------------------


def standing_records(was: ClusterSnapshot) -> Iterator[Record]:
    """The lines of a cluster snapshot."""
    for described in was.objects:
        yield Object(_NAMES[type(described)], _raw(described))
    for job in was.jobs:
        awaited = [AwaitedTask(_raw(one.spec), one.since) for one in job.awaited]
        yield Job(job.key, _raw(job.spec) if job.spec is not None else _NULL, job.phase, job.whole, awaited)
    for task in was.tasks:
        placed = (task.status, task.node, task.started, task.owed, task.evicted, task.cards, task.replaced)
        yield Task(_raw(task.spec), *placed)


def standing_of(memories: Memories, records: Iterable[Object | Job | Task]) -> ClusterSnapshot:
    """The cluster snapshot of these lines."""
    objects: list[Described] = []
    jobs: list[JobSnapshot] = []
    tasks: list[TaskSnapshot] = []
    for each in records:
        match each:
            case Object(kind=kind, object=text):
                objects.append(_decoded(_known(kind, KINDS), text))
            case Job(object=text):
                spec = _decoded(JobSpec, text) if bytes(text) != bytes(_NULL) else None
                awaited = tuple(AwaitedSuccessor(_decoded(TaskSpec, one.object), one.since) for one in each.awaited)
                jobs.append(JobSnapshot(each.key, spec, each.phase, each.whole, awaited))
            case Task(object=text):
                placed = (each.status, each.node, each.started, each.owed, each.evicted, each.cards, each.replaced)
                tasks.append(TaskSnapshot(_decoded(TaskSpec, text), *placed))
    return ClusterSnapshot(tuple(objects), tuple(jobs), tuple(tasks), memories.terms, memories.label_keys)


# ---- targets ---------------------------------------------------------------------------------------------------------


class TargetsSeen:
    """Tracks an engine's targets, to record those that changed."""

    def __init__(self) -> None:
        self._solved = 0
        self._entitled: dict[str, list[int]] = {}
        self._jobs: dict[str, tuple[list[int], str]] = {}  # by job, its target and the text of it: most stay equal

    def look(self, engine: Engine) -> Targets | None:
        """The targets, if they were solved again since the last call."""
        if engine.context.changes.target_version == self._solved:
            return None
        self._solved = engine.context.changes.target_version
        queues = (node for node in engine.tree.root.walk_inner() if node.kind is NodeKind.QUEUE)
        found = {node.path: list(node.entitled) for node in queues}
        changed = {path: amounts for path, amounts in found.items() if self._entitled.get(path) != amounts}
        self._entitled = found
        # Each job's target in units of 2^-32 of a task: on that grid the result does not depend on the order of
        # summation.
        texts: dict[str, tuple[list[int], str]] = {}
        for name, leaf in engine.tree.jobs.items():
            known = self._jobs.get(name)
            texts[name] = (
                known if known is not None and known[0] == leaf.exact else (list(leaf.exact), repr((name, leaf.exact)))
            )
        self._jobs = texts
        jobs = f"[{', '.join(text for _, text in texts.values())}]"
        return Targets(changed, blake2b(jobs.encode(), digest_size=8).hexdigest())
