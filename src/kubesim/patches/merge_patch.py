"""JSON Merge Patch (RFC 7386): objects are merged, null removes a field, lists are replaced."""

from __future__ import annotations

from typing import Any

from kubesim.patches.errors import bounded
from kubesim.schema.compiled import copied


def merge_patch(document: Any, patch: Any) -> Any:
    """The document with the patch laid over it. A patch that is no object replaces the document."""
    return copied(_merged(document, bounded(patch, "the patch")))


def _merged(document: Any, patch: Any) -> Any:
    """The same, but sharing parts with both."""
    if not isinstance(patch, dict):
        return patch
    merged = dict(document) if isinstance(document, dict) else {}
    for key, change in patch.items():
        if change is None:
            merged.pop(key, None)
        else:
            merged[key] = _merged(merged.get(key), change)
    return merged
