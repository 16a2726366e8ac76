"""The lines of a decision log as the audit reads them: declared anew, so that it depends on the format alone.

See ``pumice.decision_log.records`` for the lines that are written.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import msgspec
from msgspec import Raw, Struct

from pumice.model.hyper_nodes import HyperNode
from pumice.model.specs import (
    Described,
    DisruptionBudget,
    JobPhase,
    JobSpec,
    NodeSpec,
    PriorityClass,
    Queue,
    Quota,
    TaskSpec,
    TaskStatus,
)

FORMATS = (3, 4)
"""The formats that can be read. Lines of format 3 have no hashes."""


class Line(Struct, tag_field="is"):
    """A line of the log."""


class Cooldown(Struct):
    """The brakes of a scheduler whose configuration sets none, in microseconds."""

    patience: int = 0
    min_runtime: int = 0


class HeadingLine(Line, tag="log"):
    """The first line of a file."""

    format: int
    pumice: str
    config: str
    resources: list[str]
    cooldown: Cooldown = msgspec.field(default_factory=Cooldown)
    source: str = ""
    cycles: int = 0
    began: int = 0
    standing: int = 0
    follows: str = ""
    awaits: bool = False  # whether evicted tasks that are gone count until they have successors


class MemoryLine(Line, tag="memory"):
    """What the engine remembers. Of it the audit uses whether pods were ever seen that keep others away (``terms``)."""

    terms: list[Raw] = []


class ObjectLine(Line, tag="object"):
    """An object that exists at the beginning of the file."""

    kind: str
    object: Raw


class AwaitedLine(Struct):
    """An evicted task that is gone and has no successor; ``since``: the first cycle without it, null before that."""

    object: Raw
    since: int | None = None


class JobLine(Line, tag="job"):
    """A job that exists at the beginning of the file; ``object`` is null if only its tasks are known."""

    key: str
    object: Raw
    phase: JobPhase
    awaited: list[AwaitedLine] = []


class TaskLine(Line, tag="task"):
    """A task that exists at the beginning of the file."""

    object: Raw
    status: TaskStatus = TaskStatus.PENDING
    node: str | None = None
    started: int = 0
    evicted: bool = False
    replaced: bool = False


class ResourcesLine(Line, tag="resources"):
    """Resources named for the first time."""

    names: list[str]


class ChangedLine(Line, tag="changed"):
    """An object was added or updated."""

    kind: str
    object: Raw


class GoneLine(Line, tag="gone"):
    """An object was deleted."""

    kind: str
    key: str


class FailedTask(Struct):
    """The task of a decision that could not be executed."""

    task: str


class HappenedLine(Line, tag="happened"):
    """A decision could not be executed: ``bindfailed`` or ``evictfailed``."""

    event: str
    about: FailedTask


class Decision(Struct, omit_defaults=True):
    """A decision: ``does`` is enqueue, bind, pipeline, evict, condition or queuecondition."""

    does: str
    job: str = ""
    task: str = ""
    node: str = ""
    preemptor: str = ""
    action: str = ""
    reason: str = ""
    message: str = ""


class TargetsSolved(Struct):
    """The queues whose entitlement changed."""

    entitled: dict[str, list[int]]


class CycleLine(Line, tag="cycle"):
    """A cycle and its decisions."""

    cycle: int
    now: int
    decisions: list[Decision]
    targets: TargetsSolved | None = None


class QuietLine(Line, tag="quiet"):
    """Cycles in which nothing happened."""

    cycle: int
    now: int
    gaps: list[int] = []


AnyLine = (
    HeadingLine
    | MemoryLine
    | ObjectLine
    | JobLine
    | TaskLine
    | ResourcesLine
    | ChangedLine
    | GoneLine
    | HappenedLine
    | CycleLine
    | QuietLine
)
EventLine = ChangedLine | GoneLine | HappenedLine

KINDS: dict[str, type[Described]] = {
    "node": NodeSpec,
    "hypernode": HyperNode,
    "queue": Queue,
    "quota": Quota,
    "priorityclass": PriorityClass,
    "disruptionbudget": DisruptionBudget,
    "job": JobSpec,
    "task": TaskSpec,
}
_OBJECTS: dict[str, msgspec.json.Decoder[Any]] = {name: msgspec.json.Decoder(kind) for name, kind in KINDS.items()}
_LINES: msgspec.json.Decoder[AnyLine] = msgspec.json.Decoder(AnyLine)


def read_line(text: bytes) -> AnyLine:
    """Decode a line; raises msgspec.MsgspecError or UnicodeDecodeError if it is invalid."""
    return _LINES.decode(text)


def read_object(kind: str, text: Raw) -> Any:
    """The object of a line; None for null. Raises msgspec.MsgspecError."""
    if kind not in _OBJECTS:
        raise msgspec.ValidationError(f"{kind!r} is not one of {', '.join(_OBJECTS)}")
    described = None if bytes(text) == b"null" else _OBJECTS[kind].decode(text)
    return _trimmed(described) if isinstance(described, TaskSpec) else described


def _trimmed(spec: TaskSpec) -> TaskSpec:
    """The task with a request that ends with an amount: pods name as many resources as were known when they came."""
    request = spec.request
    end = len(request)
    while end and not request[end - 1]:
        end -= 1
    return spec if end == len(request) else replace(spec, request=request[:end])
