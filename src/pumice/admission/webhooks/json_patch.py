"""The difference between two objects as a JSON Patch, which a mutating webhook returns."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

Operation = dict[str, Any]


def json_patch_between(old: Any, new: Any, path: str = "") -> Iterator[Operation]:
    """The operations from one to the other. Lists are replaced whole: a rule that extends one has read all of it."""
    if isinstance(old, dict) and isinstance(new, dict):
        for name in old.keys() - new.keys():
            yield {"op": "remove", "path": f"{path}/{_escaped(name)}"}
        for name, value in new.items():
            place = f"{path}/{_escaped(name)}"
            if name in old:
                yield from json_patch_between(old[name], value, place)
            else:
                yield {"op": "add", "path": place, "value": value}
    elif old != new:
        yield {"op": "replace", "path": path, "value": new}


def _escaped(name: str) -> str:
    return name.replace("~", "~0").replace("/", "~1")
