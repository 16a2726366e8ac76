"""Time in the simulated cluster: timestamps are real, durations are shortened by ``speed``.

A pod that runs for 600 seconds at speed 60 ends after 10. Its timestamps are 10 seconds apart, so that ages are right
in every tool that compares them with its own clock. Only waiting times are shortened: run times, grace periods,
deadlines, tolerations.
"""

from __future__ import annotations

import time
from datetime import datetime

from kubebase.text_cache import cached_by_text
from kubebase.timestamps import micro_stamp, stamp

__all__ = ["Clock", "micro_stamp", "parse_time", "stamp"]


class Clock:
    """The current time, and the conversion of cluster seconds to real seconds."""

    def __init__(self, speed: float = 1.0) -> None:
        if not speed > 0:
            raise ValueError(f"speed {speed} given; write a number above 0: cluster seconds per second")
        self.speed = speed

    def now(self) -> float:
        """Seconds since 1970, on the wall."""
        return time.time()

    def steady(self) -> float:
        """Seconds of a clock that nobody sets: for durations that no timestamp has to agree with."""
        return time.monotonic()

    def real(self, seconds: float) -> float:
        """The real seconds that correspond to cluster seconds."""
        return seconds / self.speed

    def since(self, stamp: str) -> float:
        """How many seconds of the cluster have passed since this timestamp."""
        return (self.now() - parse_time(stamp)) * self.speed


@cached_by_text()  # the timestamps of objects written together are equal
def parse_time(text: str) -> float:
    """The moment a timestamp names, in seconds since 1970."""
    return datetime.fromisoformat(text).timestamp()
