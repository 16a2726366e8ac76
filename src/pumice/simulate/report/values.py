"""The result of all runs as plain values: what ``-o json`` prints, what the table shows, what the page plots.

The keys are an interface for other programs. Times are seconds, integrals resource-hours (core, GiB or device hours).
No clock and no machine are in it, so two simulations with one seed give the same bytes. With repeats, figures are means
over them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from statistics import fmean
from typing import Any, TypeVar

from pumice.simulate.distribution import Distribution
from pumice.simulate.figures import SLOWDOWN_UNIT, QueueFigures, RunFigures
from pumice.simulate.report.differences import paired_differences
from pumice.simulate.workload import SECOND

Values = dict[str, Any]
T = TypeVar("T")


def report_values(runs: Sequence[RunFigures], inputs: Sequence[Values], options: Values) -> Values:
    """Everything about these runs. ``inputs`` names the files with their hashes."""
    policies = list(dict.fromkeys(run.policy for run in runs))
    by_policy = {policy: [run for run in runs if run.policy == policy] for policy in policies}
    return {
        "inputs": list(inputs),
        "options": options,
        "policies": {policy: _policy(repeats) for policy, repeats in by_policy.items()},
        "differences": paired_differences(by_policy),
    }


def _policy(repeats: Sequence[RunFigures]) -> Values:
    first = repeats[0]
    capacity = first.capacity
    return {
        "repeats": len(repeats),
        "seconds": _mean(run.duration / SECOND for run in repeats),
        "cycles": _mean(run.cycles for run in repeats),
        "capacity": _rounded(capacity),
        "utilisation": {
            name: _round(fmean(_part(run.root.used[name], amount, run.duration) for run in repeats))
            for name, amount in capacity.items()
        },
        "idleWhileWaiting": _means(repeats, lambda run: run.idle_while_waiting),
        "queueShortfall": _means(repeats, lambda run: run.queue_shortfall),
        "queues": {
            figures.path: _queue([run.queues[i] for run in repeats], [run.duration for run in repeats], capacity)
            for i, figures in enumerate(first.queues)
        },
    }


def _queue(repeats: Sequence[QueueFigures], durations: Sequence[int], capacity: dict[str, float]) -> Values:
    first = repeats[0]
    waits = first.waits.merge(one.waits for one in repeats[1:])
    slowdowns = first.slowdowns.merge(one.slowdowns for one in repeats[1:])
    return {
        "depth": first.depth,
        "leaf": first.is_leaf,
        "jobs": _mean(one.arrived for one in repeats),
        "finished": _mean(one.finished for one in repeats),
        "neverStarted": _mean(one.never_started for one in repeats),
        "unfinished": _mean(one.unfinished for one in repeats),
        "wait": _summary(waits, SECOND),
        "boundedSlowdown": _summary(slowdowns, SLOWDOWN_UNIT),
        "used": _means(repeats, lambda one: one.used),
        "entitled": _means(repeats, lambda one: one.entitled),
        "shortfall": _means(repeats, lambda one: one.shortfall),
        "meanShare": _share([one.used for one in repeats], durations, capacity),
        "meanEntitledShare": _share([one.entitled for one in repeats], durations, capacity),
        "evictions": _mean(one.evictions for one in repeats),
        "lost": _means(repeats, lambda one: one.lost),
    }


def _summary(numbers: Distribution, unit: int) -> Values | None:
    """Mean and maximum exactly, median and 95th percentile within 1 %."""
    mean, median, high = numbers.mean, numbers.quantile(0.5), numbers.quantile(0.95)
    if mean is None or median is None or high is None:
        return None
    return {
        "mean": _round(mean / unit),
        "median": _round(median / unit),
        "p95": _round(high / unit),
        "max": _round(numbers.most / unit),
    }


def _share(repeats: Sequence[dict[str, float]], durations: Sequence[int], capacity: dict[str, float]) -> float:
    """The dominant share of the cluster, over the whole time."""
    shares = [
        max((_part(hours[name], capacity[name], duration) for name in hours), default=0.0)
        for hours, duration in zip(repeats, durations, strict=True)
    ]
    return _round(fmean(shares))


def _part(hours: float, capacity: float, duration: int) -> float:
    whole = capacity * duration / SECOND / 3600
    return hours / whole if whole else 0.0


def _means(repeats: Sequence[T], hours: Callable[[T], dict[str, float]]) -> Values:
    return {name: _round(fmean(hours(one)[name] for one in repeats)) for name in hours(repeats[0])}


def _mean(numbers: Iterable[float]) -> float | int:
    mean = _round(fmean(numbers))
    return int(mean) if mean == int(mean) else mean


def _round(number: float) -> float:
    return round(number, 6)


def _rounded(amounts: dict[str, float]) -> Values:
    return {name: _round(amount) for name, amount in amounts.items()}
