"""Waiting until a page shows what the cluster says."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

ATTEMPTS = 100


def await_equal(shown: Callable[[], dict[str, Any]], said: Callable[[], dict[str, Any]]) -> None:
    """The cluster may change between two readings, and a page follows it a moment later: a few are tried."""
    different: list[str] = []
    for _ in range(ATTEMPTS):
        page, cluster = shown(), said()
        different = [
            f"{key}: shown {page.get(key)}, said {cluster[key]}" for key in cluster if page.get(key) != cluster[key]
        ]
        if page == cluster:
            return
        time.sleep(0.1)
    raise AssertionError("\n".join(different))
