"""Pod affinity and anti-affinity, including the anti-affinity of pods that are already placed.

A pod is near another if it is in the same domain of the term's topology key. A pod with several affinity terms must be
near pods that every one of them selects. The first pod of a set with mutual affinity finds no match: if it matches its
own terms, it may go anywhere that has the domains. Anti-affinity is symmetric: the terms of a placed pod exclude later
pods, even if these have none themselves.
"""

from __future__ import annotations

from pumice.engine.plugins.builtin.predicates.node_columns import Mask
from pumice.engine.plugins.builtin.predicates.placed_pods import DomainCounter, PlacedPods
from pumice.engine.plugins.builtin.predicates.pod_terms import PodsSelected, PodsWithTerm
from pumice.engine.state.task_shapes import Identity, selects
from pumice.model.specs import PodTerm

Terms = tuple[PodTerm, ...]


class PodAffinity:
    """The nodes near the pods that a shape's affinity terms select."""

    reason = "pod affinity not satisfied"

    def __init__(self, terms: Terms, identity: Identity, census: PlacedPods) -> None:
        namespace, labels = identity[0], dict(identity[1])
        company = PodsSelected(tuple((term.namespaces, term.selector) for term in terms))
        keys = dict.fromkeys(term.topology_key for term in terms)
        self._company = [census.counter(company, key) for key in keys]
        self._may_be_first = all(selects(term, namespace, labels) for term in terms)

    def mask(self) -> Mask | None:
        """The nodes that pass now."""
        first = self._may_be_first and not any(company.total for company in self._company)
        mask: Mask | None = None
        for company in self._company:
            near = company.codes >= 0 if first else company.around() > 0
            mask = near if mask is None else mask & near
        return mask


class PodAntiAffinity:
    """The nodes without pods that a shape's anti-affinity terms select."""

    reason = "pod anti-affinity not satisfied"

    def __init__(self, terms: Terms, census: PlacedPods) -> None:
        self._avoided = [
            census.counter(PodsSelected(((term.namespaces, term.selector),)), term.topology_key) for term in terms
        ]

    def mask(self) -> Mask | None:
        """The nodes that pass now; None for all."""
        return _without(self._avoided)


class SymmetricAntiAffinity:
    """The nodes without pods whose anti-affinity terms select a shape."""

    reason = "anti-affinity of a running pod not satisfied"

    def __init__(self, identity: Identity, census: PlacedPods) -> None:
        self._namespace, self._labels = identity[0], dict(identity[1])
        self._census = census
        self._version = -1
        self._avoiding: list[DomainCounter] = []

    def mask(self) -> Mask | None:
        """The nodes that pass now; None for all."""
        census = self._census
        if self._version != census.terms_version:
            terms = census.repelling(self._namespace, self._labels)
            self._avoiding = [census.counter(PodsWithTerm(term), term.topology_key) for term in terms]
            self._version = census.terms_version
        return _without(self._avoiding)


def _without(counters: list[DomainCounter]) -> Mask | None:
    mask: Mask | None = None
    for counter in counters:
        if counter.total:
            none_here = counter.around() == 0
            mask = none_here if mask is None else mask & none_here
    return mask
