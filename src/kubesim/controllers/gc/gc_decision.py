"""The decision of the garbage collector: whether an object stays, given the state of its owners. Pure.

An owner is identified by kind, name and uid; an object of the same name with another uid is a different one. An object
is deleted when none of its owners is left, and stays while one exists that does not wait for its own dependents.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from enum import Enum

ORPHAN = "orphan"
FOREGROUND = "foregroundDeletion"


class OwnerState(Enum):
    """The state of an owner."""

    THERE = "there"
    GONE = "gone"
    WAITING = "waiting"  # being deleted, but not before its dependents
    UNKNOWN = "unknown"  # of a kind that is not served, or in another scope: nothing is concluded


@dataclass(frozen=True, slots=True)
class KeepObject:
    """Keep the object. ``again``: the state of an owner is unknown, so decide again later."""

    again: bool = False


@dataclass(frozen=True, slots=True)
class RemoveOwnerRefs:
    """Keep the object, but remove its references to these owners (uids)."""

    uids: frozenset[str]


@dataclass(frozen=True, slots=True)
class DeleteObject:
    """Delete the object. ``unblock``: first unset blockOwnerDeletion, because the owners form a cycle."""

    propagation: str
    unblock: bool = False


def decide(
    owners: Iterable[tuple[str, OwnerState]],
    *,
    finalizers: Collection[str] = (),
    has_dependents: bool = False,
    in_circle: bool = False,
) -> KeepObject | RemoveOwnerRefs | DeleteObject:
    """Decide about an object with these owners (uid, state). ``in_circle``: one of its dependents waits for it."""
    states: dict[OwnerState, set[str]] = {state: set() for state in OwnerState}
    for uid, state in owners:
        states[state].add(uid)
    if states[OwnerState.UNKNOWN]:
        return KeepObject(again=True)
    if states[OwnerState.THERE]:
        lost = states[OwnerState.GONE] | states[OwnerState.WAITING]
        return RemoveOwnerRefs(frozenset(lost)) if lost else KeepObject()
    if states[OwnerState.WAITING]:
        return (
            DeleteObject("Foreground", unblock=in_circle)
            if has_dependents
            else DeleteObject(_propagation_policy(finalizers))
        )
    return DeleteObject(_propagation_policy(finalizers)) if states[OwnerState.GONE] else KeepObject()


def _propagation_policy(finalizers: Collection[str]) -> str:
    """The propagation policy for the object's own dependents, by its finalizers."""
    if ORPHAN in finalizers:
        return "Orphan"
    return "Foreground" if FOREGROUND in finalizers else "Background"
