"""Values of documents: amounts in base units by resource, and times as texts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Any

from kubebase.resource_vector import CPU, MEMORY, PODS

Document = dict[str, Any]
Amounts = dict[str, int]

SECOND = 1_000_000
GIB = 1 << 30


def amounts(vector: Sequence[int], names: Sequence[str]) -> Amounts:
    """The amounts of a vector that are not 0, without places for pods."""
    return {name: amount for j, (name, amount) in enumerate(zip(names, vector, strict=False)) if amount and j != PODS}


def named_amounts(items: Iterable[tuple[int, int]], names: Sequence[str]) -> Amounts:
    """The amounts of the resources that a spec names, zeros included: a limit of 0 is a limit."""
    return {names[j]: amount for j, amount in items if j != PODS}


def time_text(microseconds: int) -> str | None:
    """A time as RFC 3339, with a fraction where there is one; None for 0, which stands for an unknown time.

    Without a loss: a page that asks for the tree at the time of a decision must get the tree with that decision.
    """
    if not microseconds:
        return None
    whole, fraction = divmod(microseconds, SECOND)
    text = datetime.fromtimestamp(whole, UTC).strftime("%Y-%m-%dT%H:%M:%S")
    return f"{text}.{f'{fraction:06d}'.rstrip('0')}Z" if fraction else f"{text}Z"


def resource_units(names: Sequence[str], used: Iterable[int]) -> list[Document]:
    """How to show amounts: cpu and memory first, then the other resources that occur in the cluster."""
    places = {CPU, MEMORY, *used} - {PODS}
    return [_unit(j, names[j]) for j in sorted(places)]


def _unit(place: int, name: str) -> Document:
    if place == CPU:
        return {"name": name, "unit": "milli", "scale": 1000, "display": "cores", "label": "CPU"}
    if place == MEMORY:
        return {"name": name, "unit": "byte", "scale": GIB, "display": "GiB", "label": "Memory"}
    if name == "ephemeral-storage" or name.startswith("hugepages-"):
        return {"name": name, "unit": "milli", "scale": 1000 * GIB, "display": "GiB", "label": name}
    short = name.rpartition("/")[2]
    if short == "gpu":
        return {"name": name, "unit": "milli", "scale": 1000, "display": "GPUs", "label": "GPU"}
    return {"name": name, "unit": "milli", "scale": 1000, "display": short, "label": short}


def known_resources(vectors: Iterable[Sequence[int]]) -> set[int]:
    """The places of the resources of which some vector has something."""
    return {j for vector in vectors for j, amount in enumerate(vector) if amount}
