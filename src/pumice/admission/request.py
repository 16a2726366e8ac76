"""Admission requests, their verdicts, and the administrator's settings."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Final

from pumice.kube.decode.convert import SCHEDULERS

Object = dict[str, Any]
"""A JSON object."""

QUEUES: Final = "queues.scheduling.volcano.sh"
PODGROUPS: Final = "podgroups.scheduling.volcano.sh"
JOBS: Final = "jobs.batch.volcano.sh"
CRON_JOBS: Final = "cronjobs.batch.volcano.sh"
JOB_TEMPLATES: Final = "jobtemplates.flow.volcano.sh"
JOB_FLOWS: Final = "jobflows.flow.volcano.sh"
PODS: Final = "pods"
NODES: Final = "nodes"
HYPER_NODES: Final = "hypernodes.topology.volcano.sh"
NAMESPACES: Final = "namespaces"

CREATE: Final = "CREATE"
UPDATE: Final = "UPDATE"
DELETE: Final = "DELETE"
OPERATIONS: Final = (CREATE, UPDATE, DELETE)

QUEUE_FINALIZER: Final = "pumice.dev/queue"
"""Keeps a terminating queue until the queue controller has deleted everything in it and below it."""


DEEPEST: Final = 200
"""Default limit on the levels of queues below root in a served API.

Building a tree is quadratic in its depth, and every write waits for it: with 2,000 levels most of a second, with 200 a
few milliseconds.
"""


@dataclass(frozen=True, slots=True)
class Settings:
    """The administrator's settings."""

    max_queue_depth: int | None = None
    """Maximum number of levels of queues below root; None: unlimited."""
    schedulers: frozenset[str] = SCHEDULERS
    """Pods with one of these scheduler names are ours."""
    alone: bool = False
    """Whether no other scheduler runs in this cluster: creating a pod that names one yields a warning."""
    default_scheduler: str = "pumice"
    """The scheduler name for the pods of a Job that names none."""
    controllers: tuple[str, ...] = ("system:pumice", "system:serviceaccount:pumice-system:")
    """Users (or, with a trailing colon, prefixes) that act for others: they own no objects, and copy the user
    from an object that was verified.
    """
    builders: tuple[str, ...] = ("system:kube-controller-manager", "system:serviceaccount:kube-system:")
    """The same for users that create pods from templates, whose user annotation is unverified: it is ignored."""
    queue_finalizer: str = ""
    """The finalizer of queues, which delays a deletion until the controller is done; empty: none.

    ``QUEUE_FINALIZER``, but only where that controller runs: otherwise no queue could ever be deleted.
    """

    def acts_for_others(self, user: str) -> bool:
        """Whether a user is a controller that states for whom it acts."""
        return _is_among(user, self.controllers)

    def builds_for_others(self, user: str) -> bool:
        """Whether a user is a controller that does not know for whom it acts."""
        return _is_among(user, self.builders)


@lru_cache(maxsize=256)
def _is_among(user: str, names: tuple[str, ...]) -> bool:
    return any(user.startswith(name) if name.endswith(":") else user == name for name in names)


def impersonate_nobody(user: str) -> bool:
    """Impersonation check that allows no other user."""
    return False


@dataclass(frozen=True, slots=True)
class Request:
    """A write under review. ``new`` is None on DELETE, ``old`` on CREATE; both are read-only."""

    operation: str
    resource: str
    new: Object | None
    old: Object | None = None
    user: str = ""
    may_impersonate: Callable[[str], bool] = impersonate_nobody
    dry_run: bool = False
    moment: int = 0
    """When the API server received it, in microseconds since 1970; 0: unknown."""

    def with_defaults(self, new: Object) -> Request:
        """The same request with a new object that has its defaults."""
        return Request(
            self.operation,
            self.resource,
            new,
            self.old,
            self.user,
            self.may_impersonate,
            self.dry_run,
            self.moment,
        )

    @property
    def object(self) -> Object:
        """The object of the request: the new one or, on DELETE, the old one."""
        found = self.old if self.new is None else self.new
        if found is None:
            raise ValueError(f"{self.operation} of nothing")
        return found

    @property
    def name(self) -> str:
        """The name of the object; empty if it is to be generated."""
        return str(metadata_of(self.object).get("name") or "")


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a write is rejected: the error, the field, and a valid alternative."""

    message: str
    field: str = ""

    def __str__(self) -> str:
        return f"{self.field}: {self.message}" if self.field else self.message


@dataclass(frozen=True, slots=True)
class Verdict:
    """The result of a request. ``object`` is to be stored; None on DELETE."""

    object: Object | None
    refusals: list[Refusal] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)

    @property
    def allowed(self) -> bool:
        """Whether there are no refusals."""
        return not self.refusals

    @property
    def message(self) -> str:
        """All refusals, in one line."""
        return "; ".join(str(refusal) for refusal in self.refusals)


def metadata_of(found: Object) -> Object:
    """An object's metadata; read-only."""
    return found.get("metadata") or {}


def annotations_of(found: Object) -> Object:
    """An object's annotations; read-only."""
    return metadata_of(found).get("annotations") or {}


def spec_of(found: Object) -> Object:
    """An object's spec; read-only."""
    return found.get("spec") or {}


def annotate(new: Object, name: str, value: str | None) -> None:
    """Set an annotation on an object that the caller may edit, or (None) remove it."""
    about = new["metadata"]
    kept = {key: text for key, text in (about.get("annotations") or {}).items() if key != name}
    if value is not None:
        kept[name] = value
    if kept:
        about["annotations"] = kept
    else:
        about.pop("annotations", None)
