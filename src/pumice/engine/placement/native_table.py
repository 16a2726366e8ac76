"""The inner loops of the node table in C (``node_kernel.c``), where the installation has them.

``tools/compile_kernel.py`` makes them with the compiled engine. A checkout has none, and runs the same loops in Python
and NumPy: they are the reference, and both give the same numbers.
"""

from __future__ import annotations

from types import ModuleType
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from pumice.engine.placement.node_kernel import Table, View
    from pumice.engine.placement.node_table import ShapeView

native: ModuleType | None
"""The compiled loops; None: this installation has none."""
try:
    from pumice.engine.placement import node_kernel

    native = node_kernel
except ImportError:
    native = None


def native_table(rooms: list[list[int]], idle: NDArray[np.int64], offered: NDArray[np.float64]) -> Table | None:
    """The compiled part of a node table, over its arrays; ``rooms`` are the idle amounts as the nodes keep them."""
    if native is None or len(idle) > native.MOST_RESOURCES:
        return None
    table: Table = native.Table(rooms, len(idle), idle, offered)
    return table


def native_view(table: Table, view: ShapeView) -> View:
    """The compiled part of a view; it keeps the scores in the view's array."""
    assert native is not None
    view.scores = np.empty(len(view.mask))
    shape = view.shape
    score = (view.weighed, view.linear, view.even, view.uneven)
    found: View = native.View(table, shape, shape.index, view.mask, view.static, view.scores, shape.items, *score)
    return found
