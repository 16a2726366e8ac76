"""How much one user of a queue may hold."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pumice.engine.fairness.limits.user_limits import (
    UserLimitRule,
    base_of,
    child_queues,
    configured_capacity,
    static_parts,
    user_rule,
)
from pumice.engine.fairness.share_tree.share_node import NodeKind
from pumice.engine.fairness.share_tree.tree import ShareTree
from pumice.model.specs import Queue

PERCENT = UserLimitRule(25, None)


@pytest.mark.parametrize(
    ("users", "limit"),
    # Of 12 cpu: alone no limit; an equal part while that is more than a quarter, then a quarter.
    [(1, None), (2, 6000), (3, 4000), (4, 3000), (5, 3000), (8, 3000)],
)
def test_an_equal_part_but_never_less_than_the_percentage(users, limit):
    assert PERCENT.limit(12_000, 12_000, users) == limit


@pytest.mark.parametrize(
    ("factor", "limit"),
    # Of 10 cpu. 0.3 is no binary fraction: the nearest below would make 2.999... of it.
    [(0.5, 5000), (1.0, 10_000), (2.0, 20_000), (0.3, 3000), (0.1, 1000), (1e-4, 1)],
)
def test_a_factor_of_the_configured_capacity(factor, limit):
    rule = user_rule(Queue("q", user_limit_factor=factor))
    assert rule is not None
    # However many users there are, and however much is used.
    assert {rule.limit(10_000, base, users) for base in (10_000, 30_000) for users in (1, 2, 9)} == {limit}


def test_user_limit_is_lower_of_percentage_and_factor():
    rule = user_rule(Queue("q", min_user_limit_percent=25, user_limit_factor=0.4))
    assert rule is not None
    # Of 10 cpu: half is more than 4, a third is not. Rounded up: who holds 3333m holds less than a third.
    assert [rule.limit(10_000, 10_000, users) for users in (1, 2, 3)] == [4000, 4000, 3334]


@pytest.mark.parametrize(("percent", "factor"), [(None, None), (100, None), (None, -1.0), (100, -1.0)], ids=str)
def test_unset_or_default_user_limits_impose_no_limit(percent, factor):
    assert user_rule(Queue("q", min_user_limit_percent=percent, user_limit_factor=factor)) is None


def test_user_limit_of_zero_percent_is_equal_part():
    assert UserLimitRule(0, None).limit(12_000, 12_000, 100) == 120


@pytest.mark.parametrize(
    ("configured", "used", "base"),
    # For a unit of 1 cpu.
    [
        (8000, 0, 8000),
        (8000, 7999, 8000),
        (8000, 8000, 9000),
        (8000, 9000, 10_000),
        # 16/3 cpu: more than five tasks of 1 cpu, less than six.
        (Fraction(16_000, 3), 5000, Fraction(16_000, 3)),
        (Fraction(16_000, 3), 6000, 7000),
        (0, 0, 1000),
    ],
)
def test_the_base_is_the_configured_capacity_until_that_is_used_up(configured, used, base):
    assert base_of(configured, used, 1000) == base


def make_tree(*paths: tuple[str, float]) -> ShareTree:
    tree = ShareTree(3)
    for path, weight in paths:
        node = tree.root
        for name in path.split("/"):
            node = tree.child(node, NodeKind.QUEUE, name)
        node.weight = weight
    return tree


def test_parts_by_weight_alone_multiply_down_the_path():
    tree = make_tree(("eng", 2), ("eng/web", 0.6), ("eng/db", 0.4), ("sci", 1))
    tree.child(tree.root.children[NodeKind.QUEUE, "sci"], NodeKind.NAMESPACE, "ns").weight = 5
    parts = {node.path: part for node, part in static_parts(tree.root).items()}
    # Decimals as they are written: 0.6 of 2/3 is 2/5 exactly.
    assert parts == {
        "root": 1,
        "root/eng": Fraction(2, 3),
        "root/sci": Fraction(1, 3),
        "root/eng/web": Fraction(2, 5),
        "root/eng/db": Fraction(4, 15),
    }
    assert [node.name for node in child_queues(tree.root)] == ["eng", "sci"]


def test_configured_capacity_is_deserved_where_named_and_weight_share_elsewhere():
    node = make_tree(("q", 1)).root.children[NodeKind.QUEUE, "q"]
    queue = Queue("q", deserved=((0, 5000), (2, 0)))
    capacity = [16_000, 1000, 10]
    assert configured_capacity(queue, Fraction(1, 3), node, capacity) == [5000, Fraction(1000, 3), 0]
    # Where bounds are in force what it deserves was brought within them.
    # (It then also names what the queue is guaranteed, which is no capacity that somebody configured.)
    node.deserved = ((0, 4000), (1, 10), (2, 1))
    assert configured_capacity(queue, Fraction(1, 3), node, capacity) == [4000, Fraction(1000, 3), 1]


@given(
    percent=st.none() | st.integers(0, 99),
    factor=st.none() | st.fractions(0, 4, max_denominator=1000),
    configured=st.fractions(0, 10**6, max_denominator=60),
    used=st.integers(0, 10**6),
    unit=st.integers(1, 10**5),
    users=st.integers(1, 200),
    held=st.integers(0, 10**6),
)
def test_whole_limits_say_what_fractions_would(percent, factor, configured, used, unit, users, held):
    limit = UserLimitRule(percent, factor).limit(configured, base_of(configured, used, unit), users)
    base = configured if used < configured else Fraction(used + unit)
    terms = []
    if percent is not None and users > 1:
        terms.append(max(base / users, base * percent / 100))
    if factor is not None:
        terms.append(configured * factor)
    if not terms:
        assert limit is None
    else:
        assert limit is not None
        assert (held >= limit) == (held >= min(terms))


@given(
    percent=st.integers(0, 99),
    configured=st.fractions(0, 10**5, max_denominator=60),
    held=st.lists(st.integers(0, 10**4), min_size=1, max_size=12),
    others=st.integers(0, 10**4),
    unit=st.integers(1, 10**4),
)
def test_of_those_who_wait_somebody_may_always_go_on(percent, configured, held, others, unit):
    """Whoever holds least; ``others``: what users hold who do not wait."""
    rule = UserLimitRule(percent, None)
    limit = rule.by_percent(base_of(configured, sum(held) + others, unit), len(held))
    assert limit is None or min(held) < limit
