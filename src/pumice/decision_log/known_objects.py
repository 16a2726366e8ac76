"""The objects that a log has described, and what had changed when a scheduler was started anew.

A scheduler that starts lists the whole cluster. What it lists is compared with what the one before knew: the rest of
the log then reads as if nobody had been away.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from pumice.engine.events import BindFailed, Changed, Event, EvictFailed, Gone
from pumice.engine.state.cluster_snapshot import ClusterSnapshot
from pumice.model.specs import Described, JobSpec, TaskSpec, TaskStatus

Identity = tuple[type[Described], str]


class KnownObjects:
    """The objects as the events so far describe them, and decisions about tasks of which nothing was heard since."""

    def __init__(self) -> None:
        self._objects: dict[Identity, Described] = {}
        self._decided: dict[str, str] = {}  # by task, what was decided about it

    def begin(self, was: ClusterSnapshot) -> None:
        """A scheduler begins with these."""
        for described in described_objects(was):
            self._objects[_identity(described)] = described

    def told(self, event: Event) -> None:
        """An event came."""
        if isinstance(event, Changed):
            self._objects[_identity(event.object)] = event.object
            self._decided.pop(_identity(event.object)[1] if isinstance(event.object, TaskSpec) else "", None)
        elif isinstance(event, Gone):
            self._objects.pop((event.kind, event.key), None)
        elif isinstance(event, BindFailed | EvictFailed):
            self._decided.pop(event.task, None)

    def decided(self, decisions: Iterable[dict[str, Any]]) -> None:
        """Decisions were made."""
        for decision in decisions:
            if decision["does"] in ("bind", "evict"):
                self._decided[str(decision["task"])] = str(decision["does"])

    def seen_anew(self, listed: Iterable[Event]) -> Iterator[Event]:
        """What has happened since the last event, by the events with which another scheduler learned the cluster."""
        present: dict[Identity, Described] = {}
        for event in listed:
            if isinstance(event, Changed):
                present[_identity(event.object)] = event.object
            elif isinstance(event, Gone):
                present.pop((event.kind, event.key), None)
        before, decided = self._objects, self._decided
        self._objects, self._decided = present, {}
        for kind, key in sorted((one for one in before if one not in present), key=_place):
            yield Gone(kind, key)
        for task, does in decided.items():
            found = present.get((TaskSpec, task))
            if isinstance(found, TaskSpec) and does == "bind" and found.status is TaskStatus.PENDING:
                yield BindFailed(task)  # it was decided, and never carried out
            elif isinstance(found, TaskSpec) and does == "evict" and found.status.held:
                yield EvictFailed(task)
        for identity, described in present.items():
            if before.get(identity) != described:
                yield Changed(described)


def described_objects(was: ClusterSnapshot) -> Iterator[Described]:
    """All objects of a snapshot."""
    yield from was.objects
    yield from (job.spec for job in was.jobs if job.spec is not None)
    yield from (task.spec for task in was.tasks)


def _identity(described: Described) -> Identity:
    return type(described), str(getattr(described, "key", None) or getattr(described, "name", ""))


def _place(identity: Identity) -> int:
    """Tasks go before their jobs, and these before other objects."""
    kind, _ = identity
    return 0 if kind is TaskSpec else 1 if kind is JobSpec else 2
