"""The order of a merged list: that of the patch for the items it names, that of the document for all others.

The two orders are merged like sorted lists. Where an item of each is next, the document's goes first if it stood
before the other one in the document; an item that is new in the patch goes first in any case.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

from kubesim.schema.uniqueness import identity


def ordered(old: Sequence[Any], merged: Sequence[Any], order: Sequence[Any], merge_key: str = "") -> list[Any]:
    """The items of ``merged``: those in ``order`` in that order, the others as in ``old``."""

    def key(item: Any) -> Hashable:
        return identity(item.get(merge_key) if merge_key and isinstance(item, dict) else item, ())

    rank = {key(item): place for place, item in reversed(list(enumerate(order)))}
    place_before = {key(item): place for place, item in reversed(list(enumerate(old)))}
    named = sorted((item for item in merged if key(item) in rank), key=lambda item: rank[key(item)])
    others = [item for item in merged if key(item) not in rank]
    others.sort(key=lambda item: place_before.get(key(item), len(old)))
    result: list[Any] = []
    waiting = iter(others)
    other = next(waiting, None)
    for item in named:
        place = place_before.get(key(item), -1)
        while other is not None and place_before.get(key(other), len(old)) < place:
            result.append(other)
            other = next(waiting, None)
        result.append(item)
    return [*result, *(() if other is None else (other,)), *waiting]
