"""Many piecewise-linear curves at once: what the entitlement solver adds up and looks things up in.

A curve says what a subtree has been given since the phase began, by how far the subtree has come. Its
points are rows of shared arrays; all curves of a step lie end to end, told apart by a number per point, so
that one NumPy call serves thousands of them.

How far a curve has come has two coordinates, compared one after the other:

    level    the weighted share
    sliver   while the level stands still: the raw dominant share handed out since it came to a halt

    given |               /     From a to b the level stands still at 0.3 and only the sliver moves. At (0.3, 0)
          |              | b    the curve is at a, at (0.3, 0.05) on the way from a to b, at (0.4, 0) past b.
          |              | a    At (0.2, 0.05) it is where its level is 0.2: a sliver moves those who halt at
          |           .         that level, and no others.
          |_______.____________
                 0.2    0.3  level

What was given is a row: a column for each resource, and last the raw dominant share, summed over the
leaves. The last one grows wherever anything does; so it can measure slivers.

Numerics. Curves are kept as points, added and interpolated, never as slopes, which are huge and cancel near
a halt. A resource of which nothing is given keeps its value to the last bit, so a share stands still or it
does not. Levels that should be equal can differ by rounding, yet curves that halt at one level must be seen
to do so: levels closer than TIE are made equal before curves are added.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

IntArray = NDArray[np.int64]
FloatArray = NDArray[np.float64]
BoolArray = NDArray[np.bool_]

LEVEL_TOLERANCE = 1e-12  # relative: far above rounding, and harmless where it is wrong
BLOCK = 8  # rows that running_total adds up before it goes on with the totals of blocks


@dataclass(frozen=True, slots=True)
class CurvePoint:
    """Places on curves, one per entry."""

    level: FloatArray
    sliver: FloatArray

    def take(self, index: IntArray) -> CurvePoint:
        """The places at these indices."""
        return CurvePoint(self.level.take(index), self.sliver.take(index))


@dataclass(frozen=True, slots=True)
class Curves:
    """Curves laid end to end: points with equal `of` are one curve, in order, and `of` never falls."""

    of: IntArray
    place: CurvePoint
    rows: FloatArray

    def take(self, index: IntArray) -> Curves:
        """The curves with only the points at these indices."""
        return Curves(self.of.take(index), self.place.take(index), self.rows.take(index, axis=0))


def way_between(at: CurvePoint, a: CurvePoint, b: CurvePoint) -> FloatArray:
    """How far, 0 to 1, each place lies on the way from a to b, the next point of its curve; 0 if b is a."""
    halted = a.level == b.level
    span = np.where(halted, b.sliver - a.sliver, b.level - a.level)
    gone = np.where(halted, at.sliver - a.sliver, at.level - a.level)
    return np.clip(np.divide(gone, span, out=np.zeros_like(gone), where=span > 0), 0.0, 1.0)


def place_between(a: CurvePoint, b: CurvePoint, way: FloatArray) -> CurvePoint:
    """The place that lies so far (0 <= way < 1) on the way from a to b."""
    halted = a.level == b.level
    level = np.minimum(a.level + way * (b.level - a.level), b.level)
    # So little of the way that the level is still the same is none of it: there the sliver is still a's.
    sliver = np.where(halted, a.sliver + way * (b.sliver - a.sliver), np.where(level > a.level, 0.0, a.sliver))
    return CurvePoint(level, sliver)


def run_starts(label: NDArray[np.generic]) -> BoolArray:
    """Mark the first entry of every run of equal labels."""
    first = np.ones(len(label), dtype=bool)
    np.not_equal(label[1:], label[:-1], out=first[1:])
    return first


def run_ends(label: NDArray[np.generic]) -> BoolArray:
    """Mark the last entry of every run of equal labels."""
    last = np.ones(len(label), dtype=bool)
    np.not_equal(label[1:], label[:-1], out=last[:-1])
    return last


def numbered(first: BoolArray) -> IntArray:
    """For every entry the number of its run, from 0, given the marks of run_starts."""
    number: IntArray = np.cumsum(first) - 1
    return number


def start_of_run(first: BoolArray) -> IntArray:
    """For every entry the index at which its run starts, given the marks of run_starts."""
    return np.maximum.accumulate(np.where(first, np.arange(len(first)), 0))


def running_total(rows: FloatArray, label: IntArray) -> FloatArray:
    """Sums of rows from the start of each run of equal labels up to and including each row.

    A cumsum drags the rounding of everything before along, and a hundred thousand equal terms round the same
    way each time. So sums are made of sums of 2, 4, ... rows, and then of those of blocks.
    """
    offset = np.arange(len(label)) - start_of_run(run_starts(label))
    within = offset % BLOCK
    longest = int(offset.max(initial=0))
    total = rows.copy()
    step = 1
    while step <= min(longest, BLOCK - 1):
        total[step:] += np.where(within[step:, None] >= step, total[:-step], 0.0)
        step *= 2
    if longest >= BLOCK:
        full = np.flatnonzero(within == BLOCK - 1)
        blocks = running_total(total.take(full, axis=0), label.take(full))
        later = np.flatnonzero(offset >= BLOCK)
        total[later] += blocks.take(np.searchsorted(full, later) - 1, axis=0)
    return total


def sort_by(major: IntArray, minor: FloatArray) -> IntArray:
    """The order by a non-negative integer, then by a number."""
    order = np.argsort(minor)
    key = major.take(order)
    if key.max(initial=0) < 1 << 16:  # these NumPy sorts by radix, several times as fast
        return order.take(np.argsort(key.astype(np.uint16), kind="stable"))
    return order.take(np.argsort(key, kind="stable"))


def leaf_curves(of: IntArray, weight: FloatArray, held: FloatArray, most: FloatArray, rows: FloatArray) -> Curves:
    """One curve for all leaves with equal `of`, which never falls: what they are given together by a level.

    A leaf goes from `held` to `most` of raw dominant share, by its weight per level, along its row. By level t
    it has been given min(t * weight, most) less min(t * weight, held). Each is the sum of the bounds that are
    passed by then, added up from below, and of t times the weights of the others, added up from above.
    """
    count = len(of)
    first = run_starts(of)
    group = numbered(first)
    origin = np.flatnonzero(first)
    begun = np.flatnonzero(held > 0)
    start = held / weight
    # The bounds of all leaves with their sign in the sum; and a bare point where each curve begins.
    leaf = np.concatenate([np.arange(count), begun, origin])
    sign = np.repeat([1.0, -1.0, 0.0], [count, len(begun), len(origin)])
    bound = np.concatenate([most, held.take(begun), np.zeros(len(origin))])
    level = np.concatenate([most / weight, start.take(begun), np.minimum.reduceat(start, origin)])
    order = sort_by(group.take(leaf), level)
    leaf, sign, bound, level = (x.take(order) for x in (leaf, sign, bound, level))
    group = group.take(leaf)
    row = rows.take(leaf, axis=0)
    past = running_total(row * (sign * bound)[:, None], group)
    slope = running_total((row * (sign * weight.take(leaf))[:, None])[::-1], group[::-1])[::-1]
    slope[:-1] = slope[1:]  # of the bounds that come later
    slope[run_ends(group)] = 0.0
    last = np.flatnonzero(run_ends(group) | run_ends(level))  # one point for each level
    group, level = group.take(last), level.take(last)
    given = np.maximum(past.take(last, axis=0) + level[:, None] * slope.take(last, axis=0), 0.0)
    given[run_starts(group)] = 0.0
    return Curves(of.take(origin).take(group), CurvePoint(level, np.zeros(len(level))), given)


def end_to_end(curves: Curves, owner: IntArray) -> FloatArray:
    """Rows with all that the curves before of the same owner got: curves that are followed one after another."""
    last = np.flatnonzero(run_ends(curves.of))
    done = running_total(curves.rows.take(last, axis=0), owner[last])
    earlier = np.zeros_like(done)
    earlier[1:] = done[:-1]
    earlier[run_starts(owner[last])] = 0.0
    return curves.rows + earlier.take(numbered(run_starts(curves.of)), axis=0)


def thinned(curves: Curves, step: int) -> Curves:
    """The curves with every step-th point only, and their last."""
    first = run_starts(curves.of)
    offset = np.arange(len(first)) - start_of_run(first)
    return curves.take(np.flatnonzero((offset % step == 0) | run_ends(curves.of)))


def cut_off(curves: Curves, level: FloatArray) -> Curves:
    """The curves up to the first point past this level, which is given for every point."""
    kept = run_starts(curves.of)
    kept[1:] |= curves.place.level[:-1] <= level[:-1]
    return curves.take(np.flatnonzero(kept))


def common_places(
    curve: IntArray, group: IntArray, level: FloatArray, dominant: FloatArray
) -> tuple[CurvePoint, IntArray]:
    """Where points lie, seen from all curves of their group, and these places numbered in order."""
    order = sort_by(group, level)
    level_in_order = level.take(order)
    new = run_starts(group.take(order))
    new[1:] |= np.diff(level_in_order) > LEVEL_TOLERANCE * level_in_order[1:]
    settled, number = np.empty_like(level), np.empty_like(group)
    settled[order] = level_in_order.take(start_of_run(new))
    number[order] = numbered(new)

    halt = start_of_run(run_starts(curve) | run_starts(number))
    sliver = np.maximum(dominant - dominant.take(halt), 0.0)
    halts = np.zeros(len(group), dtype=bool)
    halts[number[sliver > 0]] = True
    if halts.any():  # few levels are halted at: put only their points in the order of slivers
        several = np.flatnonzero(halts.take(number.take(order)))
        points = order.take(several)
        order[several] = points.take(np.lexsort((sliver.take(points), number.take(points))))
    place = np.empty_like(number)
    place[order] = numbered(run_starts(number.take(order)) | run_starts(sliver.take(order)))
    return CurvePoint(settled, sliver), place


def add_up(curve: IntArray, group: IntArray, level: FloatArray, rows: FloatArray) -> tuple[Curves, CurvePoint]:
    """Add up the curves of each group at common places.

    Points come curve by curve, the curves of a group after each other. Returns the sums, a curve for each
    group with a point wherever one of its curves has one, and the place of every point that came.

    Curves are added two by two, the sums again, until one is left: of k curves a point is touched log2(k)
    times, and there are never more points than came.
    """
    first = run_starts(curve)
    at, place = common_places(curve, numbered(run_starts(group)), level, rows[:, -1])
    one = np.empty(int(place.max()) + 1, dtype=np.int64)
    one[place] = np.arange(len(place))
    common = at.take(one)
    total = Curves(group.take(one), common, np.empty((len(one), rows.shape[1])))
    family = numbered(run_starts(group[first]))  # the group of each curve, later of each partial sum
    curve = numbered(first)
    while True:
        size = np.bincount(family)
        alone = size.take(family.take(curve)) == 1
        total.rows[place[alone]] = rows[alone]
        busy = np.flatnonzero(~alone)
        if len(busy) == 0:
            return total, at
        curve, place, rows = curve.take(busy), place.take(busy), rows.take(busy, axis=0)
        mine = family.take(curve)
        nth = curve - (np.cumsum(size) - size).take(mine)
        pairs = (size + 1) // 2
        pair = (np.cumsum(pairs) - pairs).take(mine) + nth // 2
        curve, place, rows = _add_pairs(pair, nth % 2, place, rows, common)
        family = np.repeat(np.arange(len(pairs)), pairs)


def _add_pairs(
    pair: IntArray, side: IntArray, place: IntArray, rows: FloatArray, common: CurvePoint
) -> tuple[IntArray, IntArray, FloatArray]:
    """Add the two sides, 0 and 1, of each pair: to every point of one comes what the other has there."""
    key = pair * len(common.level) + place
    left, right = np.flatnonzero(side == 0), np.flatnonzero(side == 1)
    before, after = np.empty_like(key), np.empty_like(key)
    for own, other in ((left, right), (right, left)):
        follows = np.searchsorted(key.take(other), key.take(own), side="right")
        before[own] = other.take(follows - 1, mode="clip")
        after[own] = other.take(follows, mode="clip")
    begun = (pair.take(before) == pair) & (key.take(before) <= key)
    ended = (pair.take(after) != pair) | (key.take(after) <= key)
    after = np.where(ended, before, after)
    way = way_between(common.take(place), common.take(place.take(before)), common.take(place.take(after)))
    given = rows.take(before, axis=0)
    given += way[:, None] * (rows.take(after, axis=0) - given)
    given[~begun] = 0.0
    given += rows
    merged = np.concatenate([left, right])
    merged = merged.take(np.argsort(key.take(merged), kind="stable"))  # two sorted runs: no more than a merge
    merged = merged[run_ends(key.take(merged))]
    return pair.take(merged), place.take(merged), given.take(merged, axis=0)


def locate(asked: CurvePoint, start: IntArray, points: CurvePoint) -> tuple[IntArray, IntArray, FloatArray]:
    """The points of each curve, which starts at `start`, around the place asked of it; and the way between."""
    stop = np.append(start[1:], len(points.level))
    each = asked.take(np.repeat(np.arange(len(start)), stop - start))
    passed = (points.level < each.level) | ((points.level == each.level) & (points.sliver <= each.sliver))
    count = np.add.reduceat(passed, start, dtype=np.int64)
    a = start + np.maximum(count - 1, 0)
    b = np.minimum(a + 1, stop - 1)
    # A curve that has not begun is at its start, whatever the sliver: that one belongs to another level.
    return a, b, np.where(count > 0, way_between(asked, points.take(a), points.take(b)), 0.0)


def crossings(curve: IntArray, tops: FloatArray) -> tuple[IntArray, FloatArray]:
    """Between which points of a curve another column of `tops` becomes the largest: the first, and the way.

    A column that is the largest at both points is so in between; only the others are looked at.
    """
    if tops.shape[1] < 2:
        return np.empty(0, dtype=np.int64), np.empty(0)
    best = tops.argmax(axis=1)
    segment = np.flatnonzero((best[1:] != best[:-1]) & (curve[1:] == curve[:-1]))
    a, b = tops.take(segment, axis=0), tops.take(segment + 1, axis=0)
    found, ways = [np.empty(0, dtype=np.int64)], [np.empty(0)]
    for p in range(tops.shape[1]):
        for q in range(p + 1, tops.shape[1]):
            lead_a, lead_b = a[:, p] - a[:, q], b[:, p] - b[:, q]
            k = np.flatnonzero(lead_a * lead_b < 0)
            way = lead_a[k] / (lead_a[k] - lead_b[k])
            there = a[k] + way[:, None] * (b[k] - a[k])
            highest = there[:, p] >= there.max(axis=1) * (1 - LEVEL_TOLERANCE)
            found.append(segment[k[highest]])
            ways.append(way[highest])
    where, way = np.concatenate(found), np.concatenate(ways)
    order = sort_by(where, way)
    return where.take(order), way.take(order)
