"""Arithmetic on many piecewise-linear curves at once, for the target solver.

A curve gives what a subtree has received since the phase began, as a function of how far the subtree has advanced. Its
points are rows of shared arrays. All curves of a step are stored end to end, distinguished by a number per point, so
that one NumPy call handles thousands of them.

The position on a curve has two coordinates, compared lexicographically:

    level    the weighted share
    sliver   while the level is constant: the raw dominant share handed out since the level halted

    given |               /     From a to b the level is constant at 0.3 and only the sliver grows. At (0.3, 0)
          |              | b    the curve is at a, at (0.3, 0.05) between a and b, at (0.4, 0) past b.
          |              | a    At (0.2, 0.05) it is where its level is 0.2: a sliver moves only the curves that
          |           .         halt at that level.
          |_______.____________
                 0.2    0.3  level

The amount received is a row: one column per resource, and last the raw dominant share, summed over the leaves. The last
column grows whenever any other does, so it can measure slivers.

Numerics. Curves are stored as points, added and interpolated, never as slopes: slopes are huge and cancel near a halt.
A resource of which nothing is given keeps its value to the last bit, so a share is either exactly constant or not.
Levels that should be equal can differ by rounding, yet curves that halt at one level must be recognised as such: levels
closer than LEVEL_TOLERANCE are made equal before curves are added. Sums depend on the order of their terms: where terms
are sorted, equal ones keep their order, so that the result is the same on every machine.

Where the engine is compiled, ``native_curves`` has the functions that take most of the time in C.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pumice.engine.fairness.fluid_target import native_curves
from pumice.engine.fairness.fluid_target.native_curves import float_rows, floats, integers

IntArray = NDArray[np.int64]
FloatArray = NDArray[np.float64]
BoolArray = NDArray[np.bool_]

LEVEL_TOLERANCE = 1e-12  # relative: far above rounding error, and harmless if it merges distinct levels
BLOCK = 8  # rows that running_total adds up before it continues with block totals


@dataclass(frozen=True, slots=True)
class CurvePoint:
    """Positions on curves, one per entry."""

    level: FloatArray
    sliver: FloatArray

    def take(self, index: IntArray) -> CurvePoint:
        """The positions at these indices."""
        return CurvePoint(self.level.take(index), self.sliver.take(index))


@dataclass(frozen=True, slots=True)
class Curves:
    """Curves stored end to end: points with equal `of` form one curve, in order, and `of` is non-decreasing."""

    of: IntArray
    place: CurvePoint
    rows: FloatArray

    def take(self, index: IntArray) -> Curves:
        """The curves reduced to the points at these indices."""
        return Curves(self.of.take(index), self.place.take(index), self.rows.take(index, axis=0))


def way_between(at: CurvePoint, a: CurvePoint, b: CurvePoint) -> FloatArray:
    """The fraction, 0 to 1, of each position on the segment from a to b, the next point; 0 if b equals a."""
    halted = a.level == b.level
    span = np.where(halted, b.sliver - a.sliver, b.level - a.level)
    gone = np.where(halted, at.sliver - a.sliver, at.level - a.level)
    return np.clip(np.divide(gone, span, out=np.zeros_like(gone), where=span > 0), 0.0, 1.0)


def place_between(a: CurvePoint, b: CurvePoint, way: FloatArray) -> CurvePoint:
    """The position at the fraction ``way`` (0 <= way < 1) of the segment from a to b."""
    halted = a.level == b.level
    level = np.minimum(a.level + way * (b.level - a.level), b.level)
    # A fraction too small to change the level counts as 0: the sliver there is still that of a.
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
    """For every entry the index of its run, from 0, given the marks of run_starts."""
    number: IntArray = np.cumsum(first) - 1
    return number


def start_of_run(first: BoolArray) -> IntArray:
    """For every entry the index at which its run starts, given the marks of run_starts."""
    return np.maximum.accumulate(np.where(first, np.arange(len(first)), 0))


def largest_column(rows: FloatArray) -> FloatArray:
    """The largest entry of every row, at least 0: column by column, which is faster than along short rows."""
    largest = np.zeros(len(rows))
    for column in rows.T:
        np.maximum(largest, column, out=largest)
    return largest


def running_total(rows: FloatArray, label: IntArray) -> FloatArray:
    """Sums of rows from the start of each run of equal labels up to and including each row.

    A plain cumsum accumulates the rounding error of all rows before, and a hundred thousand equal terms round the same
    way each time. So this adds sums of 2, 4, ... rows within a block, then the totals of blocks.
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
    """The sort order by a non-negative integer, then by a number; equal entries keep their order."""
    order = np.argsort(minor, kind="stable")
    key = major.take(order)
    if key.max(initial=0) < 1 << 16:  # NumPy sorts 16-bit integers by radix, several times as fast
        return order.take(np.argsort(key.astype(np.uint16), kind="stable"))
    return order.take(np.argsort(key, kind="stable"))


def leaf_curves(of: IntArray, weight: FloatArray, held: FloatArray, most: FloatArray, rows: FloatArray) -> Curves:
    """One curve for all leaves with equal `of` (non-decreasing): what they receive together up to a level.

    A leaf grows from `held` to `most` of raw dominant share, in proportion to its weight per level, along its row. Up
    to level t it receives min(t * weight, most) - min(t * weight, held). Each term is the sum of the bounds below t,
    accumulated from below, plus t times the weights of the remaining leaves, accumulated from above.
    """
    if native_curves.native is not None:
        owner, levels, sums = native_curves.native.leaf_curves(of, weight, held, most, rows)
        place = CurvePoint(floats(levels), np.zeros(len(levels) // 8))
        return Curves(integers(owner), place, float_rows(sums, rows.shape[1]))
    count = len(of)
    first = run_starts(of)
    group = numbered(first)
    origin = np.flatnonzero(first)
    begun = np.flatnonzero(held > 0)
    start = held / weight
    # The bounds of all leaves with their sign in the sum, and a zero point where each curve begins.
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
    slope[:-1] = slope[1:]  # of the bounds at higher levels
    slope[run_ends(group)] = 0.0
    last = np.flatnonzero(run_ends(group) | run_ends(level))  # one point per level
    group, level = group.take(last), level.take(last)
    given = np.maximum(past.take(last, axis=0) + level[:, None] * slope.take(last, axis=0), 0.0)
    given[run_starts(group)] = 0.0
    return Curves(of.take(origin).take(group), CurvePoint(level, np.zeros(len(level))), given)


def end_to_end(curves: Curves, owner: IntArray) -> FloatArray:
    """Concatenate the curves of one owner: add to each row what the earlier curves of that owner gave in all."""
    last = np.flatnonzero(run_ends(curves.of))
    done = running_total(curves.rows.take(last, axis=0), owner[last])
    earlier = np.zeros_like(done)
    earlier[1:] = done[:-1]
    earlier[run_starts(owner[last])] = 0.0
    return curves.rows + earlier.take(numbered(run_starts(curves.of)), axis=0)


def thinned(curves: Curves, step: int) -> Curves:
    """The curves reduced to every step-th point and their last point."""
    first = run_starts(curves.of)
    offset = np.arange(len(first)) - start_of_run(first)
    return curves.take(np.flatnonzero((offset % step == 0) | run_ends(curves.of)))


def cut_off(curves: Curves, level: FloatArray) -> Curves:
    """The curves up to the first point past a level, which is given per point."""
    kept = run_starts(curves.of)
    kept[1:] |= curves.place.level[:-1] <= level[:-1]
    return curves.take(np.flatnonzero(kept))


def common_places(
    curve: IntArray, group: IntArray, level: FloatArray, dominant: FloatArray
) -> tuple[CurvePoint, IntArray]:
    """Positions of points in an order common to all curves of their group, and these positions numbered in order."""
    order = sort_by(group, level)
    level_in_order = level.take(order)
    new = run_starts(group.take(order))
    new[1:] |= np.diff(level_in_order) > LEVEL_TOLERANCE * level_in_order[1:]
    settled, number = np.empty_like(level), np.empty_like(group)
    settled[order] = level_in_order.take(start_of_run(new))
    number[order] = numbered(new)

    halt = start_of_run(run_starts(curve) | run_starts(number))
    sliver = _never_less(np.maximum(dominant - dominant.take(halt), 0.0), halt)
    halts = np.zeros(len(group), dtype=bool)
    halts[number[sliver > 0]] = True
    if halts.any():  # few levels have halts: sort only their points by sliver
        several = np.flatnonzero(halts.take(number.take(order)))
        points = order.take(several)
        order[several] = points.take(np.lexsort((sliver.take(points), number.take(points))))
    place = np.empty_like(number)
    place[order] = numbered(run_starts(number.take(order)) | run_starts(sliver.take(order)))
    return CurvePoint(settled, sliver), place


def _never_less(sliver: FloatArray, halt: IntArray) -> FloatArray:
    """Slivers that do not fall along a halt, as they could by a rounding."""
    fallen = (sliver[1:] < sliver[:-1]) & (halt[1:] == halt[:-1])
    for point in np.flatnonzero(fallen):
        same = slice(point + 1, np.searchsorted(halt, halt[point], side="right"))
        sliver[same] = np.maximum(sliver[same], sliver[point])
    return sliver


def add_up(curve: IntArray, group: IntArray, level: FloatArray, rows: FloatArray) -> tuple[Curves, CurvePoint]:
    """Add up the curves of each group at common positions.

    Points come curve by curve, and the curves of a group are contiguous. Returns the sums, one curve per group with a
    point wherever one of its curves has one, and the position of every input point.

    Curves are added in pairs, then their sums in pairs, until one is left: with k curves each point is touched log2(k)
    times, and the number of points never exceeds that of the input.
    """
    if native_curves.native is not None:
        owner, levels, slivers, sums, *of_points = native_curves.native.add_up(curve, group, level, rows)
        total = Curves(integers(owner), CurvePoint(floats(levels), floats(slivers)), float_rows(sums, rows.shape[1]))
        return total, CurvePoint(*map(floats, of_points))
    first = run_starts(curve)
    at, place = common_places(curve, numbered(run_starts(group)), level, rows[:, -1])
    one = np.empty(int(place.max()) + 1, dtype=np.int64)
    one[place] = np.arange(len(place))
    common = at.take(one)
    finished: list[tuple[IntArray, FloatArray]] = []  # sums at these places
    family = numbered(run_starts(group[first]))  # the group of each curve, later of each partial sum
    curve = numbered(first)
    while True:
        size = np.bincount(family)
        alone = size.take(family.take(curve)) == 1
        busy = np.flatnonzero(~alone)
        if len(busy) < len(curve):
            done = np.flatnonzero(alone)
            finished.append((place.take(done), rows.take(done, axis=0)))
        if len(busy) == 0:
            return Curves(group.take(one), common, _in_places(finished, len(one))), at
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
    """Add sides 0 and 1 of each pair: each point of one side gains the value of the other side at its position."""
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
    given *= begun[:, None]  # by 1 or 0: cheaper than to select rows
    given += rows
    merged = np.concatenate([left, right])
    merged = merged.take(np.argsort(key.take(merged), kind="stable"))  # two sorted runs: a stable sort only merges them
    merged = merged[run_ends(key.take(merged))]
    return pair.take(merged), place.take(merged), given.take(merged, axis=0)


def _in_places(parts: list[tuple[IntArray, FloatArray]], places: int) -> FloatArray:
    """Rows in the order of their places; of several for one place, the last."""
    place, rows = parts[0]
    if len(parts) > 1:
        place = np.concatenate([some for some, _ in parts])
        rows = np.concatenate([some for _, some in parts])
    back = np.empty(places, dtype=np.int64)
    back[place] = np.arange(len(place))
    return rows.take(back, axis=0)


def locate(asked: CurvePoint, start: IntArray, points: CurvePoint) -> tuple[IntArray, IntArray, FloatArray]:
    """The points of each curve (starting at `start`) around the requested position, and the fraction between them."""
    if native_curves.native is not None:
        found = native_curves.native.locate(start, asked.level, asked.sliver, points.level, points.sliver)
        return integers(found[0]), integers(found[1]), floats(found[2])
    stop = np.append(start[1:], len(points.level))
    each = asked.take(np.repeat(np.arange(len(start)), stop - start))
    passed = (points.level < each.level) | ((points.level == each.level) & (points.sliver <= each.sliver))
    count = np.add.reduceat(passed, start, dtype=np.int64)
    a = start + np.maximum(count - 1, 0)
    b = np.minimum(a + 1, stop - 1)
    # A curve that has not begun is at its start whatever the sliver: the sliver belongs to another level.
    return a, b, np.where(count > 0, way_between(asked, points.take(a), points.take(b)), 0.0)


def crossings(curve: IntArray, tops: FloatArray) -> tuple[IntArray, FloatArray]:
    """Segments on which another column of `tops` becomes the largest: the first point and the fraction.

    A column that is the largest at both points is the largest in between; only the other segments are examined.
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
