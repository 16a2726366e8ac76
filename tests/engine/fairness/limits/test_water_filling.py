"""Water-filling: hand-made levels, and against a slow version in exact fractions."""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubebase.resource_vector import CPU, MEMORY
from pumice.engine.fairness.limits.water_filling import Claimant, deserve, water_fill
from pumice.engine.fairness.share_tree.share_node import NodeKind, ShareNode
from tests.support.groves import Grove


def wish(weight: int, least: int, most: int, age: int = 0) -> Claimant:
    return Claimant(weight, least, most, (age, 0, ""))


@pytest.mark.parametrize(
    ("amount", "wishes", "parts"),
    [
        # 1 : 3 of 16
        (16, [wish(1, 0, 99), wish(3, 0, 99)], [4, 12]),
        # q2 wants 2 of its 12; the other 10 go to q1
        (16, [wish(1, 0, 99), wish(3, 0, 2)], [14, 2]),
        # everybody has what it wants
        (16, [wish(1, 0, 3), wish(1, 0, 4)], [3, 4]),
        # nobody below its least: 8 of 12 are reserved, 4 are left for two
        (12, [wish(1, 8, 99), wish(1, 0, 99), wish(1, 0, 99)], [8, 2, 2]),
        # the level that lifts the first is only found once the second is capped: 9 left for two
        (10, [wish(1, 4, 99, 1), wish(9, 0, 1, 2), wish(1, 0, 99, 3)], [5, 1, 4]),
        # a least above what is wanted stays with its owner
        (10, [wish(1, 6, 6), wish(1, 0, 99)], [6, 4]),
        # 10 / 3 = 3.33 each: the odd one goes to the eldest
        (10, [wish(1, 0, 9, 2), wish(1, 0, 9, 1), wish(1, 0, 9, 3)], [3, 4, 3]),
        # 7 by 1 : 2 : 2 = 1.4, 2.8, 2.8: two odd ones, to the largest fractions
        (7, [wish(1, 0, 9), wish(2, 0, 9, 1), wish(2, 0, 9, 2)], [1, 3, 3]),
        # more is promised than there is: by weight, nobody beyond its promise: 2 of 2, then 4 of 8
        (6, [wish(1, 8, 99), wish(1, 2, 99)], [4, 2]),
        (0, [wish(1, 0, 5), wish(1, 3, 5)], [0, 0]),
        (5, [], []),
    ],
)
def test_levels(amount: int, wishes: list[Claimant], parts: list[int]) -> None:
    assert water_fill(amount, wishes) == parts


@st.composite
def levels(draw: st.DrawFn) -> tuple[int, list[Claimant]]:
    wishes = []
    for age in range(draw(st.integers(1, 7))):
        least = draw(st.integers(0, 8) | st.just(0))
        most = draw(st.integers(least, 30))
        wishes.append(wish(draw(st.integers(1, 7)), least, most, age))
    return draw(st.integers(0, 60)), wishes


def exact_level(amount: int, bounds: list[tuple[int, int, int]]) -> list[Fraction]:
    """The parts at the water level, by trying every stretch between two points where somebody meets a bound."""

    def at(level: Fraction) -> list[Fraction]:
        return [min(max(weight * level, Fraction(least)), Fraction(most)) for weight, least, most in bounds]

    corners = sorted({Fraction(bound, weight) for weight, *both in bounds for bound in both} | {Fraction(0)})
    for low, high in pairwise(corners):
        below, above = sum(at(low), Fraction(0)), sum(at(high), Fraction(0))
        if below <= amount <= above:
            part = (amount - below) / (above - below) if above > below else Fraction(0)
            return at(low + (high - low) * part)
    return at(corners[-1])


@given(levels())
def test_parts_are_the_exact_ones_rounded(case: tuple[int, list[Claimant]]) -> None:
    amount, wishes = case
    promised = sum(w.least for w in wishes)
    bounds = [(w.weight, w.least, w.most) if promised <= amount else (w.weight, 0, w.least) for w in wishes]
    exact = exact_level(amount, bounds)
    parts = water_fill(amount, wishes)
    assert sum(parts) == min(amount, sum(most for _, _, most in bounds))
    for part, truth, (_, least, most) in zip(parts, exact, bounds, strict=True):
        assert least <= part <= most
        assert abs(part - truth) < 1
    # Whoever was rounded up had a fraction at least as large as whoever was rounded down.
    up = [truth - part + 1 for part, truth in zip(parts, exact, strict=True) if part > truth]
    down = [truth - part for part, truth in zip(parts, exact, strict=True) if part < truth]
    assert not up or not down or min(up) >= max(down)


@given(levels(), st.randoms())
def test_nobody_gains_from_its_place_in_the_list(case: tuple[int, list[Claimant]], rng: Random) -> None:
    amount, wishes = case
    before = dict(zip(wishes, water_fill(amount, wishes), strict=True))
    rng.shuffle(wishes)
    assert dict(zip(wishes, water_fill(amount, wishes), strict=True)) == before


# --- in a tree ----------------------------------------------------------------------------------------------------


def asks(queue: ShareNode, cpu: int = 0, memory: int = 0) -> None:
    node: ShareNode | None = queue
    while node is not None:
        node.request[CPU] += cpu
        node.request[MEMORY] += memory
        node = node.parent


def test_level_by_level() -> None:
    # 24 cpu: a (weight 1) and b (3) want everything: 6 and 18. Of b's 18, b1 (1) wants 2 and b2 (1) the rest: 2 and 16.
    # Memory is asked for below b1 only: all 10 are for b, and there for b1.
    grove = Grove([24, 10, 0, 0])
    a, b = grove.group(weight=1), grove.group(weight=3)
    b1, b2 = grove.group(b), grove.group(b)
    asks(a, 50)
    asks(b1, 2, 30)
    asks(b2, 50)
    deserved = deserve(grove.tree, grove.capacity)
    assert deserved[a] == ((CPU, 6),)
    assert deserved[b] == ((CPU, 18), (MEMORY, 10))
    assert deserved[b1] == ((CPU, 2), (MEMORY, 10))
    assert deserved[b2] == ((CPU, 16),)


def test_weights_below_one_count_as_written() -> None:
    # 0.6 : 0.4 of 10
    grove = Grove([10, 0, 0, 0])
    a, b = grove.group(weight=0.6), grove.group(weight=0.4)
    asks(a, 50)
    asks(b, 50)
    deserved = deserve(grove.tree, grove.capacity)
    assert (deserved[a], deserved[b]) == (((CPU, 6),), ((CPU, 4),))


def test_unused_guarantee_of_child_stays_with_its_parent() -> None:
    # a's child is guaranteed 8 of 12 and asks for nothing; b wants everything and gets the other 4.
    grove = Grove([12, 0, 0, 0])
    a, b = grove.group(weight=1), grove.group(weight=5)
    a1 = grove.group(a)
    a1.guarantee = [8, 0, 0, 0]
    asks(b, 50)
    deserved = deserve(grove.tree, grove.capacity)
    assert (deserved[a], deserved[a1], deserved[b]) == (((CPU, 8),), ((CPU, 8),), ((CPU, 4),))


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(1, 4), st.integers(0, 40)), min_size=1, max_size=9))
def test_children_never_deserve_more_than_their_parent(shape: list[tuple[int, int, int]]) -> None:
    grove = Grove([37, 0, 0, 0])
    for above, weight, wanted in shape:
        asks(grove.group(grove.groups[above % len(grove.groups)], weight), wanted)
    deserved = deserve(grove.tree, grove.capacity)
    for node, mine in deserved.items():
        children = [child for child in node.children.values() if child.kind is NodeKind.QUEUE]
        handed_out = sum(dict(deserved[child]).get(CPU, 0) for child in children)
        wanted = sum(child.request[CPU] for child in children)
        assert handed_out == min(dict(mine).get(CPU, 0), wanted)
