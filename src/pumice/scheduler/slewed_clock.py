"""The time by which the scheduler decides: that of the machine, without its jumps.

Objects say when they were made and bound, so the time must be theirs. But a machine's clock is set now and then, and
the engine's time never goes back: if it followed a clock that is far ahead for a moment, nothing would end any more
until that moment comes. So the time is read once and goes on by itself, at the pace of a clock that nobody sets, and
is compared with the machine's whenever somebody asks.

    behind the machine's by little     takes its time at once
    by more                            only if it stays so for a while: a virtual machine that slept, say
    ahead of it                        goes a tenth slower until they agree again, and never back

Time that is far ahead is right again after a restart only; whoever reads the log knows.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

log = logging.getLogger(__name__)

LITTLE = 5.0
"""Seconds that the machine's clock may be off without anybody being told."""
PROOF = 30.0
"""Seconds for which it must be ahead by more before that is believed."""
SLOWER = 0.1
"""By which part time goes slower while it is ahead."""


class SlewedClock:
    """Tells the time in seconds since 1970."""

    def __init__(self, machine: Callable[[], float] = time.time, steady: Callable[[], float] = time.monotonic) -> None:
        self._machine = machine
        self._steady = steady
        self._time, self._at = machine(), steady()
        self._left_behind = 0.0  # since when by more than a little, on the steady clock; 0: it is not
        self._warned = False

    def __call__(self) -> float:
        """The time now; never less than before."""
        at = self._steady()
        passed, self._at = at - self._at, at
        apart = self._machine() - self._time - passed
        if apart <= LITTLE:
            self._left_behind = 0.0
        elif not self._left_behind:
            self._left_behind = at
        if 0 <= apart <= LITTLE or (self._left_behind and at - self._left_behind >= PROOF):
            self._time += passed + apart
        else:
            self._time += passed + max(min(apart, 0.0), -SLOWER * passed)
        self._tell(apart)
        return self._time

    def _tell(self, apart: float) -> None:
        """Say so once when the machine's clock is off, and once when it is not any more."""
        if (abs(apart) > LITTLE) is not self._warned:
            self._warned = not self._warned
            if not self._warned:
                log.warning("the clocks agree again")
            elif apart > 0:
                log.warning("the machine's clock is %.0f s ahead; it counts if it stays so for %.0f s", apart, PROOF)
            else:
                log.warning("the machine's clock was set back by %.0f s; time goes slower until they agree", -apart)
