"""Task shapes: tasks with the same request that may run on the same nodes share one shape.

Whatever holds for one task of a shape (which nodes it may use, whether it fits anywhere now) holds for all, so it is
computed once. Labels and namespace do not belong to a shape, with one exception: where pods repel or count other pods
(affinity, anti-affinity, spreading), a pod's identity decides where it may go. Only the tasks concerned carry that
identity, and of their labels only those that a selector mentions; a term that arrives later gives it to the tasks it
selects.

A plugin may know more that decides where a job's tasks go, such as their queue. It states that as a rule of the job;
tasks of jobs with different rules have different shapes.
"""

from __future__ import annotations

from collections.abc import Container, Hashable, Iterable, Iterator, Mapping

from kubebase.label_selector import meets
from kubebase.resource_vector import PODS
from pumice.engine.state.card_rule import CardRule
from pumice.engine.state.role_rule import RoleRule
from pumice.engine.state.topology_rule import NETWORK_TOPOLOGY, TopologyRule
from pumice.model.specs import Constraints, Items, PodTerm, Spread, TaskSpec

Identity = tuple[str, frozenset[tuple[str, str]]]
Rules = tuple[tuple[str, Hashable], ...]
"""The rules of plugins for a job, by plugin name. Most jobs have none."""


SHARED_COUNTS = 64
"""Jobs that have up to so many tasks of one shape share their counts."""


class TaskShape:
    """A request with its constraints, shared by all equal tasks. Compared by identity."""

    __slots__ = ("_alone", "ask", "constraints", "coupled", "identity", "index", "items", "role", "rules", "topology")

    def __init__(
        self,
        index: int,
        items: Items,
        constraints: Constraints,
        identity: Identity | None,
        rules: Rules = (),
        role: str | None = None,
    ) -> None:
        self.index = index
        self.items = items
        self.ask: Items = tuple(item for item in items if item[0] != PODS)  # what counts for shares
        self.constraints = constraints
        self.identity = identity
        self.rules = rules
        self.role = role  # None: it does not matter
        rule = self.rule_of(NETWORK_TOPOLOGY) if rules else None
        self.topology = rule if isinstance(rule, TopologyRule) else None
        by_cards = any(isinstance(one, CardRule) and one.concerns(items) for _, one in rules)
        self._alone: dict[int, dict[TaskShape, int]] = {}
        # Whether its feasible nodes depend on the placement of other pods.
        self.coupled = by_cards or identity is not None or constraints.coupled

    def alone(self, number: int) -> dict[TaskShape, int]:
        """The counts of so many tasks of this shape alone: one object for all jobs that have few. Never changed."""
        found = self._alone.get(number)
        if found is None:
            found = {self: number}
            if number <= SHARED_COUNTS:
                self._alone[number] = found
        return found

    @property
    def scored_by_pods(self) -> bool:
        """Whether the scores of its nodes depend on the placement of other pods."""
        return self.coupled or self.role is not None

    @property
    def best_effort(self) -> bool:
        """Whether it requests nothing but a pod slot."""
        return not self.ask

    def rule_of(self, plugin: str) -> Hashable | None:
        """The rule that a plugin set for the jobs with this shape; None: no rule."""
        return next((rule for name, rule in self.rules if name == plugin), None)

    def __repr__(self) -> str:
        return f"Shape({self.index}, {self.items})"


class ShapeTable:
    """All shapes in use, and the anti-affinity terms that give tasks an identity."""

    def __init__(self) -> None:
        self._shapes: dict[tuple[Items, Constraints, Identity | None, Rules, str | None], TaskShape] = {}
        self._made = 0
        self._keys: dict[str, None] = {}  # label keys that some selector mentions
        self._repelling: dict[PodTerm, None] = {}
        self._by_pair: dict[tuple[str, str], list[PodTerm]] = {}
        self._unindexed: list[PodTerm] = []

    def __len__(self) -> int:
        return len(self._shapes)

    def __iter__(self) -> Iterator[TaskShape]:
        return iter(self._shapes.values())

    def of(self, spec: TaskSpec, rules: Rules = ()) -> TaskShape:
        """The shape of a task whose job has these rules, created on first use."""
        items = tuple((j, amount) for j, amount in enumerate(spec.request) if amount)
        constraints = spec.constraints
        who: Identity | None = None
        if (constraints.coupled or self._repelling) and self._needs_identity(spec):
            who = (spec.namespace, frozenset(pair for pair in spec.labels.items() if pair[0] in self._keys))
        role = spec.role if rules and any(isinstance(rule, RoleRule) for _, rule in rules) else None
        key = (items, constraints, who, rules, role)
        shape = self._shapes.get(key)
        if shape is None:
            shape = self._shapes[key] = TaskShape(self._made, items, constraints, who, rules, role)
            self._made += 1
        return shape

    def keep_shapes(self, used: Container[TaskShape]) -> None:
        """Drop all shapes except these."""
        self._shapes = {key: shape for key, shape in self._shapes.items() if shape in used}

    def note_term(self, constraints: Constraints) -> tuple[list[PodTerm], bool]:
        """Record the terms of a task's constraints that concern other pods.

        Returns the anti-affinity terms not known before, and whether a label key was mentioned for the first time.
        """
        terms: tuple[PodTerm | Spread, ...] = (*constraints.affinity, *constraints.anti_affinity, *constraints.spread)
        known = len(self._keys)
        for term in terms:
            self._keys.update(dict.fromkeys(requirement.key for requirement in term.selector or ()))
        new = [term for term in constraints.anti_affinity if term not in self._repelling]
        for repelling in new:
            self._repelling[repelling] = None
            pair = first_pair(repelling)
            if pair is None:
                self._unindexed.append(repelling)
            else:
                self._by_pair.setdefault(pair, []).append(repelling)
        return new, len(self._keys) > known

    @property
    def lessons(self) -> tuple[tuple[PodTerm, ...], tuple[str, ...]]:
        """All recorded anti-affinity terms and label keys."""
        return tuple(self._repelling), tuple(self._keys)

    def recall(self, terms: Iterable[PodTerm], keys: Iterable[str]) -> None:
        """Restore the terms and keys of another table, before the first shape is created."""
        self.note_term(Constraints(anti_affinity=tuple(terms)))
        self._keys = dict.fromkeys(keys)

    def _needs_identity(self, spec: TaskSpec) -> bool:
        constraints = spec.constraints
        if constraints.affinity or constraints.anti_affinity or constraints.spread:
            return True
        terms = [term for pair in spec.labels.items() for term in self._by_pair.get(pair, ())]
        return any(selects(term, spec.namespace, spec.labels) for term in (*terms, *self._unindexed))


def selects(term: PodTerm, namespace: str, labels: Mapping[str, str]) -> bool:
    """Whether a term selects a pod with these labels in this namespace."""
    return (term.namespaces is None or namespace in term.namespaces) and meets(term.selector, labels)


def first_pair(term: PodTerm) -> tuple[str, str] | None:
    """A label that every pod the term selects must have; None if it requires none."""
    for requirement in term.selector or ():
        if requirement.operator == "In" and len(requirement.values) == 1:
            return requirement.key, requirement.values[0]
    return None
