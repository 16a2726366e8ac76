"""Change the weight of a queue where it takes effect.

That is ``spec.weight`` or, if both hierarchy annotations are set, the last number of ``volcano.sh/hierarchy-weights``.
In two cases the weight is not changed, and the message names the object to change instead: ``root`` has no siblings,
and the queue controller would restore a weight that ``spec.hierarchy`` of a queue above defines.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from pumice.kube.client.sync_client import Client, Document


def change_weight(client: Client, queue: Document, weight: int) -> Document:
    """Give a queue another weight; gives the queue as it is then."""
    from pumice.kube.resources import QUEUES

    about = queue["metadata"]
    if (problem := _why_not_changeable(client, queue)) is not None:
        raise click.ClickException(f"queues/{about['name']}: {problem}; nothing was changed")
    patch: Document = {"spec": {"weight": weight}}
    weights = _with_last_weight(queue, weight)
    if weights is not None:
        from pumice.model.queue_tree import HIERARCHY_WEIGHTS

        # The annotation is written back with one number changed: only if it was not modified meanwhile.
        patch["metadata"] = {
            "annotations": {HIERARCHY_WEIGHTS: weights},
            "resourceVersion": about["resourceVersion"],
        }
    return client.merge(QUEUES.path("", about["name"]), patch)


def _with_last_weight(queue: Document, weight: int) -> str | None:
    """The weights annotation with its last number replaced; None if the annotations are not set."""
    from pumice.model.queue_tree import HIERARCHY, HIERARCHY_WEIGHTS

    annotations = queue["metadata"].get("annotations") or {}
    if not (annotations.get(HIERARCHY) and annotations.get(HIERARCHY_WEIGHTS)):
        return None
    above, slash, _ = str(annotations[HIERARCHY_WEIGHTS]).strip("/").rpartition("/")
    return f"{above}{slash}{weight}"


def _why_not_changeable(client: Client, queue: Document) -> str | None:
    """Why the weight of a queue cannot be changed in the queue itself."""
    from pumice.controllers.queues.expansion import HANDED_DOWN
    from pumice.model.specs import ROOT

    name = queue["metadata"]["name"]
    if name == ROOT:
        return "root stands for the cluster and has no siblings, so a weight of root would count nowhere"
    above = _get(client, _parent(queue))
    entry = _entry((above.get("spec") or {}).get("hierarchy"), name)
    if entry is None or not any(each.get("name") == "weight" for each in entry.get("parameters") or ()):
        return None
    while HANDED_DOWN in (above["metadata"].get("annotations") or {}) and (further := _get(client, _parent(above))):
        above = further  # an inherited hierarchy is restored from the queue further up
    return (
        f"spec.hierarchy of queue '{above['metadata']['name']}' gives it its weight and would set it back; change the "
        f"parameter weight of the entry '{name}' there"
    )


def _parent(queue: Document) -> str:
    from pumice.model.specs import ROOT

    return str((queue.get("spec") or {}).get("parent") or ROOT)


def _get(client: Client, name: str) -> Document:
    """A queue; empty if there is none of that name."""
    from pumice.kube.client.api_errors import ApiError
    from pumice.kube.resources import QUEUES

    try:
        return client.get(QUEUES.path("", name))
    except ApiError as error:
        if not error.not_found:
            raise
        return {}


def _entry(hierarchy: Any, name: str) -> Document | None:
    entries = hierarchy if isinstance(hierarchy, list) else ()
    return next((entry for entry in entries if isinstance(entry, dict) and entry.get("name") == name), None)
