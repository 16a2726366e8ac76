"""Fields of an object by which a user would reach beyond its namespace: take a node past the scheduler, keep others
away, never make room, or count as somebody else. They are found wherever they are, in templates and patches too.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from pumice.kube.decode.pods import GPU_INDEX, PLACED_BY
from pumice.kube.decode.preemption_annotations import PREEMPTABLE, USER

PORTS: Final = "pumice.dev/ports"
"""The ports of the machine that pods have: whoever could write it could take them all."""
SYSTEM_CLASSES: Final = frozenset({"system-cluster-critical", "system-node-critical"})
SYSTEM_KEYS: Final = {
    GPU_INDEX: "the scheduler writes it",
    PLACED_BY: "the scheduler writes it",
    "pumice.dev/simulated": "an administrator's",
    PORTS: "the agent writes it",
}
LONGEST_GRACE: Final = 600
"""Seconds that a preempted pod may take to end."""
COMMANDS: Final = "commands.bus.volcano.sh"

Problem = tuple[str, str]
"""A field, and why it is refused."""


def foreign_fields(resource: str, found: dict[str, Any], owner: str, namespace: str) -> dict[Problem, Any]:
    """The fields that only administrators may set, with their values."""
    problems = dict(_walk(found, "", owner, namespace))
    if resource == COMMANDS:
        target = found.get("target")
        kind = target.get("kind") if isinstance(target, dict) else None
        if kind != "Job":
            problems["target.kind", "you may send commands to your own Jobs only; queues are administrators'"] = kind
    return problems


def _walk(found: Any, where: str, owner: str, namespace: str) -> Iterator[tuple[Problem, Any]]:
    if isinstance(found, list):
        for at, each in enumerate(found):
            yield from _walk(each, f"{where}[{at}]", owner, namespace)
        return
    if not isinstance(found, dict):
        return
    for name, value in found.items():
        place = f"{where}.{name}" if where else str(name)
        if name in {"annotations", "labels"} and isinstance(value, dict):
            yield from _keys(value, place, owner)
        elif name == "priorityClassName" and value in SYSTEM_CLASSES:
            yield (place, f"{value} is for the system's own pods"), value
        elif name == "nodeName" and value and "containers" in found:
            yield (place, "the scheduler chooses the node; use nodeSelector to restrict it"), value
        elif name == "terminationGracePeriodSeconds" and isinstance(value, int) and value > LONGEST_GRACE:
            yield (place, f"at most {LONGEST_GRACE} seconds, because others wait for the room"), value
        elif name in {"namespaceSelector", "namespaces"} and "topologyKey" in found:
            if value not in (None, [], [namespace]):
                yield (place, "pods of other users cannot be kept away or sought"), value
        else:
            yield from _walk(value, place, owner, namespace)


def _keys(texts: dict[str, Any], where: str, owner: str) -> Iterator[tuple[Problem, Any]]:
    for key, text in texts.items():
        place = f"{where}[{key}]"
        if key == PREEMPTABLE and str(text).lower() not in {"true", "t", "1"}:
            yield (place, "only an administrator may keep pods from being preempted"), text
        elif key == USER and text != owner:
            yield (place, f"must be {owner!r}, whose namespace this is"), text
        elif key in SYSTEM_KEYS:
            yield (place, SYSTEM_KEYS[key]), text
