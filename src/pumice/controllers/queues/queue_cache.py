"""Cache of the queue controller: the queues, their tree, and the workload counts of each.

Watch events update it, and so do the responses to the controller's own writes. Responses apply at once, so that nothing
is decided twice; older watch events that arrive after them are ignored.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

from pumice.admission import ClusterView, Object
from pumice.admission.queues.queue_tree import QueueTree
from pumice.admission.request import annotations_of, metadata_of, spec_of
from pumice.controllers.queues.expansion import withdrawn_queues
from pumice.controllers.queues.workload_counts import Tally
from pumice.kube.resources import QUEUES, Document
from pumice.kube.watch.change_queue import Change
from pumice.model.queue_tree import PlacementRefusal, build_queue_tree
from pumice.model.specs import ROOT

REMEMBERED = 1000
"""How many deleted queues are remembered, to recognise their late events."""


class QueueCache:
    """The newest known state."""

    def __init__(self) -> None:
        self.view = ClusterView()
        self.work = Tally()
        self._gone: OrderedDict[str, None] = OrderedDict()
        self._withdrawn: set[str] | None = None
        self._remarks: tuple[QueueTree, dict[str, list[PlacementRefusal]]] | None = None

    @property
    def queues(self) -> dict[str, Object]:
        """All queues as documents."""
        return self.view.queues

    @property
    def tree(self) -> QueueTree:
        """The tree of the queues."""
        return self.view.tree

    def on_change(self, change: Change[Document]) -> bool:
        """Apply a watch event of a queue; returns whether it is news."""
        if change.new is not None:
            return self.apply_write(change.new)
        self._gone[change.uid] = None
        if len(self._gone) > REMEMBERED:
            self._gone.popitem(last=False)
        known = self.queues.get(change.key)
        if known is None or known["metadata"]["uid"] != change.uid:
            return False
        self._replace(change.key, None)
        return True

    def apply_write(self, queue: Document) -> bool:
        """Apply a queue at its resourceVersion; returns whether it is news."""
        about = queue["metadata"]
        known = self.queues.get(about["name"])
        if about["uid"] in self._gone or (known is not None and _revision(known) >= _revision(queue)):
            return False
        self._replace(about["name"], queue)
        return True

    def _replace(self, name: str, queue: Document | None) -> None:
        if said(queue) != said(self.queues.get(name)):
            self._withdrawn = None
        self.view.note(QUEUES.name, "", name, queue)

    @property
    def withdrawn(self) -> set[str]:
        """The queues that the hierarchy which created them no longer names."""
        if self._withdrawn is None:
            self._withdrawn = withdrawn_queues(self.view)
        return self._withdrawn

    @property
    def remarks(self) -> dict[str, list[PlacementRefusal]]:
        """Problems with the places of queues, and warnings about their weights."""
        tree = self.tree
        if self._remarks is None or self._remarks[0] is not tree:
            found: dict[str, list[PlacementRefusal]] = {}
            for refusal in build_queue_tree(tree.queues).refusals:
                found.setdefault(refusal.queue, []).append(refusal)
            self._remarks = (tree, found)
        return self._remarks[1]

    def parent(self, name: str) -> str:
        """The parent of a queue, or the one it names if it has no place; empty: none."""
        if name == ROOT:
            return ""
        above = self.tree.above(name)
        return above[0].name if above else str(spec_of(self.queues.get(name, {})).get("parent") or ROOT)

    def children(self, name: str) -> list[str]:
        """The children of a queue, including those that have no place, by name."""
        return sorted(child for child in self.queues if self.parent(child) == name)

    def is_leaf(self, name: str) -> bool:
        """Whether a queue has no child queues, and will have none."""
        return self.tree.is_leaf(name) and not spec_of(self.queues[name]).get("hierarchy")


def said(queue: Document | None) -> Any:
    """A queue without its status."""
    if queue is None:
        return None
    about = metadata_of(queue)
    return about["uid"], "deletionTimestamp" in about, annotations_of(queue), about.get("finalizers"), spec_of(queue)


def _revision(queue: Document) -> int:
    revision = queue["metadata"]["resourceVersion"]
    return int(revision) if revision.isdecimal() else 0
