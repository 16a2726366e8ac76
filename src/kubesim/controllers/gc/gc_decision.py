"""Whether an object may stay, seen from its owners: the decision of the garbage collector.

An owner is named by kind, name and uid; one of the same name with another uid is a stranger. An object goes when
none of its owners is left, and stays as long as one is there that is not itself waiting for its dependents to go.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from enum import Enum

ORPHAN = "orphan"
FOREGROUND = "foregroundDeletion"


class OwnerState(Enum):
    """What is known of an owner."""

    THERE = "there"
    GONE = "gone"
    WAITING = "waiting"  # being deleted, but not before its dependents
    UNKNOWN = "unknown"  # of a kind that is not served, or in another scope: nothing is concluded


@dataclass(frozen=True, slots=True)
class KeepObject:
    """The object stays as it is. ``again``: an owner could not be judged, look later."""

    again: bool = False


@dataclass(frozen=True, slots=True)
class RemoveOwnerRefs:
    """The object stays, but loses these owners (uids)."""

    uids: frozenset[str]


@dataclass(frozen=True, slots=True)
class DeleteObject:
    """The object goes. ``unblock``: first it stops holding up its owners, as it holds up itself in a circle."""

    propagation: str
    unblock: bool = False


def decide(
    owners: Iterable[tuple[str, OwnerState]],
    *,
    finalizers: Collection[str] = (),
    has_dependents: bool = False,
    in_circle: bool = False,
) -> KeepObject | RemoveOwnerRefs | DeleteObject:
    """What becomes of an object with these owners (uid, state). ``in_circle``: a dependent of it waits for it."""
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
    """How the object's own dependents are treated, if somebody has already said so."""
    if ORPHAN in finalizers:
        return "Orphan"
    return "Foreground" if FOREGROUND in finalizers else "Background"
