"""Rules about the place of a queue: one function per rule."""

from __future__ import annotations

import re
from collections.abc import Iterator

from kubebase.resource_vector import PODS
from pumice.admission.queues.queue_change import QueueChange, too_deep
from pumice.admission.request import Refusal
from pumice.model.queue_expansion import named_parents
from pumice.model.queue_tree import HIERARCHY
from pumice.model.root_queue import fields_without_effect
from pumice.model.specs import ROOT

PARENT = "spec.parent"
PATH = f"metadata.annotations[{HIERARCHY}]"
SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
NAMES_SHOWN = 5


def root_has_no_place(change: QueueChange) -> Iterator[Refusal]:
    """Root stands for the cluster, so it has no parent."""
    if change.name == ROOT and change.queue.parent is not None:
        yield Refusal("Forbidden: queue 'root' stands for the cluster and has no parent; remove the field", PARENT)
    if change.name == ROOT and change.queue.path is not None:
        yield Refusal("Forbidden: queue 'root' stands for the cluster and has no path; remove the annotation", PATH)


def root_says_what_counts(change: QueueChange) -> Iterator[Refusal]:
    """Root has no fields without effect; those it had before this rule may stay."""
    if change.name == ROOT:
        for field, message in fields_without_effect(change.queue, change.old):
            yield Refusal(message, field)


def not_its_own_parent(change: QueueChange) -> Iterator[Refusal]:
    """A queue is not its own parent."""
    if change.queue.parent == change.name != ROOT:
        yield Refusal(
            f"Invalid value: '{change.name}': a queue may not be its own parent; use another queue, or 'root'", PARENT
        )


def has_a_place(change: QueueChange) -> Iterator[Refusal]:
    """The parent exists, there is no cycle, and no path contradicts a parent or another path."""
    if change.queue.parent == change.name:
        return
    before, after = change.before.refusals(), change.after.refusals()
    mine = [queue.name for queue in change.touched if queue.name in after]
    for name in mine:
        yield Refusal(_about(name, change, after[name].message), after[name].field)
    if not mine:
        for name in sorted(after.keys() - before.keys()):
            yield Refusal(_about(name, change, after[name].message), after[name].field)


def _about(name: str, change: QueueChange, message: str) -> str:
    return message if name == change.name else f"queue '{name}': {message}"


def not_below_a_leaving_queue(change: QueueChange) -> Iterator[Refusal]:
    """A terminating queue gets no new children."""
    for queue in change.after.above(change.name):
        if change.world.is_leaving(queue.name) and _moved(change):
            yield Refusal(
                f"Forbidden: queue '{queue.name}' is being deleted; wait until it is gone, or use another parent",
                PARENT,
            )


def not_below_jobs(change: QueueChange) -> Iterator[Refusal]:
    """A queue with jobs, pending ones included, gets no child queues: only leaves have jobs."""
    above = {queue.name for queue in change.after.above(change.name)}
    for name in change.new_parents():
        where = "spec.hierarchy" if name not in above else PATH if change.queue.path else PARENT
        jobs = change.world.unfinished(name)
        if jobs:
            yield Refusal(
                (
                    f"Forbidden: queue '{name}' has unfinished jobs ({some(jobs)}), and only leaf queues "
                    "may have jobs; wait until they finish, or use another parent"
                ),
                where,
            )
        elif pods := _pods(change, name):
            yield Refusal(
                (
                    f"Forbidden: queue '{name}' has {pods} running, and only leaf queues may have jobs; "
                    "wait until they finish, or use another parent"
                ),
                where,
            )


def stays_while_it_has_jobs(change: QueueChange) -> Iterator[Refusal]:
    """A queue does not move while there are jobs in it or below it: the usage of its ancestors stays consistent."""
    if change.before.path(change.name) is None or not _moved(change):
        return
    for name in (change.name, *change.before.below(change.name)):
        jobs = change.world.unfinished(name)
        if jobs:
            where = PARENT if change.old and change.queue.parent != change.old.parent else PATH
            message = (
                f"Forbidden: queue '{name}' has unfinished jobs ({some(jobs)}) and cannot move; wait until "
                "they finish, or close the queue first"
            )
            yield Refusal(message, where)


def hierarchies_agree(change: QueueChange) -> Iterator[Refusal]:
    """A queue that a hierarchy names is where that names it, and nowhere else."""
    own = {queue.name: queue.parent for queue in change.touched[1:]}
    for name, parent in own.items():
        there = change.before.queues.get(name)
        if there is not None and (there.path is not None or (there.parent or ROOT) != parent):
            stands = there.path or f"a child of '{there.parent or ROOT}'"
            yield Refusal(
                (
                    f"Invalid value: '{name}': would be a child of '{parent}', but queue '{name}' exists "
                    f"already as {stands}; rename one of them"
                ),
                "spec.hierarchy",
            )
    if _moved(change) or own:
        parents = {change.name: change.queue.parent or ROOT} | own
        for name, parent, owner in named_parents(change.before.queues.values()):
            if name in parents and parents[name] != parent and owner != change.name:
                message = (
                    f"Forbidden: the hierarchy of queue '{owner}' names '{name}' as a child of '{parent}'; "
                    "remove that entry first"
                )
                yield Refusal(message, PARENT if name == change.name else "spec.hierarchy")


def hierarchy_names(change: QueueChange) -> Iterator[Refusal]:
    """Every entry of a hierarchy becomes an object, so its name must be valid."""
    for queue in change.touched[1:]:
        if not SUBDOMAIN.fullmatch(queue.name) or len(queue.name) > 253:
            message = (
                f"Invalid value: '{queue.name[:60]}': a queue name must consist of lower case letters, "
                "digits, '-' or '.'"
            )
            yield Refusal(message, "spec.hierarchy")


def within_depth(change: QueueChange) -> Iterator[Refusal]:
    """The tree is at most as deep below root as configured."""
    most = change.world.settings.max_queue_depth
    if most is None:
        return
    for name in dict.fromkeys([*(queue.name for queue in change.touched), *change.after.below(change.name)]):
        path, was = change.after.path(name), change.before.path(name)
        if path is not None and len(path) - 1 > most and path != was:
            named = name != change.name and any(queue.name == name for queue in change.touched)
            where = PATH if change.queue.path is not None else "spec.hierarchy" if named else PARENT
            yield Refusal(too_deep("/".join(path), len(path) - 1, most), where)


def _moved(change: QueueChange) -> bool:
    return change.before.path(change.name) != change.after.path(change.name)


def _pods(change: QueueChange, name: str) -> str:
    """The number of pods in a queue's usage, for messages; empty if none."""
    held = change.world.allocated(name)
    pods = held[PODS] if len(held) > PODS else 0
    return f"{pods} pod{'s' if pods > 1 else ''}" if pods else ""


def some(names: list[str]) -> str:
    """The first few names, so that a message stays short."""
    more = len(names) - NAMES_SHOWN
    return ", ".join(names[:NAMES_SHOWN]) + (f" and {more} more" if more > 0 else "")


RULES = (
    root_has_no_place,
    root_says_what_counts,
    not_its_own_parent,
    has_a_place,
    not_below_a_leaving_queue,
    not_below_jobs,
    stays_while_it_has_jobs,
    hierarchies_agree,
    hierarchy_names,
    within_depth,
)
