"""Differences between policies over repeats: each repeat is a pair, because all policies see the same jobs in it.

Pairing removes what the repeats have in common, such as a burst of arrivals. The interval covers the true mean
difference with 95 % confidence (Student's t, for differences that are about normal).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from math import sqrt
from statistics import fmean, stdev
from typing import Any

from pumice.simulate.figures import HOUR, SLOWDOWN_UNIT, RunFigures
from pumice.simulate.workload import SECOND

# The 97.5 % quantiles of Student's t by degrees of freedom, from 1 on.
_QUANTILES = (
    *(12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228),
    *(2.201, 2.179, 2.160, 2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086),
    *(2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042),
)
_NORMAL = 1.96
_BEYOND = 2.4  # t is about 1.96 + 2.4 / degrees of freedom where there are more of them, within 0.2 %

MEASURES: dict[str, Callable[[RunFigures], float]] = {
    "waitMean": lambda run: (run.root.waits.mean or 0.0) / SECOND,
    "waitP95": lambda run: (run.root.waits.quantile(0.95) or 0.0) / SECOND,
    "boundedSlowdownMean": lambda run: (run.root.slowdowns.mean or 0.0) / SLOWDOWN_UNIT,
    "evictions": lambda run: float(run.root.evictions),
    "neverStarted": lambda run: float(run.root.never_started),
    "hours": lambda run: run.duration / HOUR,
}


def paired_differences(by_policy: Mapping[str, Sequence[RunFigures]]) -> list[dict[str, Any]]:
    """Every policy against the first one, measure by measure; without repeats there is no interval."""
    first, *others = by_policy
    measures = {**MEASURES, **_measures_of(next(iter(by_policy.values()))[0].capacity)}
    return [
        {
            "policy": other,
            "against": first,
            "measures": {
                name: _difference(
                    [measure(b) - measure(a) for a, b in zip(by_policy[first], by_policy[other], strict=True)]
                )
                for name, measure in measures.items()
            },
        }
        for other in others
    ]


def _measures_of(resources: Iterable[str]) -> dict[str, Callable[[RunFigures], float]]:
    """Measures of each resource, in resource-hours: what was used, missed of entitlements, and lost by evictions."""
    found: dict[str, Callable[[RunFigures], float]] = {}
    for name in resources:
        found[f"used {name}"] = partial(_used, name)
        found[f"shortfall {name}"] = partial(_shortfall, name)
        found[f"lost {name}"] = partial(_lost, name)
    return found


def _used(resource: str, run: RunFigures) -> float:
    return run.root.used[resource]


def _shortfall(resource: str, run: RunFigures) -> float:
    return run.queue_shortfall[resource]


def _lost(resource: str, run: RunFigures) -> float:
    return run.root.lost[resource]


def _difference(pairs: Sequence[float]) -> dict[str, float | None]:
    mean = fmean(pairs)
    if len(pairs) < 2:
        return {"mean": round(mean, 6), "low": None, "high": None}
    freedom = len(pairs) - 1
    quantile = _QUANTILES[freedom - 1] if freedom <= len(_QUANTILES) else _NORMAL + _BEYOND / freedom
    reach = quantile * stdev(pairs) / sqrt(len(pairs))
    return {"mean": round(mean, 6), "low": round(mean - reach, 6), "high": round(mean + reach, 6)}
