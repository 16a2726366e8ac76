"""The ``minResources`` of a PodGroup, without the names of resource quotas that Volcano's controllers add to them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

Amount = TypeVar("Amount")

_QUOTA_NAMES = ("requests.", "limits.", "count/")


def requested_resources(min_resources: Mapping[str, Amount]) -> dict[str, Amount]:
    """The amounts that nodes have to offer.

    Volcano repeats them as ``requests.cpu``, ``limits.cpu`` and ``count/pods`` for its plugin ``resourcequota``. No
    node offers resources of these names, so a group that kept them could never start.
    """
    return {name: amount for name, amount in min_resources.items() if not name.startswith(_QUOTA_NAMES)}
