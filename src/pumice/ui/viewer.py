"""What one viewer may see."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ViewerScope:
    """The rights of a viewer. Viewers with the same rights share their documents."""

    queues: bool = True
    nodes: bool = True
    namespaces: frozenset[str] | None = None
    """The namespaces whose pods and podgroups the viewer may read; None: all."""

    def reads(self, namespace: str) -> bool:
        """Whether the viewer may read the objects of a namespace."""
        return self.namespaces is None or namespace in self.namespaces

    def reads_key(self, key: str) -> bool:
        """Whether the viewer may read the object with the key ``namespace/name``."""
        return self.reads(key.partition("/")[0])

    @property
    def unrestricted(self) -> bool:
        """Whether the viewer may see everything."""
        return self == EVERYTHING

    def listed(self) -> Collection[str] | None:
        """The readable namespaces in order; None: all."""
        return None if self.namespaces is None else sorted(self.namespaces)


EVERYTHING = ViewerScope()


@dataclass(frozen=True, slots=True)
class Viewer:
    """A viewer by name, if it has one, and what it may see."""

    name: str | None
    authentication: str
    scope: ViewerScope = EVERYTHING
