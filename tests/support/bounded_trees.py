"""Share trees with ceilings, guarantees and limited users, in exact fractions; and strategies that make them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np
from hypothesis import strategies as st

from pumice.audit.exact_fluid import exact_fluid
from pumice.engine.fairness.fluid_target.solver import solve_targets
from pumice.engine.fairness.fluid_target.solver_limits import SolverLimits
from tests.support.share_trees import Tree, trees

F = Fraction
Amounts = list[Fraction | None]


@dataclass
class BoundedTree:
    """A tree and its limits. users: the queue, the leaves (by their number) and the cap of each limited user."""

    tree: Tree
    ceiling: dict[int, Amounts] = field(default_factory=dict)
    guarantee: dict[int, list[Fraction]] = field(default_factory=dict)
    users: list[tuple[int, list[int], Amounts]] = field(default_factory=list)
    deserved: dict[int, Amounts] = field(default_factory=dict)

    def target(self) -> list[float]:
        tree = self.tree
        shape = (len(tree.parent), tree.width)
        ceiling, guarantee = np.full(shape, np.inf), np.zeros(shape)
        for n, amounts in self.ceiling.items():
            ceiling[n] = floats(amounts)
        for n, reserved in self.guarantee.items():
            guarantee[n] = floats(reserved)
        deserved = np.full(shape, np.inf)
        for n, named in self.deserved.items():
            deserved[n] = floats(named)
        user = np.full(len(tree.leaf), -1)
        for number, (_, leaves, _) in enumerate(self.users):
            user[leaves] = number
        target: list[float] = solve_targets(
            np.array(tree.parent),
            np.array(floats(tree.weight)),
            np.array(tree.leaf, dtype=np.int64),
            np.array([floats(d) for d in tree.direction]),
            np.array(floats(tree.demand)),
            np.array(tree.rank) if any(tree.rank) else None,
            SolverLimits(
                ceiling,
                guarantee,
                user,
                np.array([floats(cap) for _, _, cap in self.users]).reshape(-1, tree.width),
                np.array([queue for queue, _, _ in self.users], dtype=np.int64),
                deserved if self.deserved else None,
            ),
            tree.job_nodes,
        ).tolist()
        return target

    def exact(self) -> list[Fraction]:
        tree = self.tree
        users = [([tree.leaf[k] for k in leaves], cap) for _, leaves, cap in self.users]
        return exact_fluid(
            tree.parent,
            tree.weight,
            tree.leaf,
            tree.direction,
            tree.demand,
            tree.rank,
            self.ceiling,
            self.guarantee,
            users,
            self.deserved,
            tree.jobs,
        )

    def held(self, target: Sequence[Fraction | float], leaves: Sequence[int], j: int) -> Fraction | float:
        """What these leaves hold together of a resource."""
        return sum((self.tree.direction[k][j] * target[k] for k in leaves), F(0))

    def inner(self) -> list[int]:
        """The queues and namespaces: nodes that may have limits."""
        tree = self.tree
        return [n for n in range(len(tree.parent)) if n not in tree.leaf and n not in tree.jobs]

    def reserved(self, node: int, j: int) -> Fraction:
        return self.guarantee[node][j] if node in self.guarantee else F(0)

    def most(self, node: int, j: int) -> Fraction:
        """The ceiling of a node, and of the root no more than there is; 2 is more than anybody gets."""
        most = self.ceiling[node][j] if node in self.ceiling else None
        return min(F(2) if most is None else most, F(1) if node == 0 else F(2))

    def claimed(self, target: Sequence[Fraction | float], node: int, j: int) -> Fraction | float:
        """What a node claims: its guarantee, or what its children claim together."""
        if node in self.tree.leaf:
            return self.held(target, [self.tree.leaf.index(node)], j)
        return max(self.reserved(node, j), self.together(target, node, j))

    def together(self, target: Sequence[Fraction | float], node: int, j: int) -> Fraction | float:
        """What the children of a node claim together."""
        return sum((self.claimed(target, c, j) for c in self.tree.children(node)), F(0))

    def room(self, target: Sequence[Fraction | float], node: int, j: int) -> Fraction | float:
        """How much more a leaf below a node could have: within all ceilings, outside what others are guaranteed."""
        together = self.together(target, node, j)
        here = self.most(node, j) - together
        if node == 0:
            return here
        unused = max(self.reserved(node, j) - together, F(0))
        return min(here, unused + max(self.room(target, self.tree.parent[node], j), F(0)))


def floats(amounts: Sequence[Fraction | None]) -> list[float]:
    """In floats; None is no limit."""
    return [np.inf if v is None else float(v) for v in amounts]


parts = st.sampled_from([F(1, 50), F(1, 20), F(1, 10), F(1, 7), F(1, 5), F(3, 10), F(1, 2), F(4, 5)])


@st.composite
def bounded_trees(
    draw: st.DrawFn,
    *,
    ceilings: bool = True,
    guarantees: bool = True,
    users: bool = True,
    deserved: bool = False,
    ranked: bool = False,
    unlike: bool = False,
    of: st.SearchStrategy[Tree] | None = None,
) -> BoundedTree:
    """Trees of up to 3 resources and 5 levels with some of each limit, guarantees always possible."""
    tree = draw(trees(resources=draw(st.integers(1, 3)), ranked=ranked, unlike=unlike) if of is None else of)
    bounded = BoundedTree(tree)
    inner = bounded.inner()
    if ceilings:
        for n in draw(st.lists(st.sampled_from(inner), unique=True)):
            bounded.ceiling[n] = [draw(st.none() | parts | st.just(F(0))) for _ in range(tree.width)]
    if guarantees and len(inner) > 1:
        for n in draw(st.lists(st.sampled_from(inner[1:]), unique=True)):
            bounded.guarantee[n] = [draw(st.just(F(0)) | parts) for _ in range(tree.width)]
        make_possible(bounded)
    if deserved and len(inner) > 1:
        for n in draw(st.lists(st.sampled_from(inner[1:]), unique=True)):
            bounded.deserved[n] = [draw(st.none() | st.just(F(0)) | parts | parts) for _ in range(tree.width)]
    if users:
        queues = [n for n in inner if not any(c in inner for c in tree.children(n))]
        # Some queues have their jobs in namespaces: then the node above is the queue.
        leaves = [*tree.leaf, *tree.jobs]
        homes = [n for n in inner if all(c in queues or c in leaves for c in tree.children(n))]
        taken: set[int] = set()
        used: list[int] = []
        for queue in draw(st.lists(st.sampled_from(homes), unique=True)) if homes else []:
            if any(queue in (0, *tree.path(other)) or other in (0, *tree.path(queue)) for other in used):
                continue  # users belong to leaf queues: none of these is above another
            used.append(queue)
            below = [k for k in range(len(tree.leaf)) if queue in (0, *tree.path(tree.leaf[k])) and k not in taken]
            for _ in range(draw(st.integers(1, 3))):
                mine = draw(st.lists(st.sampled_from(below), unique=True)) if below else []
                if mine:
                    below = [k for k in below if k not in mine]
                    taken |= set(mine)
                    cap: Amounts = [draw(st.none() | parts | parts) for _ in range(tree.width)]
                    bounded.users.append((queue, mine, cap))
    return bounded


def make_possible(bounded: BoundedTree) -> None:
    """Take from guarantees until they are within the ceilings, alone and together, at every level."""
    tree = bounded.tree
    nothing = [F(0)] * len(tree.leaf)
    for j in range(tree.width):
        for n in reversed(bounded.inner()):
            if n in bounded.guarantee:
                bounded.guarantee[n][j] = min(bounded.guarantee[n][j], bounded.most(n, j))
            claims = bounded.together(nothing, n, j)
            if claims > bounded.most(n, j):
                for below in bounded.guarantee:
                    if n == 0 or n in tree.path(below)[1:]:
                        bounded.guarantee[below][j] *= bounded.most(n, j) / F(claims)
