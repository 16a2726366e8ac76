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


class Owner(Enum):
    """What is known of an owner."""

    THERE = "there"
    GONE = "gone"
    WAITING = "waiting"  # being deleted, but not before its dependents
    UNKNOWN = "unknown"  # of a kind that is not served, or in another scope: nothing is concluded


@dataclass(frozen=True, slots=True)
class Keep:
    """The object stays as it is. ``again``: an owner could not be judged, look later."""

    again: bool = False


@dataclass(frozen=True, slots=True)
class Unlink:
    """The object stays, but loses these owners (uids)."""

    uids: frozenset[str]


@dataclass(frozen=True, slots=True)
class Delete:
    """The object goes. ``unblock``: first it stops holding up its owners, as it holds up itself in a circle."""

    propagation: str
    unblock: bool = False


def judge(
    owners: Iterable[tuple[str, Owner]],
    *,
    finalizers: Collection[str] = (),
    has_dependents: bool = False,
    in_circle: bool = False,
) -> Keep | Unlink | Delete:
    """What becomes of an object with these owners (uid, state). ``in_circle``: a dependent of it waits for it."""
    states: dict[Owner, set[str]] = {state: set() for state in Owner}
    for uid, state in owners:
        states[state].add(uid)
    if states[Owner.UNKNOWN]:
        return Keep(again=True)
    if states[Owner.THERE]:
        lost = states[Owner.GONE] | states[Owner.WAITING]
        return Unlink(frozenset(lost)) if lost else Keep()
    if states[Owner.WAITING]:
        return Delete("Foreground", unblock=in_circle) if has_dependents else Delete(_chosen(finalizers))
    return Delete(_chosen(finalizers)) if states[Owner.GONE] else Keep()


def _chosen(finalizers: Collection[str]) -> str:
    """How the object's own dependents are treated, if somebody has already said so."""
    if ORPHAN in finalizers:
        return "Orphan"
    return "Foreground" if FOREGROUND in finalizers else "Background"
