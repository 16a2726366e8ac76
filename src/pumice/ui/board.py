"""The documents that all viewers share, made once for each change of the picture.

``refresh`` runs at most a few times a second: it brings the tree and the nodes up to date, and tells what changed as
events for the stream. Documents that few viewers ask for are made on request and kept until the next change.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Hashable
from secrets import token_hex
from typing import Any

from pumice.ui.decisions import DecisionFeed, restricted_decision
from pumice.ui.encoded import EncodedDocument
from pumice.ui.node_documents import node_row
from pumice.ui.picture import ClusterPicture, PictureChanges
from pumice.ui.queue_documents import capacity_of, cluster_summary, lent_amounts, queue_row
from pumice.ui.queue_tree import ForestBuilder, QueueForest
from pumice.ui.values import SECOND, Amounts, Document, time_text
from pumice.ui.viewer import ViewerScope

LISTED = 300
"""Names in an event ``changed``; if more changed, the event says that any may have."""
CACHED = 128
"""Documents on request that are kept until the next change."""

Event = tuple[str, Document]


class Board:
    """Rows of the tree and of nodes, versions, and a cache of encoded documents."""

    def __init__(self, picture: ClusterPicture, decisions: DecisionFeed) -> None:
        self.picture = picture
        self.decisions = decisions
        self.epoch = token_hex(4)
        self.version = 1
        """Grows with every refresh that found a change."""
        self.versions = {"tree": 1, "nodes": 1, "jobs": 1, "decisions": 0}
        self.tree_rows: dict[str, Document] = {}
        self._row_names: tuple[str, ...] = ()
        self.node_rows: dict[str, Document] = {}
        self.cluster: Document = {}
        self.notes: list[str] = []
        self._builder = ForestBuilder()
        self.forest: QueueForest = self._builder.build({}, {}, ())
        self._schedulers = picture.schedulers
        self._cache: OrderedDict[Hashable, tuple[int, EncodedDocument]] = OrderedDict()

    def refresh(self) -> list[Event]:
        """Follow the picture; the events of the stream that tell what changed."""
        changes = self.picture.take_changes()
        events: list[Event] = []
        if changes:
            self.version += 1
            self._cache.clear()
            if self.picture.schedulers != self._schedulers:
                self._schedulers = self.picture.schedulers
                changes.nodes.update(self.picture.nodes)
            tree = self._refresh_tree() if changes.tree or changes.queues else None
            nodes = self._refresh_nodes(changes) if changes.nodes else None
            if changes.jobs:
                self.versions["jobs"] += 1
            events += [event for event in (tree, nodes) if event is not None]
            events.append(("changed", self._changed(changes)))
        if self.decisions.version != self.versions["decisions"]:
            self.version += not changes
            events.append(("decisions", self._fresh_decisions()))
        return events

    def document(self, key: Hashable, make: Callable[[], Document], version: int | None = None) -> EncodedDocument:
        """An encoded document: the kept one if nothing has changed since it was made."""
        known = self._cache.get(key)
        if known is not None and known[0] == self.version:
            self._cache.move_to_end(key)
            return known[1]
        made = EncodedDocument({"epoch": self.epoch, "version": self.version if version is None else version, **make()})
        self._cache[key] = (self.version, made)
        while len(self._cache) > CACHED:
            self._cache.popitem(last=False)
        return made

    def tree_document(self) -> Document:
        """All queues."""
        return {
            "time": now_text(),
            "cluster": self.cluster,
            "queues": list(self.tree_rows.values()),
            "notes": self.notes,
        }

    def nodes_document(self) -> Document:
        """All nodes."""
        return {"nodes": [self.node_rows[name] for name in sorted(self.node_rows)]}

    # ---- changes ------------------------------------------------------------------------------------------

    def _refresh_tree(self) -> Event | None:
        picture = self.picture
        before, names = self.forest, picture.names
        self.forest = self._builder.build(picture.queues, picture.by_queue, capacity_of(picture))
        picture.queue_paths = self.forest.path_of
        held, same_units = self.tree_rows, (before.capacity, self._row_names) == (self.forest.capacity, names)
        self.tree_rows, self._row_names = {}, names
        changed: list[Document] = []
        lent: dict[str, Amounts] = {}
        for path, figures in self.forest.figures.items():
            row = held.get(path)
            if row is None or not same_units or before.figures.get(path) != figures:
                fresh = queue_row(figures, self.forest, names)
                if fresh != row:
                    changed.append(fresh)
                    row = fresh
            elif (amounts := lent_amounts(figures, self.forest, names)) != row["lent"]:
                lent[path] = amounts
                row = {**row, "lent": amounts}
            self.tree_rows[path] = row
        nodes = picture.nodes.values()
        ready = sum(node.ready and node.schedulable for node in nodes)
        cluster, self.cluster = self.cluster, cluster_summary(self.forest, names, len(nodes), ready)
        notes, self.notes = self.notes, self.forest.notes
        removed = [path for path in held if path not in self.tree_rows]
        if not changed and not lent and not removed and cluster == self.cluster and notes == self.notes:
            return None
        base = self.versions["tree"]
        self.versions["tree"] = base + 1
        return "tree", {
            "version": base + 1,
            "base": base,
            "time": now_text(),
            "cluster": self.cluster,
            "changed": changed,
            "lent": lent,
            "removed": removed,
            "order": list(self.tree_rows) if self.tree_rows.keys() != held.keys() else None,
            "notes": self.notes if notes != self.notes else None,
        }

    def _refresh_nodes(self, changes: PictureChanges) -> Event | None:
        changed, removed = [], []
        for name in sorted(changes.nodes):
            if name in self.picture.nodes:
                row = node_row(name, self.picture, self._schedulers)
                if self.node_rows.get(name) != row:
                    self.node_rows[name] = row
                    changed.append(row)
            elif self.node_rows.pop(name, None) is not None:
                removed.append(name)
        if not changed and not removed:
            return None
        base = self.versions["nodes"]
        self.versions["nodes"] = base + 1
        return "nodes", {"version": base + 1, "base": base, "changed": changed, "removed": removed}

    def _changed(self, changes: PictureChanges) -> Document:
        paths: set[str] = set()
        for name in changes.queues:
            figures = self.forest.find(name)
            if figures is not None:
                paths |= {"/".join(figures.path[:depth]) for depth in range(1, len(figures.path) + 1)}
        return {
            "jobs": self.versions["jobs"],
            "queues": _listed(paths),
            "keys": _listed({self.picture.job_name(key) for key in changes.jobs})
            if len(changes.jobs) <= LISTED
            else None,
            "nodes": _listed(changes.nodes),
        }

    def _fresh_decisions(self) -> Document:
        base = self.versions["decisions"]
        self.versions["decisions"] = self.decisions.version
        return {"version": self.decisions.version, "base": base, "decisions": self.decisions.since(base)}


def restricted_event(topic: str, document: Document, scope: ViewerScope) -> Document | None:
    """An event of the stream as a viewer may see it; None: not at all."""
    if topic == "tree":
        return document if scope.queues else None
    if topic == "nodes":
        return document if scope.nodes else None
    if topic == "decisions" and document["decisions"] is not None:
        shown = (restricted_decision(row, scope) for row in document["decisions"])
        return {**document, "decisions": [row for row in shown if row is not None]}
    if topic == "changed":
        return _restricted_names(document, scope)
    return document


def _restricted_names(document: Document, scope: ViewerScope) -> Document:
    keys = document["keys"]
    return {
        **document,
        "keys": [key for key in keys if scope.reads_key(key)] if keys is not None else None,
        "queues": document["queues"] if scope.queues else [],
        "nodes": document["nodes"] if scope.nodes else [],
    }


def _listed(names: set[str]) -> list[str] | None:
    return sorted(names) if len(names) <= LISTED else None


def now_text() -> Any:
    """The present as RFC 3339."""
    return time_text(int(time.time() * SECOND))
