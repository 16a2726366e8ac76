"""A clock that stands still until a test moves it."""

from __future__ import annotations

from kubesim.clock import Clock, parse_time

NOON = parse_time("2024-05-01T12:00:00Z")


class StillClock(Clock):
    def __init__(self, speed: float = 1.0, at: float = NOON) -> None:
        super().__init__(speed)
        self.time = at

    def now(self) -> float:
        return self.time

    def steady(self) -> float:
        return self.time
