"""Taints: which of them a pod's tolerations cover, and which nodes the others exclude."""

from __future__ import annotations

from collections.abc import Iterable

from pumice.engine.plugins.builtin.predicates.node_columns import Mask, NodeColumns
from pumice.model.specs import Taint, Toleration

HARD = frozenset({"NoSchedule", "NoExecute"})
SOFT = frozenset({"PreferNoSchedule"})

Tolerations = tuple[Toleration, ...]


def tolerates(toleration: Toleration, taint: Taint) -> bool:
    """Whether one toleration covers one taint."""
    if toleration.effect and toleration.effect != taint.effect:
        return False
    if toleration.key and toleration.key != taint.key:
        return False
    match toleration.operator:
        case "Exists":
            return True
        case "Equal" | "":
            return toleration.value == taint.value
    return False


def untolerated(taints: Iterable[Taint], tolerations: Tolerations, effects: frozenset[str]) -> list[Taint]:
    """The taints with one of these effects that no toleration covers, in their order."""
    return [
        taint
        for taint in taints
        if taint.effect in effects and not any(tolerates(toleration, taint) for toleration in tolerations)
    ]


def obstacles(tolerations: Tolerations, columns: NodeColumns) -> dict[Taint, Mask]:
    """For each taint that excludes nodes: the nodes where it is the first to do so."""
    column = columns.taints
    codes: dict[Taint, list[int]] = {}
    for taints, code in column.values.items():
        in_the_way = untolerated(taints, tolerations, HARD)
        if in_the_way:
            codes.setdefault(in_the_way[0], []).append(code)
    found: dict[Taint, Mask] = {}
    for taint, those in codes.items():
        table = column.table()
        table[those] = True
        found[taint] = table[column.codes]
    return found


def tolerated(tolerations: Tolerations, columns: NodeColumns) -> Mask | None:
    """The nodes without an untolerated taint; None for all."""
    mask: Mask | None = None
    for blocked in obstacles(tolerations, columns).values():
        mask = ~blocked if mask is None else mask & ~blocked
    return mask
