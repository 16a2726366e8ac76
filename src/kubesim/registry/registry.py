"""The registry of served resources.

A ``Resource`` holds everything that the verbs need to know about a kind: its names, schema, subresources and table
columns, and a ``Strategy`` for rules that no schema can express (the containers of a pod are immutable; a node keeps
the status it is created with). Built-in kinds are always registered; custom ones are added and removed with their
definitions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from kubesim.api import metadata
from kubesim.api.field_errors import FieldProblem
from kubesim.schema import Schema

Object = dict[str, Any]
"""An object as JSON has it."""

VERBS = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")


class Context(Protocol):
    """The context of a strategy: time, user, and other objects."""

    now: str  # RFC 3339, in seconds
    user: str
    warnings: list[str]  # for the client, beside the response

    def find(self, resource: str, namespace: str, name: str) -> Object | None:
        """Another object, by qualified resource (``priorityclasses.scheduling.k8s.io``); not to be changed."""

    def list(self, resource: str, namespace: str) -> Iterable[Object]:
        """All objects of a resource, in a namespace or (``""``) everywhere; not to be changed."""


class Strategy:
    """What a kind does beyond its schema. Hooks named ``on_`` may change ``new``; nothing may change ``old``.

    The order on a write is: types, pruning, defaults of the schema, ``on_*``, the schema's validation, ``check_*``.
    A hook may raise an ``ApiError`` of its own where kube-apiserver answers with something else than Invalid.
    """

    has_generation = False
    """Whether ``metadata.generation`` counts the changes outside of metadata and status."""

    counts_annotations = False
    """Whether it also counts those of annotations."""

    unconditional = True
    """Whether an update may leave out the resourceVersion it replaces."""

    creates_on_update = False
    """Whether an update of an object that is not there creates it."""

    returns_deleted = False
    """Whether a deletion that is done at once answers with the object instead of a Status."""

    name_faults = staticmethod(metadata.name_faults)
    """The problems of a name."""

    reads_cluster = False
    """Whether ``on_create`` and ``on_update`` look at other objects: then they run in the event loop."""

    def prepare(self, new: Object) -> None:
        """Before ``on_create`` and ``on_update``, beside other requests: complete what depends on the object alone."""

    def on_create(self, new: Object, context: Context) -> None:
        """Complete an object that is about to be created. A resource with a status subresource starts without."""

    def on_update(self, new: Object, old: Object, context: Context) -> None:
        """Complete an object before it replaces ``old`` (its status is already that of ``old``)."""

    def on_status(self, new: Object, old: Object, context: Context) -> None:
        """Complete a status before it replaces that of ``old`` (all the rest is already that of ``old``)."""

    def check(self, new: Object) -> Iterator[FieldProblem]:
        """The problems of an object, on create and on update."""
        yield from ()

    def check_update(self, new: Object, old: Object) -> Iterator[FieldProblem]:
        """The problems of a change, on update only."""
        yield from ()

    def check_status(self, new: Object, old: Object) -> Iterator[FieldProblem]:
        """The problems of a change of the status."""
        yield from ()

    def on_deletion(self, new: Object, context: Context) -> None:
        """Called when the deletion of an object has started and it is not removed yet."""

    def blocks_removal(self, old: Object) -> bool:
        """Whether something besides metadata.finalizers keeps an object that is being deleted."""
        return False

    def grace(self, old: Object, asked: int | None) -> int:
        """The grace period of a deletion in seconds; 0 removes the object at once."""
        return 0


Cell = str | int | float | bool | None


@dataclass(frozen=True, slots=True)
class TableColumn:
    """One column of a resource's table. Priority 0 is always shown, 1 with ``-o wide``."""

    name: str
    value: Callable[[Object], Cell]
    type: str = "string"
    format: str = ""
    priority: int = 0
    description: str = ""


Path = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ScalePaths:
    """Where a resource has what its ``scale`` shows: how many are wanted, how many there are, and how to find them."""

    wanted: Path = ("spec", "replicas")
    there: Path = ("status", "replicas")
    selector: Path | None = None
    selects_labels: bool = False
    """Whether the selector is a map of labels, as ReplicationControllers have it."""


@dataclass(frozen=True, slots=True, eq=False)
class Resource:
    """One resource in one version."""

    group: str
    version: str
    plural: str
    kind: str
    namespaced: bool
    schema: Schema
    strategy: Strategy = field(default_factory=Strategy)
    columns: tuple[TableColumn, ...] = ()
    singular: str = ""
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    subresources: frozenset[str] = frozenset()
    verbs: tuple[str, ...] = VERBS
    fields: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Selectable fields beside metadata.name and metadata.namespace, with their paths."""
    own_list_kind: str = ""
    scale: ScalePaths | None = None
    deprecation: str = ""
    """The warning for clients that use this version."""
    refused_subresources: Mapping[str, str] = field(default_factory=dict)
    """Subresources of kube-apiserver that cannot work here, with what the client is told."""
    derived_from: str = ""
    """The stored resource from which its objects are computed; they are not stored themselves."""
    custom: bool = False
    """Whether a CustomResourceDefinition brought it. Only built-in kinds take strategic merge patches."""

    @property
    def api_version(self) -> str:
        """``v1``, or ``scheduling.volcano.sh/v1beta1``."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def qualified(self) -> str:
        """``pods``, or ``queues.scheduling.volcano.sh``: the resource without version, and its key prefix."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    @property
    def list_kind(self) -> str:
        """The kind of a list of these."""
        return self.own_list_kind or f"{self.kind}List"

    def key(self, namespace: str, name: str) -> str:
        """Where an object is stored: ``pods/default/web-0``, ``nodes/n1``."""
        return f"{self.qualified}/{namespace}/{name}" if self.namespaced else f"{self.qualified}/{name}"

    def prefix(self, namespace: str = "") -> str:
        """Where all of them are stored, or those of one namespace."""
        return f"{self.qualified}/{namespace}/" if namespace else f"{self.qualified}/"


class ResourceRegistry:
    """The served resources. ``version`` increases with every change, to invalidate caches."""

    def __init__(self, resources: Iterable[Resource]) -> None:
        self._served: dict[tuple[str, str, str], Resource] = {}
        self._stored: dict[str, Resource] = {}
        self.version = 0
        for resource in resources:
            self.add(resource)

    def add(self, resource: Resource, *, stored: bool = True) -> None:
        """Serve a resource from now on, in place of an earlier one of the same names."""
        self._served[resource.group, resource.version, resource.plural] = resource
        if stored:
            self._stored[resource.qualified] = resource
        self.version += 1

    def remove(self, qualified: str) -> None:
        """Serve a resource no longer, in any version."""
        self._stored.pop(qualified, None)
        for place in [place for place, resource in self._served.items() if resource.qualified == qualified]:
            del self._served[place]
        self.version += 1

    def find(self, group: str, version: str, plural: str) -> Resource | None:
        """The resource behind ``/apis/GROUP/VERSION/PLURAL``."""
        return self._served.get((group, version, plural))

    def stored(self, qualified: str) -> Resource | None:
        """A resource in the version in which it is stored, by qualified name (``pods``, ``jobs.batch``)."""
        return self._stored.get(qualified)

    def of_kind(self, api_version: str, kind: str) -> Resource | None:
        """The resource of a kind, as an owner reference names it."""
        group, _, version = api_version.rpartition("/")
        matches = (r for r in self._served.values() if r.group == group and r.version == version and r.kind == kind)
        return next(matches, None)

    def __iter__(self) -> Iterator[Resource]:
        return iter([*self._served.values()])  # of this moment: it may change while another thread goes on
