"""Expand ``spec.hierarchy`` into queues, level by level: the rules that admission, controllers and simulator share.

An entry of a hierarchy describes a child queue. Expansion sets the parent of the child, the fields that the parameters
of the entry give, and the hierarchy of the child if the entry has entries of its own. Fields that the entry does not
name stay as they are. A parameter that was removed from the entry resets its field, unless a user changed the field in
the meantime: then the user's value stays.

Admission and the simulator expand ``Queue`` objects. The queue controller writes Kubernetes objects and must preserve
fields it does not know, so it edits documents; this module also decides for it which fields to set and reset, and
whether an existing queue is the one that an entry means.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any, Final

from pumice.model.specs import ROOT, HierarchyEntry, Queue

NEWEST: Final = 2**62
"""Created after all existing queues: of two queues that contradict each other, the planned one loses."""

_FIELDS: Final = {
    "weight": "weight",
    "priority": "priority",
    "reclaimable": "reclaimable",
    "capability": "capability",
    "deserved": "deserved",
    "guarantee": "guarantee",
    "minUserLimitPercent": "min_user_limit_percent",
    "userLimitFactor": "user_limit_factor",
    "affinity": "affinity",
}
"""Parameters whose values the model keeps unchanged, with the name of the field of ``Queue``."""

SameValue = Callable[[str, Any, Any], bool]
"""Whether two values of the named field mean the same."""


def equal_values(_name: str, one: Any, other: Any) -> bool:
    """The comparison for values that are normalised already."""
    return bool(one == other)


# ---- entries -----------------------------------------------------------------------------------------------


def entry_fields(entry: HierarchyEntry) -> dict[str, Any]:
    """The fields of ``Queue`` that the parameters of an entry set, with their values."""
    given = dict(entry.parameters)
    found = {field: given[name] for name, field in _FIELDS.items() if name in given}
    if "dequeueStrategy" in given:
        found["fifo"] = given["dequeueStrategy"] == "fifo"
    return found


def nested_entries(entries: Iterable[HierarchyEntry]) -> Iterator[HierarchyEntry]:
    """These entries and all entries below them, parents first."""
    waiting = list(entries)[::-1]
    while waiting:
        entry = waiting.pop()
        yield entry
        waiting += reversed(entry.hierarchy)


def named_parents(queues: Iterable[Queue]) -> Iterator[tuple[str, str, str]]:
    """Every entry of every hierarchy: the queue it names, its parent there, and the queue whose hierarchy it is."""
    for queue in queues:
        if queue.hierarchy:
            yield from _named_parents(queue.hierarchy, queue.name, queue.name)


def _named_parents(entries: Iterable[HierarchyEntry], parent: str, owner: str) -> Iterator[tuple[str, str, str]]:
    for entry in entries:
        yield entry.name, parent, owner
        yield from _named_parents(entry.hierarchy, entry.name, owner)


def parents_by_hierarchy(queues: Iterable[Queue]) -> dict[str, tuple[str, str]]:
    """For every queue that a hierarchy names: its parent there, and the queue whose hierarchy it is."""
    found: dict[str, tuple[str, str]] = {}
    for name, parent, owner in named_parents(queues):
        found.setdefault(name, (parent, owner))
    return found


def is_elsewhere(path: str | None, parent: str | None, expected_parent: str) -> bool:
    """Whether an existing queue is not the child that an entry below ``expected_parent`` means.

    ``path`` is its hierarchy annotation, which puts it at a place of its own, and ``parent`` its ``spec.parent``.
    """
    return bool(path) or (parent or ROOT) != expected_parent


# ---- fields ------------------------------------------------------------------------------------------------


def fields_to_set(given: Mapping[str, Any], current: Mapping[str, Any], same: SameValue = equal_values) -> set[str]:
    """The fields that an entry gives and that the queue does not have yet, or has with another value."""
    return {name for name, value in given.items() if current.get(name) is None or not same(name, current[name], value)}


def fields_to_reset(
    previous: Mapping[str, Any],
    given: Mapping[str, Any],
    current: Mapping[str, Any],
    same: SameValue = equal_values,
) -> set[str]:
    """The fields that the entry gave before and gives no more; without those that were changed since then."""
    return {
        name
        for name, value in previous.items()
        if name not in given and name in current and same(name, current[name], value)
    }


def without_entry_fields(
    queue: Queue, entry: HierarchyEntry, given: Mapping[str, Any], own: Queue | None = None
) -> Queue:
    """A queue in which the fields that an entry gave and that are not ``given`` any more have their own values again.

    ``own``: the queue as its own manifest describes it, if it has one; otherwise fields go back to their defaults.
    """
    previous = entry_fields(entry)
    base = own or Queue(queue.name)
    reset = fields_to_reset(previous, given, {name: getattr(queue, name) for name in previous})
    return replace(queue, **{name: getattr(base, name) for name in reset})


# ---- expansion ---------------------------------------------------------------------------------------------


def expand_hierarchy(
    queue: Queue, existing: Mapping[str, Queue], previous: Mapping[str, HierarchyEntry]
) -> Iterator[Queue]:
    """The queues that the hierarchy of a queue creates or changes, parents first, as they will be.

    ``previous``: the entries that the hierarchy had until now, by name.
    """
    for entry in queue.hierarchy:
        child = existing.get(entry.name) or Queue(entry.name, created=NEWEST)
        given = entry_fields(entry)
        if entry.name in previous:
            child = without_entry_fields(child, previous[entry.name], given)
        child = replace(child, parent=queue.name, hierarchy=entry.hierarchy or child.hierarchy, **given)
        yield child
        yield from expand_hierarchy(replace(child, hierarchy=entry.hierarchy), existing, previous)


def expand_with_ages(queue: Queue, existing: Mapping[str, Queue]) -> Iterator[Queue]:
    """The same, where no API server gives new queues their age: siblings are created one after another."""
    made = {queue.name: queue}
    position: Counter[str] = Counter()
    for child in expand_hierarchy(queue, existing, {}):
        above = str(child.parent)
        position[above] += 1
        there = existing.get(child.name)
        made[child.name] = replace(child, created=there.created if there else made[above].created + position[above])
        yield made[child.name]


def planned_queues(queues: Mapping[str, Queue]) -> list[Queue]:
    """The queues that hierarchies name and that do not exist, as the queue controller will create them."""
    found: dict[str, Queue] = {}
    waiting = [(queue.name, queue.hierarchy) for queue in queues.values() if queue.hierarchy]
    while waiting:
        parent, entries = waiting.pop()
        for entry in entries:
            there = queues.get(entry.name)
            if there is not None and is_elsewhere(there.path, there.parent, parent):
                continue  # the queue controller reports the contradiction
            if there is None and entry.name not in found:
                found[entry.name] = replace(Queue(entry.name, NEWEST, parent=parent), **entry_fields(entry))
            if entry.hierarchy:
                waiting.append((entry.name, entry.hierarchy))
    return list(found.values())


# ---- undoing an expansion ----------------------------------------------------------------------------------


def without_given_hierarchies(queue: Queue, queues: Mapping[str, Queue]) -> list[Queue]:
    """The queues below one without the hierarchies that its own gave them, so that another can replace it."""
    given = {entry.name: entry.hierarchy for entry in nested_entries(queue.hierarchy) if entry.hierarchy}
    return [
        replace(queues[name], hierarchy=())
        for name, below in given.items()
        if name in queues and queues[name].hierarchy == below
    ]


def without_given_fields(queue: Queue, queues: Mapping[str, Queue], written: Mapping[str, Queue]) -> list[Queue]:
    """The queues below one without the fields that its hierarchy gave them.

    ``written``: the queues that have manifests of their own, as these describe them.
    """
    named = (entry for entry in nested_entries(queue.hierarchy) if entry.name in queues)
    return [without_entry_fields(queues[entry.name], entry, {}, written.get(entry.name)) for entry in named]
