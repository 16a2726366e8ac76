"""The decision trace as text: each decision, followed by the keys that led to it.

For a placement: at each level, the chosen node, its key and the runner-up. For an eviction: the level at which the
paths of the two jobs part, and the keys of both sides before and after; the keys converge and do not change order.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any

import click

Decision = dict[str, Any]

INDENT = " " * 12


def trace_lines(decisions: Sequence[Decision], key: str) -> Iterator[str]:
    """The lines of all decisions; ``key`` is the name of the compared keys."""
    for cycle, in_cycle in groupby(decisions, lambda decision: decision["cycle"]):
        yield click.style(f"cycle {cycle}", bold=True)
        for _, together in groupby(in_cycle, _choice_key):
            group = list(together)
            for decision in group:
                yield f"  {_decision_line(decision)}"
            for line in _reason_lines(group[-1], key):
                yield click.style(INDENT + line, dim=True)


def _choice_key(decision: Decision) -> Any:
    """Tasks that start together were picked once, and so were those that go together."""
    if "sides" in decision:
        return tuple(str(decision[part]) for part in ("type", "for", "sides", "before", "after"))
    return (decision["type"], decision.get("path") or id(decision))


def _decision_line(decision: Decision) -> str:
    what = click.style(f"{decision['type']:<9}", fg="cyan")
    match decision["type"]:
        case "bind":
            return f"{what} {decision['pod']} to {decision['node']}"
        case "pipeline":
            return f"{what} {decision['pod']} waits for room on {decision['node']}"
        case "evict":
            return f"{what} {decision['pod']} from {decision['node']} for {decision['for']} ({decision['action']})"
        case "condition" if "queue" in decision:
            return f"{what} queue {decision['queue']}: {decision['message'] or 'nothing is wrong any more'}"
        case "condition":
            return f"{what} {decision['job']}: {decision['message']}"
    return f"{what} {decision['job']}"


def _reason_lines(decision: Decision, key: str) -> Iterator[str]:
    return _eviction_lines(decision) if "sides" in decision else _path_lines(decision.get("path") or (), key)


def _eviction_lines(decision: Decision) -> Iterator[str]:
    above, before, after = decision["ancestor"], decision["before"], decision["after"]
    names = {side: _relative_path(above, decision["sides"][side]) for side in ("preemptor", "victim")}
    width = max(map(len, names.values()))
    yield f"they part below {above}:"
    for side, does in (("preemptor", "takes"), ("victim", "gives")):
        yield f"  {names[side]:<{width}}  {does}: {_side_text(decision['measure'], before[side], after[side])}"


def _side_text(key: str, before: float, after: float) -> str:
    """The key of a side before and after; a want is the share of the cluster missing to its entitlement."""
    if key == "priority":
        return f"priority {before:g}"
    if key != "want":
        return f"{key} {before:.4f}, then {after:.4f}"
    first, then = _side_of_part(before), _side_of_part(after)
    named = first or then
    end = f" {then}" if then not in ("", named) else ""
    return f"{abs(before):.2%} of the cluster {named or 'below'} its part, then {abs(after):.2%}{end}"


def _side_of_part(want: float) -> str:
    """On which side of its part somebody is whose want this is; on neither if it rounds to nothing."""
    if f"{abs(want):.2%}" == "0.00%":
        return ""
    return "below" if want > 0 else "above"


def _path_lines(path: Sequence[Decision], key: str) -> Iterator[str]:
    """The walk from the root down, each level as a name below the one above."""
    above = ["root", *(level["node"] for level in path)]
    names = ["  " * depth + _relative_path(above[depth], level["node"]) for depth, level in enumerate(path)]
    width = max(map(len, names), default=0)
    for depth, (name, level) in enumerate(zip(names, path, strict=True)):
        line = f"{name:<{width}}  {key} {level['key']:.4f}"
        if level["runnerUp"] is not None:
            tie = ", a tie" if level["key"] == level["runnerUpKey"] else ""
            line += f"  before {_relative_path(above[depth], level['runnerUp'])} with {level['runnerUpKey']:.4f}{tie}"
        yield line


def _relative_path(above: str, path: str) -> str:
    return path.removeprefix(f"{above}/")
