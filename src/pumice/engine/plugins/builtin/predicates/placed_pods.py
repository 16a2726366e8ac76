"""Placed pods, counted per topology domain on demand.

Placing a task only records it. On a query, new tasks are sorted into groups of pods that no query so far distinguishes
(``pod_terms``), which keeps the groups few however many labels pods carry. A *counter* evaluates a query over the
domains of a topology: built from the groups on first use, then updated incrementally. Counters last until nodes change,
or until there are too many of them; the groups stay.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np
from numpy.typing import NDArray

from pumice.engine.plugins.builtin.predicates.node_columns import Mask, NodeColumns
from pumice.engine.plugins.builtin.predicates.pod_terms import Handle, Pair, PodQuery, Pods, Port, first_pair
from pumice.engine.state.cluster_node import ClusterNode
from pumice.engine.state.task import Task
from pumice.engine.state.task_shapes import selects
from pumice.model.specs import PodTerm, TaskStatus

Codes = NDArray[np.intp]
Counts = NDArray[np.int64]
GroupKey = tuple[str, tuple[str | None, ...], tuple[PodTerm, ...], tuple[Port, ...], bool]

MOST_COUNTERS = 1000
"""A counter over 5,000 nodes takes 40 kB, and the terms of finished jobs never come back."""


class DomainCounter:
    """The number of pods in each domain that match a query."""

    __slots__ = ("_counted", "_index", "codes", "counts", "question", "total")

    def __init__(self, question: PodQuery, index: Mapping[str, int], codes: Codes, counted: Codes) -> None:
        self.question = question
        self.codes = codes  # the domain of each node
        self.counts: Counts = np.zeros(codes.max(initial=-1) + 2, np.int64)  # the last, for no domain, stays 0
        self.total = 0
        self._index = index
        self._counted = counted  # the same, but -1 where pods do not count

    def add(self, node: ClusterNode, pods: int) -> None:
        """Add ``pods`` pods (negative: remove) on a node; a node without a domain does not count."""
        i = self._index.get(node.name, -1)
        if i >= 0:
            domain = self._counted[i]
            if domain >= 0:
                self.counts[domain] += pods
                self.total += pods

    def around(self) -> Counts:
        """For each node, the number of pods in its domain."""
        return self.counts.take(self.codes)

    def emptied(self) -> DomainCounter:
        """A copy of the counter with all counts at 0."""
        return DomainCounter(self.question, self._index, self.codes, self._counted)


class PlacedPods:
    """All placed tasks, and the counters over them."""

    def __init__(self) -> None:
        self.terms_version = 0  # changes whenever a term is added or its last pod removed
        self._columns: NodeColumns | None = None
        self._new: dict[Task, ClusterNode] = {}  # placed, not yet in a group
        self._seats: dict[Task, tuple[Pods, ClusterNode]] = {}
        self._keys: tuple[str, ...] = ()
        self._groups: dict[GroupKey, Pods] = {}
        self._groups_with: dict[Handle, dict[Pods, None]] = {}
        self._terms_with: dict[Pair | None, dict[PodTerm, None]] = {}
        self._counters: dict[tuple[PodQuery, str | None, bytes | None], DomainCounter] = {}
        self._counters_with: dict[Handle | None, list[DomainCounter]] = {}

    # --- updates -----------------------------------------------------------------------------------------

    def placed(self, task: Task, node: ClusterNode) -> None:
        """Record a task placed on a node."""
        self._new[task] = node

    def removed(self, task: Task) -> None:
        """Record a task removed from its node."""
        if self._new.pop(task, None) is None:
            pods, node = self._seats.pop(task)
            _change(pods, node, -1)
            if not pods.where:
                self._disband(pods)

    def follow(self, columns: NodeColumns) -> bool:
        """Process new placements; True if all counters returned so far are invalid."""
        void = columns is not self._columns or len(self._counters) > MOST_COUNTERS
        if void:
            self._columns = columns
            self._counters.clear()
            self._counters_with.clear()
            for pods in self._groups.values():
                pods.counters.clear()
        if self._new:
            for task, node in self._new.items():
                pods = self._group(task, task.status is TaskStatus.RELEASING)
                self._seats[task] = pods, node
                _change(pods, node, +1)
            self._new.clear()
        return void

    # --- queries ------------------------------------------------------------------------------------------

    def counter(self, question: PodQuery, topology_key: str | None, eligible: Mask | None = None) -> DomainCounter:
        """The counter of a query over the domains of a node label (None: over the nodes themselves).

        ``eligible`` marks the nodes on which pods count; None: all.
        """
        key = question, topology_key, None if eligible is None else eligible.tobytes()
        counter = self._counters.get(key)
        if counter is None:
            unread = [name for name in dict.fromkeys(question.keys) if name not in self._keys]
            if unread:
                self._regroup(unread)
            counter = self._counters[key] = self._count(question, topology_key, eligible)
        return counter

    def _count(self, question: PodQuery, topology_key: str | None, eligible: Mask | None) -> DomainCounter:
        columns = self._columns
        assert columns is not None, "follow the nodes before asking"
        column = columns.names if topology_key is None else columns.label(topology_key)
        counted = column.codes if eligible is None else np.where(eligible, column.codes, -1)
        counter = DomainCounter(question, columns.index, column.codes, counted)
        handle = question.handle
        self._counters_with.setdefault(handle, []).append(counter)
        candidates: Iterable[Pods] = self._groups.values() if handle is None else self._groups_with.get(handle, {})
        for pods in candidates:
            if question.concerns(pods):
                pods.counters.append(counter)
                for node, count in pods.where.items():
                    counter.add(node, count)
        return counter

    def repelling(self, namespace: str, labels: Mapping[str, str]) -> list[PodTerm]:
        """The anti-affinity terms of placed pods that select a pod with these labels."""
        return [
            term
            for pair in (*labels.items(), None)
            for term in self._terms_with.get(pair, ())
            if selects(term, namespace, labels)
        ]

    # --- groups -------------------------------------------------------------------------------------------

    def _group(self, task: Task, leaving: bool) -> Pods:
        """The group of a task, created on first use and then added to the counters that match it."""
        spec = task.spec
        constraints = spec.constraints
        values = tuple(map(spec.labels.get, self._keys))
        key = spec.namespace, values, constraints.anti_affinity, constraints.ports, leaving
        pods = self._groups.get(key)
        if pods is None:
            labels = {name: value for name, value in spec.labels.items() if name in self._keys}
            pods = Pods(spec.namespace, labels, constraints.anti_affinity, constraints.ports, leaving)
            self._groups[key] = pods
            self._enlist(pods)
        return pods

    def _enlist(self, pods: Pods) -> None:
        handles = pods.handles()
        for handle in handles:
            self._groups_with.setdefault(handle, {})[pods] = None
        for term in pods.terms:
            terms = self._terms_with.setdefault(first_pair(term.selector), {})
            if term not in terms:
                terms[term] = None
                self.terms_version += 1
        for its in (*handles, None):
            for counter in self._counters_with.get(its, ()):
                if counter.question.concerns(pods):
                    pods.counters.append(counter)

    def _disband(self, pods: Pods) -> None:
        """Exactly undo ``_group`` for a group that has lost its last pod."""
        values = tuple(map(pods.labels.get, self._keys))
        del self._groups[pods.namespace, values, pods.terms, pods.ports, pods.leaving]
        for handle in pods.handles():
            del self._groups_with[handle][pods]
            if not self._groups_with[handle]:
                del self._groups_with[handle]
                if isinstance(handle, PodTerm):
                    self._drop_term(handle)

    def _drop_term(self, term: PodTerm) -> None:
        pair = first_pair(term.selector)
        del self._terms_with[pair][term]
        if not self._terms_with[pair]:
            del self._terms_with[pair]
        self.terms_version += 1

    def _regroup(self, unread: list[str]) -> None:
        """Distinguish pods by more labels than before. Counters stay: none of them reads the new labels."""
        self._keys = (*self._keys, *unread)
        self._groups.clear()
        self._groups_with.clear()
        self._terms_with.clear()
        for task, (old, node) in self._seats.items():
            pods = self._group(task, old.leaving)
            pods.where[node] = pods.where.get(node, 0) + 1
            self._seats[task] = pods, node

    def validate(self) -> None:
        """Check groups and counters against the tasks; raises AssertionError on the first difference."""
        where: dict[Pods, dict[ClusterNode, int]] = {}
        for pods, node in self._seats.values():
            here = where.setdefault(pods, {})
            here[node] = here.get(node, 0) + 1
        assert where == {pods: pods.where for pods in self._groups.values()}, "groups are off"
        for (question, topology_key, _), counter in self._counters.items():
            fresh = counter.emptied()
            for pods in where:
                concerned = question.concerns(pods)
                assert pods.counters.count(counter) == concerned, f"{question}: counts the wrong pods"
                for node, count in pods.where.items() if concerned else ():
                    fresh.add(node, count)
            same = fresh.total == counter.total and np.array_equal(fresh.counts, counter.counts)
            assert same, f"{question} over {topology_key}: {counter.counts} is not {fresh.counts}"


def _change(pods: Pods, node: ClusterNode, by: int) -> None:
    count = pods.where.get(node, 0) + by
    if count:
        pods.where[node] = count
    else:
        del pods.where[node]
    for counter in pods.counters:
        counter.add(node, by)
