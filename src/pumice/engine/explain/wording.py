"""Format amounts and counts for reports."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from kubebase.resource_vector import CPU, MEMORY, PODS, Registry
from pumice.engine.explain.wait_report import Amounts
from pumice.model.specs import Items

SECOND = 1_000_000


class AmountFormatter:
    """Formats amounts of the resources of a registry. Pod slots belong to no share and are omitted."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry

    def amount(self, j: int, amount: int) -> str:
        """One amount, without the name of its resource; devices are counted, so parts of one are decimals."""
        if j not in (CPU, MEMORY, PODS) and amount % 1000:
            return f"{amount / 1000:.3f}".rstrip("0")
        return self._registry.format_amount(j, amount)

    def name(self, j: int) -> str:
        """The name of a resource."""
        return self._registry.names[j]

    def items(self, items: Items) -> Amounts:
        """Amounts of the resources named."""
        return {self.name(j): self.amount(j, amount) for j, amount in items if j != PODS}

    def vector(self, vector: Sequence[int], only: Iterable[int] | None = None) -> Amounts:
        """The amounts of a vector that are not 0; of some resources only, those of 0 included."""
        if only is not None:
            return self.items(tuple((j, vector[j]) for j in only))
        return self.items(tuple((j, amount) for j, amount in enumerate(vector) if amount))


def said(amounts: Amounts) -> str:
    """Amounts in a sentence."""
    return ", ".join(f"{name} {amount}" for name, amount in amounts.items()) or "nothing"


def count(number: int, noun: str) -> str:
    """A number of things."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def listed(names: Sequence[str], most: int = 3) -> str:
    """The first few of these names, and how many more there are."""
    shown = ", ".join(names[:most])
    return f"{shown} and {len(names) - most} more" if len(names) > most else shown


def seconds(duration: int) -> str:
    """A duration in microseconds, formatted for reports."""
    whole = max(0, -(-duration // SECOND))
    if whole < 120:
        return f"{whole} s"
    minutes, rest = divmod(whole, 60)
    if minutes < 120:
        return f"{minutes} min {rest} s" if rest and minutes < 10 else f"{minutes} min"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours < 48 else f"{hours // 24} d {hours % 24} h"
