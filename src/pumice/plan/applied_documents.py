"""What ``kubectl apply`` makes of a manifest: the stored object with the fields of the manifest.

Fields that the author wrote last time and left out now are removed; fields that others have set stay.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from kubebase.resource_vector import Registry
from pumice.admission import Object
from pumice.model.queue_tree import HIERARCHY, HIERARCHY_WEIGHTS
from pumice.model.specs import Items, Queue

LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"


def merged_document(stored: Object | None, applied: Object | None, new: Mapping[str, Any]) -> Object:
    """The object after the manifest was applied.

    kubectl adds an annotation of its own to every manifest, so annotations are never removed as a whole: a manifest
    without any takes away those that it had, and no others.
    """
    if stored is None:
        return dict(new)
    about = new.get("metadata")
    if isinstance(about, Mapping) and "annotations" not in about and (stored.get("metadata") or {}).get("annotations"):
        new = {**new, "metadata": {**about, "annotations": {}}}
    return _merged(stored, applied or {}, new)


def last_applied(stored: Object) -> Object | None:
    """The manifest that was applied last, which kubectl keeps in an annotation; None: none, or it is unreadable."""
    text = ((stored.get("metadata") or {}).get("annotations") or {}).get(LAST_APPLIED)
    try:
        found = json.loads(text) if isinstance(text, str) else None
    except ValueError:
        return None
    return found if isinstance(found, dict) else None


def _merged(stored: Mapping[str, Any], applied: Mapping[str, Any], new: Mapping[str, Any]) -> Object:
    kept = {key: value for key, value in stored.items() if key in new or key not in applied}
    for key, value in new.items():
        before, author = kept.get(key), applied.get(key)
        if value is None:
            kept.pop(key, None)
        elif isinstance(value, Mapping) and isinstance(before, Mapping):
            kept[key] = _merged(before, author if isinstance(author, Mapping) else {}, value)
        else:
            kept[key] = value
    return kept


def changed_fields(
    before: Mapping[str, Any], after: Mapping[str, Any], where: str = ""
) -> Iterator[tuple[str, Any, Any]]:
    """The fields that differ, with their values; None where there is none."""
    for key in sorted({*before, *after}):
        path = f"{where}.{key}" if where else str(key)
        was, now = before.get(key), after.get(key)
        if path in _WRITTEN_BY_SERVERS or was == now:
            continue
        if isinstance(was, Mapping) and isinstance(now, Mapping):
            yield from changed_fields(was, now, path)
        elif path != f"metadata.annotations.{LAST_APPLIED}":
            yield path, was, now


_WRITTEN_BY_SERVERS = frozenset(
    (
        "status",
        *(
            f"metadata.{name}"
            for name in ("creationTimestamp", "generation", "managedFields", "namespace", "resourceVersion", "uid")
        ),
    )
)


def queue_document(queue: Queue, registry: Registry) -> Object:
    """A manifest for a queue of which only the description is known, as in a decision log."""
    annotations = {HIERARCHY: queue.path, HIERARCHY_WEIGHTS: queue.path_weights}
    spec: Object = {
        "parent": queue.parent,
        "weight": queue.weight,
        "priority": queue.priority or None,
        "reclaimable": None if queue.reclaimable else False,
        "dequeueStrategy": "fifo" if queue.fifo else None,
        "capability": _amounts(queue.capability, registry),
        "deserved": _amounts(queue.deserved, registry),
        "guarantee": {"resource": _amounts(queue.guarantee, registry)} if queue.guarantee else None,
        "minUserLimitPercent": queue.min_user_limit_percent,
        "userLimitFactor": queue.user_limit_factor,
    }
    about: Object = {"name": queue.name}
    if any(annotations.values()):
        about["annotations"] = {name: text for name, text in annotations.items() if text}
    return {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "Queue",
        "metadata": about,
        "spec": {name: value for name, value in spec.items() if value is not None},
    }


def _amounts(items: Items, registry: Registry) -> Object | None:
    return {registry.names[j]: registry.format_amount(j, amount) for j, amount in items} or None
