"""Diagnoses of unknown names in the configuration, with a suggestion.

A name is known; or Volcano has it and this version does not (reporting that saves the user the search for a typo); or
it is unknown.
"""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterable
from enum import Enum

from pumice.engine.config.enable_flags import Flag


class Kind(Enum):
    """What kind of thing a name denotes."""

    ACTION = "action"
    PLUGIN = "plugin"


_VOLCANO = {
    Kind.ACTION: "allocate backfill elect enqueue gangpreempt gangreclaim preempt reclaim reserve shuffle",
    Kind.PLUGIN: """
        binpack capacity cdp conformance deviceshare drf extender gang network-topology-aware nodegroup
        nodeorder numa-aware overcommit pdb predicates priority proportion rescheduling reservation
        resource-strategy-fit resourcequota sla task-topology tdm usage
        """,
}


def problem_with_name(kind: Kind, name: str, known: Collection[str]) -> str | None:
    """Why an action or plugin of this name cannot be used, and which can; None for a known one."""
    if name in known:
        return None
    if name in _VOLCANO[kind].split():
        problem = f'{kind.value} "{name}" is not part of this version'
    else:
        problem = f'unknown {kind.value} "{name}"{did_you_mean(name, known)}'
    return f"{problem}; known {kind.value}s: {listed(sorted(known))}"


def problem_with_option(key: str) -> str:
    """Why a key of a plugin's entry that is no flag cannot be used, and which can."""
    flags = [flag.value for flag in Flag]
    if key.lower().startswith("enable"):
        suggestion = did_you_mean(key, flags)
        return f'unknown flag "{key}"' + (suggestion or f"; the flags are {listed(flags)}")
    suggestion = did_you_mean(key, ["name", "arguments", *flags])
    return f'unknown key "{key}"{suggestion}; what is meant for the plugin itself goes under its arguments'


def did_you_mean(name: str, known: Collection[str]) -> str:
    """``, did you mean "gang"?`` if a known name is similar, else an empty string."""
    by_lower = {candidate.lower(): candidate for candidate in sorted(known)}
    close = difflib.get_close_matches(name.lower(), by_lower, n=1)
    return f', did you mean "{by_lower[close[0]]}"?' if close else ""


def listed(names: Iterable[str]) -> str:
    """Names as an error message lists them."""
    return ", ".join(names)
