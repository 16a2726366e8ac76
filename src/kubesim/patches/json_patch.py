"""JSON Patch (RFC 6902): a list of operations, carried out one after the other, all or none.

Where kube-apiserver is more lenient than the RFC, so is this: ``replace`` sets a field that is not there, ``copy``
of a field that is not there copies null, a missing ``value`` is null, and an index may count from the end (-1).
Pointers that do not begin with a slash are refused, though: kube-apiserver drops their first part and would
change some other field.
"""

from __future__ import annotations

import re
from typing import Any

from msgspec.json import encode

from kubesim.patches.errors import PatchError, PatchFault, bounded, kind_of, malformed, unfit
from kubesim.schema.compiled import copied
from kubesim.schema.value_checks import same

MOST_OPERATIONS = 10_000
LARGEST_COPIES = 3 * 1024 * 1024  # bytes of JSON that all copies together may add

_INDEX = re.compile(r"-?[0-9]{1,9}")


def json_patch(document: Any, operations: Any) -> Any:
    """The document after all operations."""
    if operations is None:
        operations = []
    if not isinstance(operations, list):
        raise _undecodable(operations, "value", "[]handlers.jsonPatchOp")
    if len(operations) > MOST_OPERATIONS:
        detail = f"The allowed maximum operations in a JSON patch is {MOST_OPERATIONS}, got {len(operations)}"
        raise PatchError(PatchFault.TOO_LARGE, detail)
    for operation in operations:
        _check(operation)
    patching = _Patching(copied(document))
    for operation in operations:
        patching.apply(operation or {})
    return bounded(patching.document, "the patched object")


def _check(operation: Any) -> None:
    if operation is None:
        return
    if not isinstance(operation, dict):
        raise _undecodable(operation, "value", "handlers.jsonPatchOp")
    for member in ("op", "path", "from"):
        if not isinstance(operation.get(member), str | None):
            raise _undecodable(operation[member], f"struct field jsonPatchOp.{member}", "string")
    bounded(operation.get("value"), "a value in the patch")


def _undecodable(value: Any, into: str, kind: str) -> PatchError:
    return malformed(f"error decoding patch: json: cannot unmarshal {kind_of(value)} into Go {into} of type {kind}")


class _Patching:
    """A document on its way through the operations."""

    def __init__(self, document: Any) -> None:
        self.document = document
        self._copied_bytes = 0

    def apply(self, operation: dict[str, Any]) -> None:
        path = operation.get("path")
        if path is None:
            raise unfit("an operation needs a path")
        match operation.get("op"):
            case "add":
                self._put(path, copied(operation.get("value")), inserts=True)
            case "replace":
                self._put(path, copied(operation.get("value")), inserts=False)
            case "remove":
                self._take(path)
            case "test":
                self._test(path, operation.get("value"))
            case "move":
                source = _source(operation)
                if path == source:
                    self._get(source)
                    return
                if path.startswith(f"{source}/"):
                    raise unfit(f"{_shown(source)} cannot be moved into itself, to {_shown(path)}")
                self._put(path, self._take(source), inserts=True)
            case "copy":
                self._put(path, self._copy(_source(operation)), inserts=True)
            case other:
                raise unfit(f"unexpected operation {other!r}: it can be add, remove, replace, move, copy or test")

    def _get(self, path: str) -> Any:
        """The value at a path; a field that is missing from its object is null."""
        steps = _steps(path)
        if not steps:
            return self.document
        parent = self._parent(steps, path)
        if isinstance(parent, dict):
            return parent.get(steps[-1])
        return parent[_index(steps[-1], len(parent), path)]

    def _put(self, path: str, value: Any, *, inserts: bool) -> None:
        steps = _steps(path)
        if not steps:
            self.document = value
            return
        parent, last = self._parent(steps, path), steps[-1]
        if isinstance(parent, dict):
            parent[last] = value
        elif not inserts:
            parent[_index(last, len(parent), path)] = value
        elif last == "-":
            parent.append(value)
        else:
            parent.insert(_index(last, len(parent) + 1, path), value)

    def _take(self, path: str) -> Any:
        steps = _steps(path)
        if not steps:
            raise unfit("the whole object cannot be removed")
        parent, last = self._parent(steps, path), steps[-1]
        if isinstance(parent, list):
            return parent.pop(_index(last, len(parent), path))
        if last not in parent:
            raise unfit(f"there is nothing at {_shown(path)}")
        return parent.pop(last)

    def _test(self, path: str, expected: Any) -> None:
        if not same(self._get(path), expected):
            raise unfit(f"testing value {_shown(path)} failed")

    def _copy(self, path: str) -> Any:
        value = bounded(self._get(path), "the copied value")
        self._copied_bytes += len(encode(value))
        if self._copied_bytes > LARGEST_COPIES:
            raise unfit(f"the copies would add {self._copied_bytes} bytes, more than {LARGEST_COPIES}")
        return copied(value)

    def _parent(self, steps: list[str], path: str) -> dict[str, Any] | list[Any]:
        """The container that has, or is to have, the value at a path."""
        value = self.document
        for step in steps[:-1]:
            if isinstance(value, dict):
                value = value.get(step)
            elif isinstance(value, list):
                value = value[_index(step, len(value), path)]
            else:
                break
        if not isinstance(value, dict | list):
            raise unfit(f"there is no object or list around {_shown(path)}")
        return value


def _source(operation: dict[str, Any]) -> str:
    source = operation.get("from")
    if source is None:
        raise unfit(f"{operation['op']} needs a from")
    assert isinstance(source, str)
    return source


def _steps(path: str) -> list[str]:
    if not path:
        return []
    if not path.startswith("/"):
        raise unfit(f"path {_shown(path)} does not begin with a slash")
    return [step.replace("~1", "/").replace("~0", "~") for step in path[1:].split("/")]


def _index(step: str, length: int, path: str) -> int:
    """A place in a list of a certain length; negative ones count from its end."""
    if not _INDEX.fullmatch(step):
        raise unfit(f"{_shown(step)} in {_shown(path)} is not an index into a list")
    index = int(step)
    if not -length <= index < length:
        raise unfit(f"index {step} in {_shown(path)} is out of bounds")
    return index % length


def _shown(path: str) -> str:
    return repr(path if len(path) <= 200 else f"{path[:200]}...")
