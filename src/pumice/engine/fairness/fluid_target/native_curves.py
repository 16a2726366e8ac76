"""The arithmetic on curves in C (``curve_kernel.c``), where the installation has it.

``tools/compile_kernel.py`` makes it with the compiled engine. A checkout has none, and ``polyline`` and ``depth_steps``
compute the same in NumPy: that is the reference, and both give the same numbers. NumPy takes a microsecond for each
call, however few the points, and a solve needs a thousand calls.
"""

from __future__ import annotations

from types import ModuleType

import numpy as np
from numpy.typing import NDArray

native: ModuleType | None
"""The compiled arithmetic; None: this installation has none."""
try:
    from pumice.engine.fairness.fluid_target import curve_kernel

    native = curve_kernel
except ImportError:
    native = None


def floats(made: bytearray) -> NDArray[np.float64]:
    """An array of what the compiled functions return."""
    return np.ndarray(len(made) // 8, np.float64, made)


def integers(made: bytearray) -> NDArray[np.int64]:
    """The same of integers."""
    return np.ndarray(len(made) // 8, np.int64, made)


def float_rows(made: bytearray, width: int) -> NDArray[np.float64]:
    """The same of rows."""
    return np.ndarray((len(made) // (8 * width), width), np.float64, made)
