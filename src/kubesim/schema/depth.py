"""The maximum nesting depth of objects.

Functions that walk an object recurse, so its depth is limited once, when it is decoded, instead of by the interpreter
later. Kubernetes' own objects nest some fifteen levels, a definition with a pod template in its schema about forty.
"""

from __future__ import annotations

from typing import Any

DEEPEST = 200


def deeper(value: Any, limit: int = DEEPEST) -> bool:
    """Whether containers nest more than ``limit`` levels."""
    level = [value] if isinstance(value, dict | list) else []
    for _ in range(limit):
        if not level:
            return False
        level = [
            item
            for container in level
            for item in (container.values() if isinstance(container, dict) else container)
            if isinstance(item, dict | list)
        ]
    return bool(level)
