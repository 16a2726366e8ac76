"""Many piecewise-linear curves at once: what the entitlement solver adds up and looks things up in.

A curve says what a subtree has been given since the phase began, as a function of how far it has come. Its points
are rows of shared arrays; all curves of a step lie end to end, told apart by a label per point, so that one NumPy
call serves thousands of them.

How far a curve has come has two coordinates, compared one after the other:

    level    the weighted share
    sliver   while the level stands still: the raw dominant share handed out since it came to a halt

    given                  ____ b      a..b: the level stands still at 0.3 and only the sliver moves.
      |                   |            At (0.3, 0) the curve is at a, at (0.3, 0.05) somewhere between
      |              ____/ a           a and b, at (0.4, 0) past b.
      |_____________/_________ level
                    0.2  0.3

What was given is a row: one column for each resource, and last the raw dominant share (the sum over the leaves of
each one's own), which grows wherever anything does and therefore measures slivers.

Numerics. Rows are only ever summed and interpolated, never differenced, so a resource that nobody is given keeps
exactly its value. Levels that should be equal may differ by rounding; two curves that halt at the same level must
be seen to do so, hence levels within TIE of each other are made equal before curves are added.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

IntArray = NDArray[np.int64]
FloatArray = NDArray[np.float64]
BoolArray = NDArray[np.bool_]

TIE = 1e-12  # relative; far above rounding, far below a millionth of a task in a million
BLOCK = 8  # rows that running_total adds up before it goes on with the totals of blocks


@dataclass(frozen=True, slots=True)
class Place:
    """Places on curves, one per entry: a level, and how much was handed out while it stood still."""

    level: FloatArray
    sliver: FloatArray

    def take(self, index: IntArray) -> Place:
        """The places at these indices."""
        return Place(self.level.take(index), self.sliver.take(index))


@dataclass(frozen=True, slots=True)
class Points:
    """Points of curves laid end to end: equal labels are one curve, its points in order."""

    label: IntArray
    place: Place
    rows: FloatArray


def run_starts(label: NDArray[np.generic]) -> BoolArray:
    """Mark the first entry of every run of equal labels."""
    first = np.ones(len(label), dtype=bool)
    np.not_equal(label[1:], label[:-1], out=first[1:])
    return first


def start_of_run(first: BoolArray) -> IntArray:
    """For every entry the index at which its run starts, given the marks of run_starts."""
    return np.maximum.accumulate(np.where(first, np.arange(len(first)), 0))


def running_total(rows: FloatArray, label: IntArray) -> FloatArray:
    """Sums of rows from the start of each run of equal labels up to and including each row.

    One cumsum over all runs, or over a long one, would carry the rounding of everything before; sums are built
    from sums of 2, 4, 8, ... rows instead, then from those of blocks.
    """
    offset = np.arange(len(label)) - start_of_run(run_starts(label))
    within = offset % BLOCK
    total = rows.copy()
    longest = int(offset.max(initial=0))
    step = 1
    while step <= min(longest, BLOCK - 1):
        total[step:] += np.where(within[step:, None] >= step, total[:-step], 0.0)
        step *= 2
    if longest >= BLOCK:
        last = np.flatnonzero(within == BLOCK - 1)
        blocks = running_total(total.take(last, axis=0), label.take(last))
        later = np.flatnonzero(offset >= BLOCK)
        total[later] += blocks.take(np.searchsorted(last, later) - 1, axis=0)
    return total


def sort_by(major: IntArray, minor: FloatArray) -> IntArray:
    """The order by a small non-negative integer, then by a number, then as they came."""
    order = np.argsort(minor, kind="stable")
    key = major.take(order)
    narrow = key.astype(np.uint16) if key.max(initial=0) < 1 << 16 else key  # NumPy sorts 16 bits by radix
    return order.take(np.argsort(narrow, kind="stable"))


def fraction(at: Place, a: Place, b: Place) -> FloatArray:
    """How far each place lies on the way from a to b, the next point of its curve; 0 if b is a."""
    halted = a.level == b.level
    span = np.where(halted, b.sliver - a.sliver, b.level - a.level)
    gone = np.where(halted, at.sliver - a.sliver, at.level - a.level)
    return np.clip(np.divide(gone, span, out=np.zeros_like(gone), where=span > 0), 0.0, 1.0)


def leaf_curves(label: IntArray, weight: FloatArray, held: FloatArray, most: FloatArray, rows: FloatArray) -> Points:
    """The curves of leaves that grow side by side, one for each label: what the leaves get up to each level.

    label is sorted. A leaf goes from `held` to `most` of raw dominant share, at `weight` per level, along its row.
    Up to level t the leaves have min(t * weight, most) less the same with `held`. Each of the two sums is that of
    the finished ones plus t times the weights of the others: adding up from both ends, no term is ever taken out.
    """
    growing = np.flatnonzero(held > 0)
    origin = np.flatnonzero(run_starts(label))
    who = np.concatenate([np.arange(len(label)), growing, origin])
    sign = np.concatenate([np.ones(len(label)), -np.ones(len(growing)), np.zeros(len(origin))])
    level = np.concatenate(
        [most / weight, held[growing] / weight[growing], np.minimum.reduceat(held / weight, origin)]
    )
    dense = np.cumsum(run_starts(label)) - 1
    order = sort_by(dense.take(who), level)
    who, sign, level = who.take(order), sign.take(order), level.take(order)
    run = dense.take(who)
    direction = rows.take(who, axis=0)
    amount = np.where(sign > 0, most.take(who), held.take(who)) * sign
    finished = running_total(direction * amount[:, None], run)
    slope = running_total((direction * (weight.take(who) * sign)[:, None])[::-1], run[::-1])[::-1]
    first = run_starts(run)
    still = np.zeros_like(slope)
    still[:-1] = np.where(first[1:, None], 0.0, slope[1:])  # the weights of those whose breakpoint comes later
    last = np.flatnonzero(np.append(first[1:] | (np.diff(level) > 0), True))  # one point for each level
    run, level = run.take(last), level.take(last)
    given = np.maximum(finished.take(last, axis=0) + level[:, None] * still.take(last, axis=0), 0.0)
    given[run_starts(run)] = 0.0
    return Points(label.take(origin).take(run), Place(level, np.zeros(len(level))), given)


def settle_ties(group: IntArray, level: FloatArray) -> tuple[FloatArray, IntArray, IntArray]:
    """Make levels of one group equal that are within TIE of each other; number them in order; and that order."""
    order = sort_by(group, level)
    ordered = level.take(order)
    new = run_starts(group.take(order))
    new[1:] |= np.diff(ordered) > TIE * ordered[1:]
    settled, number = np.empty_like(level), np.empty_like(group)
    settled[order] = ordered.take(start_of_run(new))
    number[order] = np.cumsum(new) - 1
    return settled, number, order


def outer_places(curve: IntArray, group: IntArray, level: FloatArray, given: FloatArray) -> tuple[Place, IntArray]:
    """Where the points of each curve lie for the others of its group, and these places numbered in order."""
    level, number, order = settle_ties(group, level)
    halt = start_of_run(run_starts(curve) | run_starts(number))
    sliver = np.maximum(given - given.take(halt), 0.0)
    if sliver.any():
        order = sort_by(number, sliver)
    new = run_starts(number.take(order)) | run_starts(sliver.take(order))
    place = np.empty_like(number)
    place[order] = np.cumsum(new) - 1
    return Place(level, sliver), place


def in_reach(curve: IntArray, group: IntArray, place: IntArray, rows: FloatArray, limit: FloatArray) -> BoolArray:
    """Mark the points that are needed to follow each group's sum until it exceeds the limit.

    A curve has at least what it had at its last point. Adding up the steps from point to point, of all curves of a
    group in order of place, therefore never overstates the sum: past a place where even that exceeds the limit,
    only the next point of each curve is needed, to know the way to it.
    """
    first = run_starts(curve)
    step = np.zeros((len(rows), len(limit)))
    step[1:] = np.where(first[1:, None], 0.0, np.diff(rows[:, : len(limit)], axis=0))
    order = np.argsort(place, kind="stable")
    least = np.cumsum(step.take(order, axis=0), axis=0)
    start = start_of_run(run_starts(group.take(order)))
    beyond = (least - least.take(start, axis=0) > limit).any(axis=1)
    reach = np.full(int(group.max()) + 1, len(place))
    np.minimum.at(reach, group.take(order[beyond]), place.take(order[beyond]))
    inside = place <= reach.take(group)
    needed = inside | first
    needed[1:] |= inside[:-1]
    return needed


def add_up(
    curve: IntArray, group: IntArray, level: FloatArray, rows: FloatArray, limit: FloatArray
) -> tuple[Points, Place]:
    """Add up the curves of each group at common places.

    Points come curve by curve; curves are numbered so that those of a group follow each other. Returns the sums,
    one curve per group with a point wherever one of its curves has one, and the place of every point given.

    Curves are added two by two, the sums again two by two, until one is left: with k curves a point is touched
    log2(k) times, and no more than two curves are ever laid side by side.
    """
    dense = np.cumsum(run_starts(group)) - 1
    at, place = outer_places(curve, dense, level, rows[:, -1])
    needed = np.flatnonzero(in_reach(curve, dense, place, rows, limit))
    if len(needed) < len(place):
        curve, group, place, rows = curve[needed], group[needed], place[needed], rows.take(needed, axis=0)
        place = np.unique(place, return_inverse=True)[1]
        at_needed = at.take(needed)
    else: at_needed = at
    one = np.empty(int(place.max()) + 1, dtype=np.int64)
    one[place] = np.arange(len(place))
    common = at_needed.take(one)
    first = run_starts(curve)
    family = np.cumsum(run_starts(group[first])) - 1  # of each curve, later of each partial sum
    curve = np.cumsum(first) - 1
    summed = np.empty((len(one), rows.shape[1]))
    while True:
        size = np.bincount(family)
        mine = family.take(curve)
        alone = size.take(mine) == 1
        summed[place[alone]] = rows[alone]
        if alone.all():
            return Points(group.take(one), common, summed), at
        half = (size + 1) // 2
        nth = curve - (np.cumsum(size) - size).take(mine)
        key = ((np.cumsum(half) - half).take(mine) + nth // 2) * len(one) + place
        side = np.where(alone, -1, nth & 1)
        left, right = (
            _Side(key.take(these), place.take(these), rows.take(these, axis=0))
            for these in (np.flatnonzero(side == 0), np.flatnonzero(side == 1))
        )
        key, rows = left.plus(right, common)
        curve, place = np.divmod(key, len(one))
        family = np.repeat(np.arange(len(half)), half)


@dataclass(frozen=True, slots=True)
class _Side:
    """One side of many pairs of curves. A point's key is the number of its pair, times all places, plus its place."""

    key: IntArray
    place: IntArray
    rows: FloatArray

    def plus(self, other: _Side, common: Place) -> tuple[IntArray, FloatArray]:
        """The sums of all pairs, at the places of both."""
        mine, shared = self._added(other, common)
        theirs, _ = other._added(self, common)
        only = np.flatnonzero(~shared)
        key = np.concatenate([self.key.take(only), other.key])
        order = np.argsort(key, kind="stable")
        return key.take(order), np.concatenate([mine.take(only, axis=0), theirs]).take(order, axis=0)

    def _added(self, other: _Side, common: Place) -> tuple[FloatArray, BoolArray]:
        """Own rows plus what the other curve of the pair has given there; and whether it has a point there too."""
        start = self.key - self.place
        after = np.searchsorted(other.key, self.key, side="right")
        before = np.maximum(after - 1, 0)
        reached = other.key.take(before)
        begun = (reached >= start) & (reached <= self.key)
        over = other.key.take(after, mode="clip") >= start + len(common.level)
        after = np.where(over | (after == len(other.key)), before, after)
        a, b = other.place.take(before), other.place.take(after)
        way = fraction(common.take(self.place), common.take(a), common.take(b))
        given = other.rows.take(before, axis=0)
        given += way[:, None] * (other.rows.take(after, axis=0) - given)
        given[~begun] = 0.0
        given += self.rows
        return given, reached == self.key


def crossings(curve: IntArray, tops: FloatArray) -> tuple[IntArray, FloatArray]:
    """Where, between two points of a curve, another column of `tops` becomes the largest: segment and fraction.

    A column that is the largest at both ends is so in between, thus only segments whose ends differ are looked at.
    """
    best = tops.argmax(axis=1)
    segment = np.flatnonzero((best[1:] != best[:-1]) & (curve[1:] == curve[:-1]))
    a, b = tops.take(segment, axis=0), tops.take(segment + 1, axis=0)
    found: list[IntArray] = [np.empty(0, dtype=np.int64)]
    ways: list[FloatArray] = [np.empty(0)]
    for p in range(tops.shape[1]):
        for q in range(p + 1, tops.shape[1]):
            lead_a, lead_b = a[:, p] - a[:, q], b[:, p] - b[:, q]
            k = np.flatnonzero(lead_a * lead_b < 0)
            way = lead_a[k] / (lead_a[k] - lead_b[k])
            there = a[k] + way[:, None] * (b[k] - a[k])
            highest = there[:, p] >= there.max(axis=1) * (1 - TIE)
            found.append(segment[k[highest]])
            ways.append(way[highest])
    where, way = np.concatenate(found), np.concatenate(ways)
    order = sort_by(where, way)
    return where.take(order), way.take(order)
