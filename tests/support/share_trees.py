"""Share trees in exact fractions, to be handed to the solver as floats; and strategies that make them.

The solver is judged against these fractions; so an error that a test sees is the solver's own.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction

import numpy as np
from hypothesis import strategies as st

from pumice.audit.exact_fluid import exact_fluid
from pumice.engine.fairness.fluid_target.flat_tree import JobNodes
from pumice.engine.fairness.fluid_target.solver import solve_targets

F = Fraction


@dataclass
class Tree:
    """A share tree in fractions: nodes with parent and weight; leaves with direction, demand and rank.

    jobs: the rank of each inner node that is a job of unlike tasks; its pieces are the leaves below it.
    """

    parent: list[int] = field(default_factory=lambda: [-1])
    weight: list[Fraction] = field(default_factory=lambda: [F(1)])
    leaf: list[int] = field(default_factory=list)
    direction: list[list[Fraction]] = field(default_factory=list)
    demand: list[Fraction | None] = field(default_factory=list)
    rank: list[int] = field(default_factory=list)
    jobs: dict[int, int] = field(default_factory=dict)

    def node(self, parent: int, weight: Fraction | int = 1) -> int:
        self.parent.append(parent)
        self.weight.append(F(weight))
        return len(self.parent) - 1

    def add(
        self,
        parent: int,
        direction: Sequence[Fraction | int],
        demand: Fraction | int | None = None,
        weight: Fraction | int = 1,
        rank: int = 0,
    ) -> int:
        self.leaf.append(self.node(parent, weight))
        self.direction.append([F(v) for v in direction])
        self.demand.append(None if demand is None else F(demand))
        self.rank.append(rank)
        return len(self.leaf) - 1

    def add_job(
        self,
        parent: int,
        pieces: Sequence[tuple[Sequence[Fraction | int], Fraction | int]],
        weight: Fraction | int = 1,
        rank: int = 0,
    ) -> list[int]:
        """A job of unlike tasks; returns the numbers of its pieces."""
        node = self.node(parent, weight)
        self.jobs[node] = rank
        return [self.add(node, direction, count, rank=k) for k, (direction, count) in enumerate(pieces)]

    @property
    def job_nodes(self) -> JobNodes:
        return JobNodes(np.array(list(self.jobs), dtype=np.int64), np.array(list(self.jobs.values()), dtype=np.int64))

    @property
    def width(self) -> int:
        return len(self.direction[0])

    def copy(self) -> Tree:
        return replace(
            self,
            parent=list(self.parent),
            weight=list(self.weight),
            leaf=list(self.leaf),
            direction=list(self.direction),
            demand=list(self.demand),
            rank=list(self.rank),
            jobs=dict(self.jobs),
        )

    def target(self) -> list[float]:
        target: list[float] = solve_targets(
            np.array(self.parent),
            np.array([float(w) for w in self.weight]),
            np.array(self.leaf, dtype=np.int64),
            np.array([[float(v) for v in d] for d in self.direction]),
            np.array([np.inf if q is None else float(q) for q in self.demand]),
            np.array(self.rank) if any(self.rank) else None,
            jobs=self.job_nodes,
        ).tolist()
        return target

    def exact(self) -> list[Fraction]:
        return exact_fluid(self.parent, self.weight, self.leaf, self.direction, self.demand, self.rank, jobs=self.jobs)

    def children(self, node: int) -> list[int]:
        return [n for n, above in enumerate(self.parent) if above == node]

    def below(self, node: int) -> list[int]:
        """The leaves, by their number, of the subtree of a node."""
        return [k for k, n in enumerate(self.leaf) if node in self.path(n)]

    def path(self, node: int) -> list[int]:
        """From a node up to, and without, the root."""
        nodes = []
        while node > 0:
            nodes.append(node)
            node = self.parent[node]
        return nodes

    def wants(self, node: int) -> bool:
        return any(self.demand[k] != 0 and any(self.direction[k]) for k in self.below(node))


def assert_close(got: Sequence[float], want: Sequence[Fraction | float], within: float = 1e-9) -> None:
    """Nobody's target is off by more than this many tasks."""
    worst = max((abs(g - float(w)) for g, w in zip(got, want, strict=True)), default=0.0)
    assert worst < within, f"off by {worst} tasks: {got} instead of {[float(w) for w in want]}"


def weights() -> st.SearchStrategy[Fraction]:
    return st.sampled_from([F(1), F(1), F(2), F(3), F(10), F(1, 2), F(3, 10), F(7, 5)])


@st.composite
def trees(
    draw: st.DrawFn,
    *,
    resources: int | None = None,
    depth: int = 5,
    ranked: bool = False,
    idle: bool = True,
    unlike: bool = False,
) -> Tree:
    """Trees of up to 8 inner nodes and 14 leaves that ask for 0 to 4 units of 7 to 100; unlike: also such jobs."""
    width = resources or draw(st.integers(1, 4))
    capacity = [draw(st.sampled_from([7, 12, 20, 64, 100])) for _ in range(width)]
    tree = Tree()
    inner = [(0, 0)]
    for _ in range(draw(st.integers(0, 8)) if depth > 1 else 0):
        above, level = draw(st.sampled_from([n for n in inner if n[1] < depth - 1]))
        inner.append((tree.node(above, draw(weights())), level + 1))
    for _ in range(draw(st.integers(1, 14))):
        request = [draw(st.sampled_from([0, 0, 1, 1, 2, 3, 4])) for _ in range(width)]
        if not any(request) and not (idle and draw(st.booleans())):
            request[0] = 1
        demand = draw(st.one_of(st.none(), st.integers(0 if idle else 1, 25)))
        tree.add(
            draw(st.sampled_from(inner))[0],
            [F(v, c) for v, c in zip(request, capacity, strict=True)],
            (demand or 0) if not any(request) else demand,
            draw(weights()),
            draw(st.integers(0, 2)) if ranked else 0,
        )
    for _ in range(draw(st.integers(1, 4)) if unlike else 0):
        pieces = []
        for _ in range(draw(st.integers(2, 4))):
            request = [draw(st.sampled_from([0, 0, 1, 1, 2, 3, 4])) for _ in range(width)]
            request[0] = request[0] or int(not any(request))
            direction = [F(v, c) for v, c in zip(request, capacity, strict=True)]
            pieces.append((direction, draw(st.integers(1, 10))))
        rank = draw(st.integers(0, 2)) if ranked else 0
        tree.add_job(draw(st.sampled_from(inner))[0], pieces, draw(weights()), rank)
    return tree


@st.composite
def halting_trees(draw: st.DrawFn) -> Tree:
    """Trees whose leaves mostly ask for one resource and are full at 5, 10 or 20 %: shares halt, often together."""
    width = draw(st.integers(2, 3))
    tree = Tree()
    for _ in range(draw(st.integers(2, 4))):
        node = tree.node(0, draw(st.sampled_from([F(1), F(1), F(2)])))
        for _ in range(draw(st.integers(1, 4))):
            below = tree.node(node, draw(st.sampled_from([F(1), F(2)]))) if draw(st.booleans()) else node
            request = [F(0)] * width
            request[draw(st.integers(0, width - 1))] = F(1, 100)
            if draw(st.integers(0, 3)) == 0:
                request[draw(st.integers(0, width - 1))] += F(1, 150)
            tree.add(below, request, draw(st.sampled_from([None, 5, 10, 10, 20, 20])), draw(weights()))
    return tree


def copies(tree: Tree, count: int) -> Tree:
    """A root over so many copies of a tree, in a cluster so many times as large: each gets what one alone does."""
    many = Tree()
    for _ in range(count):
        offset = len(many.parent)
        many.parent += [0 if above < 0 else above + offset for above in tree.parent]
        many.weight += tree.weight
        many.leaf += [n + offset for n in tree.leaf]
        many.direction += [[v / count for v in d] for d in tree.direction]
        many.demand += tree.demand
        many.rank += tree.rank
        many.jobs |= {n + offset: rank for n, rank in tree.jobs.items()}
    return many


def wide_tree(seed: int, servers: int) -> Tree:
    """60 leaves four levels deep in a cluster of servers with 64 cpu, 256 mem and 8 gpu."""
    rng = random.Random(seed)
    tree = Tree()
    level = [0]
    for count in (4, 6, 12):
        level = [
            tree.node(rng.choice(level), F(rng.choice([1, 2, 3, 5]), rng.choice([1, 2, 10]))) for _ in range(count)
        ]
    for _ in range(60):
        request = [rng.choice([0, 1, 2, 4, 8]), rng.choice([0, 1, 4, 16]), rng.choice([0, 0, 0, 1])]
        request[0] = request[0] or int(not any(request))
        direction = [F(v, servers * c) for v, c in zip(request, (64, 256, 8), strict=True)]
        demand = rng.randint(1, servers * 3) if rng.random() < 0.8 else None
        tree.add(rng.choice(level), direction, demand, F(rng.choice([1, 2, 3, 7]), rng.choice([1, 2])))
    return tree


def used(tree: Tree, target: Sequence[float]) -> list[float]:
    """The fraction of each resource that is handed out."""
    return [sum(float(d[j]) * x for d, x in zip(tree.direction, target, strict=True)) for j in range(tree.width)]


def satisfied(tree: Tree, target: Sequence[float], k: int) -> bool:
    demand = tree.demand[k]
    return demand is not None and target[k] >= float(demand) - 1e-9


def assert_guarantees(tree: Tree, target: Sequence[float]) -> None:
    """Feasible, and every node has its part of its dominant resource or everything below it is satisfied."""
    assert all(total < 1 + 1e-9 for total in used(tree, target))
    for node in range(1, len(tree.parent)):
        leaves = tree.below(node)
        if all(satisfied(tree, target, k) for k in leaves):
            continue
        part = F(1)
        for n in tree.path(node):
            siblings = [c for c in tree.children(tree.parent[n]) if tree.wants(c)]
            part *= tree.weight[n] / sum(tree.weight[c] for c in siblings)
        held = max(sum(float(tree.direction[k][j]) * target[k] for k in leaves) for j in range(tree.width))
        assert held > float(part) - 1e-9, f"node {node} holds {held}, its part is {part}"
