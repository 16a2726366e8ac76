"""``spec.hierarchy`` becomes queues, level by level (fairness.md 4).

Each entry is a child: it gets its parent, its parameters as fields, and the part of the hierarchy below it. A
queue that exists already keeps what the hierarchy does not name. An entry that is taken out makes no queue any
more; its queue is closed, and goes when it is empty (see ``cluster``). A parameter that is taken out goes back to what
the queue's own manifest says, or to its default.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from pumice.model.hierarchy import entries_below, fields_of, taken_back
from pumice.model.objects import Queue


@dataclass(slots=True)
class Expansion:
    """The queues that hierarchies make, whose hierarchy each comes from, and what contradicts (by queue)."""

    queues: dict[str, Queue] = field(default_factory=dict)
    owner: dict[str, str] = field(default_factory=dict)
    conflicts: list[tuple[str, str]] = field(default_factory=list)


def expand(queues: Mapping[str, Queue]) -> Expansion:
    """Follow all hierarchies of these queues down."""
    found = Expansion()
    named = named_in(queues)
    level = [queue for queue in queues.values() if queue.hierarchy and queue.name not in named]
    done = set()
    while level:
        below: list[Queue] = []
        for parent in level:
            done.add(parent.name)
            below += _children(parent, queues, found)
        level = [child for child in below if child.hierarchy]
    for queue in queues.values():
        if queue.hierarchy and queue.name not in done and not found.conflicts:
            found.conflicts.append((queue.name, "goes round in a circle: a queue below it has it as a child"))
    return found


def _children(parent: Queue, queues: Mapping[str, Queue], found: Expansion) -> Iterator[Queue]:
    for i, entry in enumerate(parent.hierarchy, start=1):
        # Entries stand one after another in the file: so do their queues in age.
        child = queues.get(entry.name) or Queue(entry.name, created=parent.created + i)
        above = found.owner.get(entry.name, child.parent)
        if above is not None and above != parent.name:
            message = f"'{entry.name}' is below '{above}' already; take it out of one of the two"
            found.conflicts.append((parent.name, message))
            continue
        below = entry.hierarchy or child.hierarchy
        child = replace(child, parent=parent.name, hierarchy=below, **fields_of(entry))
        found.queues[child.name] = child
        found.owner[child.name] = parent.name
        yield child


def released(queue: Queue, queues: Mapping[str, Queue]) -> list[Queue]:
    """The queues below one without the hierarchy it gave them, so that another can take its place."""
    handed_down = {entry.name: entry.hierarchy for entry in entries_below(queue.hierarchy) if entry.hierarchy}
    return [
        replace(queues[name], hierarchy=())
        for name, below in handed_down.items()
        if name in queues and queues[name].hierarchy == below
    ]


def without_parameters(queue: Queue, queues: Mapping[str, Queue], written: Mapping[str, Queue]) -> list[Queue]:
    """The queues below one without the fields that its hierarchy gave them.

    ``written``: the queues that have manifests of their own, as these describe them.
    """
    named = (entry for entry in entries_below(queue.hierarchy) if entry.name in queues)
    return [taken_back(queues[entry.name], entry, written.get(entry.name)) for entry in named]


def named_in(queues: Mapping[str, Queue]) -> set[str]:
    """The queues that some hierarchy names, at any depth."""
    return {entry.name for queue in queues.values() for entry in entries_below(queue.hierarchy)}
