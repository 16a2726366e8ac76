"""What must hold of every target (docs/fairness.md, section 3.7), on trees that hypothesis makes."""

from __future__ import annotations

import random
from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st

from tests.support.share_trees import Tree, assert_close, assert_guarantees, satisfied, trees, used, weights

F = Fraction


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
def test_a_node_with_a_single_child_changes_nothing(tree: Tree, weight: F, data: st.DataObject) -> None:
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
    target = tree.target()
    assert_close(other.target(), [target[k] for k in order])


def max_min(tree: Tree) -> list[F]:
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


def weighted_drf(tree: Tree) -> list[F]:
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
