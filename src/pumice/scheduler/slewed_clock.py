"""The scheduler's clock: the machine's time without its jumps.

Objects carry times of creation and binding, so the scheduler's clock must agree with theirs. But administrators and NTP
set the machine's clock, and the engine's time never goes back: had it followed a clock that was far ahead for a moment,
no timeout would expire until that moment is reached. So the machine's time is read once and then advances with the
monotonic clock; every reading compares the two.

    slightly behind the machine's clock     catches up at once
    further behind                          only if that lasts for a while: a virtual machine that slept, say
    ahead of it                             runs a tenth slower until they agree again, and never goes back

Time that is far ahead is corrected only by a restart; a warning in the log reports it.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

log = logging.getLogger(__name__)

LITTLE = 5.0
"""Seconds by which the machine's clock may differ without a warning."""
PROOF = 30.0
"""Seconds for which it must be further ahead before the clock follows."""
SLOWER = 0.1
"""Fraction by which the clock runs slower while it is ahead."""


class SlewedClock:
    """Returns the time in seconds since 1970."""

    def __init__(self, machine: Callable[[], float] = time.time, steady: Callable[[], float] = time.monotonic) -> None:
        self._machine = machine
        self._steady = steady
        self._time, self._at = machine(), steady()
        self._left_behind = 0.0  # since when it is further behind, on the monotonic clock; 0: it is not
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
        """Warn once when the machine's clock differs, and once when the clocks agree again."""
        if (abs(apart) > LITTLE) is not self._warned:
            self._warned = not self._warned
            if not self._warned:
                log.warning("The system clock and the scheduler's clock agree again")
            elif apart > 0:
                log.warning("The system clock jumped ahead: seconds=%.0f acceptedAfterSeconds=%.0f", apart, PROOF)
            else:
                log.warning(
                    (
                        "The system clock was set back, so the scheduler's clock runs slower until they "
                        "agree: seconds=%.0f"
                    ),
                    -apart,
                )
