"""Expand ``spec.hierarchy`` into queues, level by level (docs/fairness.md, section 4.3).

An entry describes a direct child queue: it gets its parent, its parameters as fields of its spec, and the nested part
of the hierarchy, which it then expands itself. Fields that an entry does not name keep their values in the queue.

Annotations record the origin. ``pumice.dev/expanded-by`` is on every queue that was *created* here, with the uid of the
parent: if that parent no longer names it, it is withdrawn: closed and, once empty, deleted. Queues created by users
never are, nor is ``default``, which every cluster has. ``pumice.dev/handed-down`` is on every queue whose own
``spec.hierarchy`` came from its parent: it is removed when the entry has no nested entries any more, or no longer
exists; one written by a user stays. A third annotation records fields (see ``inherited_fields``).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from pumice.admission import ClusterView, Object, with_user_limits_settled
from pumice.admission.request import annotate, annotations_of, metadata_of, spec_of
from pumice.controllers.queues.inherited_fields import (
    SET_BY_HIERARCHY,
    inherited_fields,
    reset_inherited_fields,
    set_inherited_fields,
)
from pumice.kube.decode import api_types
from pumice.kube.decode.queues import PARAMETERS
from pumice.kube.decode.struct_decode import one_of, read
from pumice.kube.resources import QUEUES, Document
from pumice.model.queue_expansion import is_elsewhere
from pumice.model.queue_tree import HIERARCHY
from pumice.model.specs import DEFAULT_QUEUE, ROOT

EXPANDED_BY: Final = "pumice.dev/expanded-by"
HANDED_DOWN: Final = "pumice.dev/handed-down"


def entries(queue: Object) -> list[Object]:
    """The entries of a queue's hierarchy."""
    return [entry for entry in spec_of(queue).get("hierarchy") or () if isinstance(entry, dict) and entry.get("name")]


def expanded_queue(parent: Object, entry: Object, there: Object | None, *, childless: bool) -> Document:
    """The queue that an entry describes, based on the existing one (if any); the same object if nothing differs.

    Raises ``FieldError`` if a parameter has an invalid value. ``childless``: no queue is below it now.
    """
    about, spec = dict(metadata_of(there)) if there else {"name": entry["name"]}, dict(spec_of(there or {}))
    child: Document = {"apiVersion": QUEUES.api_version, "kind": QUEUES.kind, **(there or {})}
    child |= {"metadata": about, "spec": spec}
    if EXPANDED_BY in annotations_of(there or {}) or (there is None and entry["name"] != DEFAULT_QUEUE):
        annotate(child, EXPANDED_BY, parent["metadata"]["uid"])
    spec["parent"] = parent["metadata"]["name"]
    wanted = {
        one_of(parameter["name"], PARAMETERS, "parameters"): parameter.get("value")
        for parameter in entry.get("parameters") or ()
    }
    set_inherited_fields(child, wanted, made_here=EXPANDED_BY in annotations_of(child))
    if entry.get("hierarchy"):
        if _understood(entry["hierarchy"]) != _understood(spec.get("hierarchy") or ()):
            spec["hierarchy"] = entry["hierarchy"]
        annotate(child, HANDED_DOWN, "true")
    elif HANDED_DOWN in annotations_of(child):
        spec.pop("hierarchy", None)
        annotate(child, HANDED_DOWN, None)
    child = with_user_limits_settled(child, leaf=childless and not spec.get("hierarchy"))
    return there if there is not None and child == there else child


def released_queue(queue: Object, *, childless: bool) -> Document:
    """A user-created queue that its parent no longer names: without inherited fields; the same object if none."""
    child: Document = {**queue, "metadata": dict(metadata_of(queue)), "spec": dict(spec_of(queue))}
    reset_inherited_fields(child, inherited_fields(child) or {}, wanted={})
    for mark in (SET_BY_HIERARCHY, HANDED_DOWN):
        if mark in annotations_of(child):
            annotate(child, mark, None)
    if HANDED_DOWN in annotations_of(queue):
        child["spec"].pop("hierarchy", None)
    child = with_user_limits_settled(child, leaf=childless and not child["spec"].get("hierarchy"))
    return queue if child == queue else child


def contradiction(parent: Object, there: Object) -> str:
    """Why an existing queue cannot be the one that an entry means; empty: it can."""
    name, above = there["metadata"]["name"], parent["metadata"]["name"]
    path = annotations_of(there).get(HIERARCHY)
    stands = spec_of(there).get("parent") or ROOT
    if is_elsewhere(path, stands, above):
        return (
            f"queue '{name}' must be a child of '{above}', but it is {f'at {path!r}' if path else f'below {stands!r}'}"
        )
    return ""


def withdrawn_queues(world: ClusterView) -> set[str]:
    """The queues that a hierarchy created and no longer names, with those that it created below them."""
    found: set[str] = set()
    tree = world.tree
    named: dict[str, set[str]] = {}
    for name in sorted(world.queues, key=lambda name: len(tree.path(name) or ())):
        above = tree.above(name)
        if not above or EXPANDED_BY not in annotations_of(world.queues[name]):
            continue
        parent = above[0].name
        document = world.queues[parent]
        if annotations_of(world.queues[name])[EXPANDED_BY] == document["metadata"]["uid"]:
            if parent not in named:
                named[parent] = {entry["name"] for entry in entries(document)}
            if parent in found or name not in named[parent]:
                found.add(name)
    return found


def without_entry(hierarchy: list[Object], name: str) -> list[Object]:
    """A hierarchy without the entry of a queue, at any depth; the same object if there is none."""
    return next(_without(hierarchy, name), hierarchy)


def _without(hierarchy: list[Object], name: str) -> Iterator[list[Object]]:
    for i, entry in enumerate(hierarchy):
        if entry["name"] == name:
            yield hierarchy[:i] + hierarchy[i + 1 :]
        for below in _without(entry.get("hierarchy") or [], name):
            rest = {key: value for key, value in entry.items() if key != "hierarchy"}
            yield [*hierarchy[:i], rest | ({"hierarchy": below} if below else {}), *hierarchy[i + 1 :]]


def _understood(hierarchy: Any) -> Any:
    return read(hierarchy, tuple[api_types.HierarchyEntry, ...], where="spec.hierarchy")
