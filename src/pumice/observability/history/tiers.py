"""The tiers of the history: short steps for a short time, longer steps for a longer one."""

from __future__ import annotations

from dataclasses import dataclass

MINUTE, HOUR, DAY = 60, 3_600, 86_400


@dataclass(frozen=True, slots=True)
class Tier:
    """Points at multiples of ``step`` seconds, kept for ``kept`` seconds."""

    number: int
    step: int
    kept: int


SECONDS = Tier(0, 10, HOUR + 5 * MINUTE)
MINUTES = Tier(1, 5 * MINUTE, DAY + HOUR)
HOURS = Tier(2, HOUR, 366 * DAY)
TIERS = (SECONDS, MINUTES, HOURS)


@dataclass(frozen=True, slots=True)
class Range:
    """A span that ends now, as a chart shows it: from one tier, in steps of its own."""

    span: int
    tier: Tier
    step: int


RANGES = {
    "hour": Range(HOUR, SECONDS, SECONDS.step),
    "day": Range(DAY, MINUTES, MINUTES.step),
    "month": Range(30 * DAY, HOURS, 2 * HOUR),
    "year": Range(365 * DAY, HOURS, DAY),
}
