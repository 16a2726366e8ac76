"""``spec.hierarchy`` becomes queues, level by level (docs/fairness.md, section 4.3).

Which queues a hierarchy makes, and whether it may, is for admission to say. Here are their ages, and what a hierarchy
leaves behind when it is edited: an entry that is taken out makes no queue any more; its queue is closed, and goes when
it is empty (see ``cluster``). A parameter that is taken out goes back to what the queue's own manifest says, or to its
default.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from pumice.admission.tree import expanded, named_parents
from pumice.model.hierarchy import entries_below, taken_back
from pumice.model.objects import Queue


def grown(queue: Queue, existing: Mapping[str, Queue]) -> Iterator[Queue]:
    """The queues that the hierarchy of a queue makes or changes, parents first.

    Entries stand one after another in the file: so do the new queues in age.
    """
    made = {queue.name: queue}
    position: Counter[str] = Counter()
    for child in expanded(queue, existing, {}):
        above = str(child.parent)
        position[above] += 1
        there = existing.get(child.name)
        made[child.name] = replace(child, created=there.created if there else made[above].created + position[above])
        yield made[child.name]


def parents_by_hierarchy(queues: Iterable[Queue]) -> dict[str, tuple[str, str]]:
    """Of every queue that a hierarchy names: the parent it gives it, and whose hierarchy that is."""
    found: dict[str, tuple[str, str]] = {}
    for name, parent, owner in named_parents(queues):
        found.setdefault(name, (parent, owner))
    return found


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
    return {name for name, _, _ in named_parents(queues.values())}
