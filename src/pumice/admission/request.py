"""What is asked for, what comes of it, and how an administrator set admission up."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

from pumice.kube.decode.convert import SCHEDULERS

Object = dict[str, Any]
"""An object as JSON has it."""

QUEUES: Final = "queues.scheduling.volcano.sh"
PODGROUPS: Final = "podgroups.scheduling.volcano.sh"
JOBS: Final = "jobs.batch.volcano.sh"
PODS: Final = "pods"
NODES: Final = "nodes"
NAMESPACES: Final = "namespaces"

CREATE: Final = "CREATE"
UPDATE: Final = "UPDATE"
DELETE: Final = "DELETE"
OPERATIONS: Final = (CREATE, UPDATE, DELETE)

QUEUE_FINALIZER: Final = "pumice.dev/queue"
"""Keeps a queue that is being deleted until the queue controller has deleted what is below it and in it."""


DEEPEST: Final = 200
"""Levels of queues below root that a served API takes where an administrator does not say how many.

Laying out a tree takes time with the square of its depth, and every write waits for it: with 2,000 levels most of a
second, with 200 a few milliseconds.
"""


@dataclass(frozen=True, slots=True)
class Settings:
    """What an administrator decides."""

    max_queue_depth: int | None = None
    """How many levels of queues there may be below root; None: any number."""
    schedulers: frozenset[str] = SCHEDULERS
    """Pods that name one of these are ours."""
    alone: bool = False
    """Whether no other scheduler works on this cluster: pods that name one will wait, and who made them should know."""
    default_scheduler: str = "pumice"
    """What the pods of a Job go by that names no scheduler."""
    job_plugins: frozenset[str] = frozenset({"env", "svc"})
    """Plugins of Jobs that have an effect here."""
    controllers: tuple[str, ...] = ("system:pumice", "system:serviceaccount:pumice-system:")
    """Users (or, with a colon at the end, how they begin) that act for others: no object is theirs, and whose it is
    they copy from one that was judged."""
    builders: tuple[str, ...] = ("system:kube-controller-manager", "system:serviceaccount:kube-system:")
    """The same of those who make pods from templates, in which anybody may have written anything: it does not count."""
    queue_finalizer: str = ""
    """What keeps a queue that is being deleted until its controller has seen to those below; empty: nothing.

    ``QUEUE_FINALIZER``, but only where that controller works: where nobody takes it away, no queue would ever go.
    """

    def acts_for_others(self, user: str) -> bool:
        """Whether a user is a controller that says for whom."""
        return _is_among(user, self.controllers)

    def builds_for_others(self, user: str) -> bool:
        """Whether a user is a controller that does not know for whom."""
        return _is_among(user, self.builders)


def _is_among(user: str, names: tuple[str, ...]) -> bool:
    return any(user.startswith(name) if name.endswith(":") else user == name for name in names)


def nobody(user: str) -> bool:
    """The right to act as nobody else."""
    return False


@dataclass(frozen=True, slots=True)
class Request:
    """A write that asks to be let in. ``new`` is None on DELETE, ``old`` on CREATE; neither may be changed."""

    operation: str
    resource: str
    new: Object | None
    old: Object | None = None
    user: str = ""
    may_impersonate: Callable[[str], bool] = nobody
    dry_run: bool = False
    moment: int = 0
    """When the API server received it, in microseconds since 1970; 0: unknown."""

    @property
    def object(self) -> Object:
        """What the request is about: as it will be or, when it is deleted, as it was."""
        found = self.old if self.new is None else self.new
        if found is None:
            raise ValueError(f"{self.operation} of nothing")
        return found

    @property
    def name(self) -> str:
        """The name of the object; empty where it is yet to be generated."""
        return str(metadata_of(self.object).get("name") or "")


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a write is not let in: what is wrong, where, and what would be right."""

    message: str
    field: str = ""

    def __str__(self) -> str:
        return f"{self.field}: {self.message}" if self.field else self.message


@dataclass(frozen=True, slots=True)
class Verdict:
    """What comes of a request. ``object`` is what is to be stored; None on DELETE."""

    object: Object | None
    refusals: list[Refusal] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)

    @property
    def allowed(self) -> bool:
        """Whether nothing speaks against it."""
        return not self.refusals

    @property
    def message(self) -> str:
        """Everything that speaks against it, in one line."""
        return "; ".join(str(refusal) for refusal in self.refusals)


def metadata_of(found: Object) -> Object:
    """An object's metadata; to be read only."""
    return found.get("metadata") or {}


def annotations_of(found: Object) -> Object:
    """An object's annotations; to be read only."""
    return metadata_of(found).get("annotations") or {}


def spec_of(found: Object) -> Object:
    """An object's spec; to be read only."""
    return found.get("spec") or {}


def annotate(new: Object, name: str, value: str | None) -> None:
    """Set an annotation on an object that is ours to edit, or (None) take it away."""
    about = new["metadata"]
    kept = {key: text for key, text in (about.get("annotations") or {}).items() if key != name}
    if value is not None:
        kept[name] = value
    if kept:
        about["annotations"] = kept
    else:
        about.pop("annotations", None)
