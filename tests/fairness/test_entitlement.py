"""The solver against worked cases, against the exact fluid, and against what must hold of every target.

Trees are made in exact fractions (`Tree`) and handed to the solver as floats; so an error seen here is the
solver's.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from pumice.fairness.entitlement import solve
from tests.oracles.exact_fluid import exact_fluid

F = Fraction
Demand = Fraction | None  # None: no limit

CASES = yaml.safe_load((Path(__file__).parents[1] / "cases" / "hdrf.yaml").read_text())["cases"]


@dataclass
class Tree:
    """A share tree in fractions: nodes with parent and weight; leaves with direction, demand and rank."""

    parent: list[int] = field(default_factory=lambda: [-1])
    weight: list[Fraction] = field(default_factory=lambda: [F(1)])
    leaf: list[int] = field(default_factory=list)
    direction: list[list[Fraction]] = field(default_factory=list)
    demand: list[Demand] = field(default_factory=list)
    rank: list[int] = field(default_factory=list)

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
        )

    def target(self) -> np.ndarray[Any, np.dtype[np.float64]]:
        return solve(
            np.array(self.parent),
            np.array([float(w) for w in self.weight]),
            np.array(self.leaf, dtype=np.int64),
            np.array([[float(v) for v in d] for d in self.direction]),
            np.array([np.inf if q is None else float(q) for q in self.demand]),
            np.array(self.rank) if any(self.rank) else None,
        )

    def exact(self) -> list[Fraction]:
        return exact_fluid(self.parent, self.weight, self.leaf, self.direction, self.demand, self.rank)

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


def assert_close(got: Sequence[float] | np.ndarray[Any, Any], want: Sequence[Any], within: float = 1e-9) -> None:
    assert np.abs(np.asarray(got) - np.array([float(v) for v in want])).max(initial=0) < within


# --- trees to try -----------------------------------------------------------------------------------------------


def weights() -> st.SearchStrategy[Fraction]:
    return st.sampled_from([F(1), F(1), F(2), F(3), F(10), F(1, 2), F(3, 10), F(7, 5)])


@st.composite
def trees(
    draw: st.DrawFn, *, resources: int | None = None, depth: int = 5, ranked: bool = False, idle: bool = True
) -> Tree:
    """Trees of up to 8 inner nodes and 14 leaves that ask for 0 to 4 units of 7 to 100."""
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


# --- worked cases -----------------------------------------------------------------------------------------------


def case_tree(case: dict[str, Any]) -> tuple[Tree, list[str]]:
    capacity = {name: F(str(amount)) for name, amount in case["capacity"].items()}
    tree, names = Tree(), []

    def plant(spec: dict[str, Any], parent: int) -> None:
        weight = F(str(spec.get("weight", 1)))
        if "children" in spec:
            node = tree.node(parent, weight) if parent >= 0 else 0
            for child in spec["children"]:
                plant(child, node)
            return
        request = [F(str(spec["demand"].get(name, 0))) / amount for name, amount in capacity.items()]
        tree.add(parent, request, spec.get("max_tasks"), weight)
        names.append(spec["name"])

    plant(case["tree"], -1)
    return tree, names


@pytest.mark.parametrize("case", CASES, ids=lambda case: str(case["id"]))
def test_worked_case(case: dict[str, Any]) -> None:
    tree, names = case_tree(case)
    got = tree.target()
    expected = case["expected"]
    if expected.get("ambiguous"):
        assert_guarantees(tree, got)
    else:
        want = [F(str(expected["static"][name])) for name in names]
        assert_close(got, want, within=float(expected.get("tolerance", 1e-9)))


def test_all_cases_are_there() -> None:
    assert len({case["id"] for case in CASES}) == 50


def test_example_of_the_docstring() -> None:
    # 10 cpu, 10 mem. A: c (weight 3, 3 cpu tasks) and m (mem); B: k (mem). c is full at 0.3, A halts there until m
    # has 0.3 as well, then m and k rise to 0.5 each.
    tree = Tree()
    a, b = tree.node(0), tree.node(0)
    tree.add(a, [F(1, 10), 0], 3, weight=3)
    tree.add(a, [0, F(1, 10)])
    tree.add(b, [0, F(1, 10)])
    assert_close(tree.target(), [3, 5, 5])


def test_siblings_that_halt_together_get_equal_drops() -> None:
    # Of 100 cpu and mem: A and B each hold 20 cpu (10 : 1 and 5 : 1 against their mem leaf) and halt at 0.2, A with
    # 2 mem, B with 4. D's 84 mem tasks are full by then if D weighs enough: 10 mem are left, 5 for each: 7 and 9.
    tree = Tree()
    a, b, d = tree.node(0), tree.node(0), tree.node(0, 10)
    for node, weight in ((a, 10), (b, 5)):
        tree.add(node, [F(1, 100), 0], 20, weight=weight)
        tree.add(node, [0, F(1, 100)])
    tree.add(d, [0, F(1, 100)], 84)
    assert_close(tree.target(), [20, 7, 20, 9, 84])


# --- against the exact fluid ------------------------------------------------------------------------------------


@given(trees())
def test_equals_the_exact_fluid(tree: Tree) -> None:
    assert_close(tree.target(), tree.exact())


@given(trees(ranked=True))
def test_equals_the_exact_fluid_with_classes(tree: Tree) -> None:
    assert_close(tree.target(), tree.exact())


@given(halting_trees())
def test_equals_the_exact_fluid_where_shares_halt(tree: Tree) -> None:
    assert_close(tree.target(), tree.exact())


@given(halting_trees(), st.sampled_from([3, 40, 200]))
def test_many_copies_halt_together(tree: Tree, count: int) -> None:
    one = tree.exact()
    assert_close(copies(tree, count).target(), one * count)


@given(trees(ranked=True, idle=False), st.sampled_from([50, 300]))
def test_many_copies_share_equally(tree: Tree, count: int) -> None:
    one = tree.exact()
    assert_close(copies(tree, count).target(), one * count)


# --- large clusters: less than a millionth of a task ------------------------------------------------------------


@pytest.mark.parametrize("servers", [5_000, 50_000])
def test_whole_targets_of_a_large_cluster(servers: int) -> None:
    # Per server 64 cpu and 256 mem. a (3) over x (1) and y (2): tasks of 1 cpu and 4 mem, 1/64 of a server each;
    # b (1) over z: 2 cpu, and w: 1 mem. At level t a has 3t of both and b t of both: both are used up at 1/4.
    # x: 1/4 of 64 = 16 per server, y 32; z: 1/4 of 64 cpu, by 2 each, 8; w: 1/4 of 256 mem = 64.
    cpu, mem = 64 * servers, 256 * servers
    tree = Tree()
    a, b = tree.node(0, 3), tree.node(0, 1)
    tree.add(a, [F(1, cpu), F(4, mem)], weight=1)
    tree.add(a, [F(1, cpu), F(4, mem)], weight=2)
    tree.add(b, [F(2, cpu), 0])
    tree.add(b, [0, F(1, mem)])
    assert_close(tree.target(), [v * servers for v in (16, 32, 8, 64)], within=1e-7)


@pytest.mark.parametrize("servers", [5_000, 50_000])
def test_whole_targets_through_a_halt_and_several_phases(servers: int) -> None:
    # Per server 10 cpu, 10 mem, 20 gpu. A and B as in the docstring: m and k get 5 mem per server, c 3 cpu. C (2)
    # wants cpu and has what c leaves, 7, at level 0.35. B has a leaf g for gpu beside k: 10 per server when memory
    # is used up, at level 0.5; nobody else wants any, so it goes on to 20.
    cpu, mem, gpu = 10 * servers, 10 * servers, 20 * servers
    tree = Tree()
    a, b = tree.node(0), tree.node(0)
    tree.add(a, [F(1, cpu), 0, 0], 3 * servers, weight=3)
    tree.add(a, [0, F(1, mem), 0])
    tree.add(b, [0, F(1, mem), 0])
    tree.add(b, [0, 0, F(1, gpu)])
    tree.add(tree.node(0, 2), [F(1, cpu), 0, 0])
    assert_close(tree.target(), [v * servers for v in (3, 5, 5, 20, 7)], within=1e-7)


@pytest.mark.parametrize("servers", [5_000, 50_000])
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_large_clusters_equal_the_exact_fluid(seed: int, servers: int) -> None:
    tree = wide_tree(seed, servers)
    exact = tree.exact()
    assert max(exact) > servers
    assert_close(tree.target(), exact, within=1e-7)


def test_a_hundred_thousand_leaves_and_one_as_heavy_as_all() -> None:
    # The heavy one gets a half, tasks of 5e-7: a million. The others 5e-6 each, tasks of 1e-7: 50, of 51 and more.
    count = 100_000
    target = solve(
        np.append(-1, np.zeros(count + 1, dtype=np.int64)),
        np.append(np.ones(count + 1), float(count)),
        np.arange(1, count + 2),
        np.append(np.full(count, 1e-7), 5e-7)[:, None],
        np.append(np.arange(51.0, count + 51), np.inf),
    )
    assert abs(target[-1] - 1_000_000) < 1e-6
    assert np.abs(target[:-1] - 50).max() < 1e-9


# --- classes ----------------------------------------------------------------------------------------------------


def test_the_next_class_gets_what_the_one_before_leaves() -> None:
    # 10 cpu. first: 3 tasks and 4 tasks, both satisfied; second: 3 left for two, 1.5 each; third: nothing.
    tree = Tree()
    for demand, rank in ((3, 1), (4, 1), (None, 2), (None, 2), (None, 3)):
        tree.add(0, [F(1, 10)], demand, rank=rank)
    assert_close(tree.target(), [3, 4, F(3, 2), F(3, 2), 0])


def test_the_next_class_grows_when_the_one_before_is_frozen() -> None:
    # 10 cpu, 4 gpu. x (1 cpu, 1 gpu) comes before y (1 cpu) in queue q; p (1 cpu) is q's sibling. x and q have level
    # g/4 by gpu, p follows with cpu: at level 1 gpu is used up: x 4 tasks, but cpu is short: at level t x has 4t cpu
    # and p 10t: t = 10/14, x 20/7, p 50/7. With 3 tasks of p, x takes all gpu (4), y the last 3 cpu.
    for demand, want in ((None, (F(20, 7), 0, F(50, 7))), (3, (4, 3, 3))):
        tree = Tree()
        q = tree.node(0)
        tree.add(q, [F(1, 10), F(1, 4)], rank=0)
        tree.add(q, [F(1, 10), 0], rank=1)
        tree.add(0, [F(1, 10), 0], demand)
        assert_close(tree.target(), want)


def test_first_come_first_served_is_a_class_for_each() -> None:
    # 100 leaves that want 3 of 100 each, in order: 33 get 3, the next 1, the others nothing.
    tree = Tree()
    for turn in range(100):
        tree.add(0, [F(1, 100)], 3, rank=turn)
    assert_close(tree.target(), [3] * 33 + [1] + [0] * 66)


def test_a_queues_share_counts_all_its_classes() -> None:
    # 12 cpu for two queues: 6 each, whatever the order inside: 2 + 4 and 6.
    tree = Tree()
    q, p = tree.node(0), tree.node(0)
    tree.add(q, [F(1, 12)], 2, rank=0)
    tree.add(q, [F(1, 12)], rank=1)
    tree.add(p, [F(1, 12)])
    assert_close(tree.target(), [2, 4, 6])


def test_inner_nodes_belong_to_the_first_class() -> None:
    # 10 cpu: the inner node's leaf and the first class share 4 : 4, the second class has to wait for both: 2.
    tree = Tree()
    tree.add(tree.node(0), [F(1, 10)], 4)
    tree.add(0, [F(1, 10)], 4, rank=0)
    tree.add(0, [F(1, 10)], rank=1)
    assert_close(tree.target(), [4, 4, 2])


# --- what must hold of every target -----------------------------------------------------------------------------


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


@given(trees())
def test_share_guarantee(tree: Tree) -> None:
    assert_guarantees(tree, tree.target())


@given(trees(ranked=True))
def test_nobody_is_left_out_who_could_be_served(tree: Tree) -> None:
    target = tree.target()
    total = used(tree, target)
    for k, direction in enumerate(tree.direction):
        limit = tree.demand[k]
        assert target[k] >= 0
        assert limit is None or target[k] <= limit
        short = [j for j, v in enumerate(direction) if v and total[j] > 1 - 1e-9]
        assert satisfied(tree, target, k) or short


@given(trees(idle=False))
def test_siblings_do_not_envy_each_other(tree: Tree) -> None:
    # What a could run with all that its sibling b holds, made as heavy as a, is no more than it has.
    target = tree.target()
    for a in range(len(tree.leaf)):
        for b in range(len(tree.leaf)):
            if tree.parent[tree.leaf[a]] == tree.parent[tree.leaf[b]] and not satisfied(tree, target, a):
                scale = float(tree.weight[tree.leaf[a]] / tree.weight[tree.leaf[b]]) * target[b]
                bundle = [
                    scale * float(theirs / mine)
                    for mine, theirs in zip(tree.direction[a], tree.direction[b], strict=True)
                    if mine
                ]
                assert min(bundle) < target[a] + 1e-9


@given(trees(), st.data())
def test_the_size_of_a_task_does_not_matter(tree: Tree, data: st.DataObject) -> None:
    k = data.draw(st.integers(0, len(tree.leaf) - 1))
    factor = data.draw(st.sampled_from([F(1, 1000), F(1, 3), F(7), F(10)]))
    other = tree.copy()
    demand = tree.demand[k]
    other.direction[k] = [v * factor for v in tree.direction[k]]
    other.demand[k] = None if demand is None else demand / factor
    want = tree.target()
    want[k] /= float(factor)
    assert_close(other.target(), want, within=1e-8)


@given(trees(ranked=True), st.data())
def test_only_ratios_of_sibling_weights_matter(tree: Tree, data: st.DataObject) -> None:
    node = data.draw(st.sampled_from(sorted({above for above in tree.parent if above >= 0})))
    factor = data.draw(st.sampled_from([F(1, 10), F(1, 3), F(7), F(1000)]))
    other = tree.copy()
    for child in tree.children(node):
        other.weight[child] *= factor
    assert_close(other.target(), tree.target())


@given(trees(), weights(), st.data())
def test_a_node_with_a_single_child_changes_nothing(tree: Tree, weight: Fraction, data: st.DataObject) -> None:
    # Between a node and its parent comes a node with its weight; its own no longer matters.
    node = data.draw(st.integers(1, len(tree.parent) - 1))

    def moved(n: int) -> int:
        return n + (n >= node)

    other = tree.copy()
    other.parent = [moved(above) if above >= 0 else above for above in tree.parent]
    other.parent[node:node] = [other.parent[node]]
    other.parent[node + 1] = node
    other.weight[node:node] = [tree.weight[node]]
    other.weight[node + 1] = weight
    other.leaf = [moved(n) for n in tree.leaf]
    assert_close(other.target(), tree.target())


@given(trees(ranked=True), st.randoms(use_true_random=False))
def test_the_order_of_siblings_does_not_matter(tree: Tree, rng: random.Random) -> None:
    # Give every node a new number at random, parents before children, and the leaves a new order.
    number = {0: 0}
    while len(number) < len(tree.parent):
        ready = [n for n in range(len(tree.parent)) if n not in number and tree.parent[n] in number]
        number[rng.choice(ready)] = len(number)
    order = list(range(len(tree.leaf)))
    rng.shuffle(order)
    nodes = sorted(number, key=lambda n: number[n])
    other = Tree(
        parent=[-1] + [number[tree.parent[n]] for n in nodes[1:]],
        weight=[tree.weight[n] for n in nodes],
        leaf=[number[tree.leaf[k]] for k in order],
        direction=[tree.direction[k] for k in order],
        demand=[tree.demand[k] for k in order],
        rank=[tree.rank[k] for k in order],
    )
    assert_close(other.target(), tree.target()[order])


def max_min(tree: Tree) -> list[Fraction]:
    """Hierarchical weighted max-min of one resource: each node's amount is poured out among its children."""
    size = [v[0] for v in tree.direction]
    want = {n: F(1) if q is None else q * v for n, q, v in zip(tree.leaf, tree.demand, size, strict=True)}
    for n in reversed(range(len(tree.parent))):
        want.setdefault(n, sum((want[c] for c in tree.children(n)), F(0)))
    amount = {0: min(F(1), want[0])}
    for n in range(len(tree.parent)):
        left, hungry = amount[n], tree.children(n)
        while hungry:
            level = left / sum(tree.weight[c] for c in hungry)
            full = [c for c in hungry if want[c] <= level * tree.weight[c]]
            for c in full or hungry:
                amount[c] = want[c] if full else level * tree.weight[c]
            left -= sum(amount[c] for c in full)
            hungry = [c for c in hungry if c not in full] if full else []
    return [amount[n] / v for n, v in zip(tree.leaf, size, strict=True)]


@given(trees(resources=1, idle=False))
def test_one_resource_is_hierarchical_max_min(tree: Tree) -> None:
    assert_close(tree.target(), max_min(tree))


def weighted_drf(tree: Tree) -> list[Fraction]:
    """Progressive filling without a hierarchy: all dominant shares rise by weight until full or out of a resource."""
    weight = [tree.weight[n] for n in tree.leaf]
    tasks = [F(0)] * len(weight)
    growing = list(range(len(weight)))
    while growing:
        speed = {k: weight[k] / max(tree.direction[k]) for k in growing}
        left = [1 - sum(d[j] * x for d, x in zip(tree.direction, tasks, strict=True)) for j in range(tree.width)]
        drain = [sum(tree.direction[k][j] * speed[k] for k in growing) for j in range(tree.width)]
        times = [room / rate for room, rate in zip(left, drain, strict=True) if rate]
        times += [(q - tasks[k]) / speed[k] for k in growing if (q := tree.demand[k]) is not None]
        time = min(times)
        for k in growing:
            tasks[k] += time * speed[k]
        out = {j for j in range(tree.width) if drain[j] and left[j] == time * drain[j]}
        growing = [k for k in growing if tasks[k] != tree.demand[k] and not any(tree.direction[k][j] for j in out)]
    return tasks


@given(trees(depth=1, idle=False))
def test_a_flat_tree_is_weighted_drf(tree: Tree) -> None:
    assert_close(tree.target(), weighted_drf(tree))


# --- edges ------------------------------------------------------------------------------------------------------


def test_a_single_node() -> None:
    # 0.1 and 0.2 a task: 5 fit, whatever the weight.
    root, leaf, direction = np.array([-1]), np.array([0]), np.array([[0.1, 0.2]])
    assert solve(root, np.array([3.0]), leaf, direction, np.array([np.inf])).tolist() == [5.0]
    assert solve(root, np.array([3.0]), leaf, direction, np.array([2.0])).tolist() == [2.0]


def test_no_leaves() -> None:
    nothing = np.empty(0, dtype=np.int64)
    got = solve(np.array([-1, 0]), np.ones(2), nothing, np.empty((0, 2)), np.empty(0), nothing)
    assert got.shape == (0,)


def test_subtrees_without_growth() -> None:
    # a has no demand below, b no leaf at all, c asks for nothing: d gets everything, e has all it wants.
    tree = Tree()
    a, _, c, d = (tree.node(0) for _ in range(4))
    tree.add(a, [F(1, 10), 0], 0)
    tree.add(c, [0, 0], 7)
    tree.add(d, [F(1, 10), F(1, 20)])
    tree.add(d, [0, F(1, 20)], 2)
    assert_close(tree.target(), [0, 7, 10, 2])


def test_who_asks_for_nothing_gets_its_demand_even_without_limit() -> None:
    tree = Tree()
    tree.add(0, [0])
    tree.add(0, [F(1, 4)])
    assert tree.target().tolist() == [np.inf, 4.0]


def test_a_demand_that_fits_is_met_to_the_last_bit() -> None:
    demand = [0.1, 3.0, 1e6 / 3]
    got = solve(np.array([-1, 0, 0, 0]), np.ones(4), np.arange(1, 4), np.full((3, 1), 1e-7), np.array(demand))
    assert got.tolist() == demand


def test_the_satisfied_have_exactly_their_demand_when_others_are_short() -> None:
    tree = Tree()
    for demand in (F(1, 3), F(7, 10), None):
        tree.add(0, [F(1, 9), F(1, 7)], demand)
    assert tree.target().tolist()[:2] == [1 / 3, 0.7]


def test_a_task_larger_than_the_cluster() -> None:
    # Dominant shares of a half each: a quarter of a task of size 2.
    tree = Tree()
    tree.add(0, [F(2)])
    tree.add(0, [F(1, 100)])
    assert_close(tree.target(), [F(1, 4), 50])


def test_two_resources_that_end_at_once() -> None:
    # a: cpu, b: mem, both used up at level 1/2 by c, who wants both; nobody has anything left to go on with.
    tree = Tree()
    tree.add(0, [F(1, 10), 0])
    tree.add(0, [0, F(1, 10)])
    tree.add(0, [F(1, 10), F(1, 10)])
    assert_close(tree.target(), [5, 5, 5])


def test_a_long_chain() -> None:
    count = 300
    parent = np.arange(-1, count - 1)
    got = solve(parent, np.full(count, 0.3), parent[-1:] + 1, np.array([[0.25]]), np.array([np.inf]))
    assert got.tolist() == [4.0]


def test_arguments_are_left_as_they_were() -> None:
    arguments = (
        np.array([-1, 0, 0]),
        np.array([1.0, 2.0, 3.0]),
        np.array([1, 2]),
        np.array([[0.1, 0.0], [0.1, 0.2]]),
        np.array([3.0, np.inf]),
        np.array([1, 0]),
    )
    before = [a.copy() for a in arguments]
    solve(*arguments)
    for was, now in zip(before, arguments, strict=True):
        assert (was == now).all()
