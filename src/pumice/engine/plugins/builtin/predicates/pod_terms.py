"""Queries about placed pods: those that a selector selects, that repel others by a term, or that use a port.

Queries run on groups of pods that no query distinguishes. So that a new group need not be matched against every query,
nor a new query against every group, both have *handles*: a query has one that every group it matches must have too, or
none if there is no such handle.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from kubebase.label_selector import Requirement, meets
from pumice.engine.state.cluster_node import ClusterNode
from pumice.model.specs import PodTerm

if TYPE_CHECKING:
    from pumice.engine.plugins.builtin.predicates.placed_pods import DomainCounter

Pair = tuple[str, str]
Port = tuple[str, str, int]
Selector = tuple[Requirement, ...] | None
Namespaces = tuple[str, ...] | None
Handle = Pair | PodTerm | tuple[str, int]
"""A label with its value, an anti-affinity term of a pod, or a protocol and a port in use."""

ANY_ADDRESS = "0.0.0.0"


class Pods:
    """Equal placed pods: their number on each node, and the counters that include them."""

    __slots__ = ("counters", "labels", "leaving", "namespace", "ports", "terms", "where")

    def __init__(
        self,
        namespace: str,
        labels: dict[str, str],
        terms: tuple[PodTerm, ...],
        ports: tuple[Port, ...],
        leaving: bool,
    ) -> None:
        self.namespace = namespace
        self.labels = labels  # those that some query reads
        self.terms = terms
        self.ports = ports
        self.leaving = leaving
        self.where: dict[ClusterNode, int] = {}
        self.counters: list[DomainCounter] = []

    def handles(self) -> list[Handle]:
        """All handles by which a query may find them, each once."""
        used: list[Handle] = [(protocol, port) for protocol, _, port in self.ports]
        return list(dict.fromkeys([*self.labels.items(), *self.terms, *used]))


class PodQuery(Protocol):
    """A property of pods, compared by value."""

    @property
    def handle(self) -> Handle | None:
        """A handle of every group it matches."""

    @property
    def keys(self) -> tuple[str, ...]:
        """The label keys it reads."""

    def concerns(self, pods: Pods) -> bool:
        """Whether these pods have the property."""


@dataclass(frozen=True, slots=True)
class PodsSelected:
    """Pods that every one of these selectors selects."""

    picks: tuple[tuple[Namespaces, Selector], ...]
    staying: bool = False  # terminating pods do not count

    @property
    def handle(self) -> Handle | None:
        """The first label that is required with one value."""
        for _, selector in self.picks:
            pair = first_pair(selector)
            if pair is not None:
                return pair
        return None

    @property
    def keys(self) -> tuple[str, ...]:
        """The keys of all requirements."""
        return tuple(requirement.key for _, selector in self.picks for requirement in selector or ())

    def concerns(self, pods: Pods) -> bool:
        """Whether all selectors select them."""
        return not (self.staying and pods.leaving) and all(
            (namespaces is None or pods.namespace in namespaces) and meets(selector, pods.labels)
            for namespaces, selector in self.picks
        )


@dataclass(frozen=True, slots=True)
class PodsWithTerm:
    """Pods that have this anti-affinity term."""

    term: PodTerm

    @property
    def handle(self) -> Handle:
        """The term itself."""
        return self.term

    @property
    def keys(self) -> tuple[str, ...]:
        """None: a term does not depend on labels."""
        return ()

    def concerns(self, pods: Pods) -> bool:
        """Whether they have the term."""
        return self.term in pods.terms


@dataclass(frozen=True, slots=True)
class PodsUsingPort:
    """Pods whose use of this host port conflicts with the requesting pod."""

    protocol: str
    port: int
    address: str

    @property
    def handle(self) -> Handle:
        """Protocol and port."""
        return self.protocol, self.port

    @property
    def keys(self) -> tuple[str, ...]:
        """None: labels have no ports."""
        return ()

    def concerns(self, pods: Pods) -> bool:
        """Whether they use it on the same address, or either side uses it on all addresses."""
        return any(
            (protocol, port) == (self.protocol, self.port)
            and (address == self.address or ANY_ADDRESS in (address, self.address))
            for protocol, address, port in pods.ports
        )


def first_pair(selector: Selector) -> Pair | None:
    """A label and its value that every pod the selector selects has, if it requires one."""
    for requirement in selector or ():
        if requirement.operator == "In" and len(requirement.values) == 1:
            return requirement.key, requirement.values[0]
    return None
