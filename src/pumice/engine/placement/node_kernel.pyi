"""The inner loops of the node table in C (node_kernel.c)."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

MOST_RESOURCES: int

class Table:
    """Idle capacity of all nodes, and the journal of those that changed."""

    def __new__(
        cls, rooms: list[list[int]], width: int, idle: NDArray[np.int64], offered: NDArray[np.float64], /
    ) -> Table: ...
    def __len__(self) -> int: ...
    def note(self, node: int, /) -> None: ...
    def sync(self) -> None: ...
    def forget(self) -> None: ...

class View:
    """The nodes as seen by one shape."""

    def __new__(
        cls,
        table: Table,
        mask: NDArray[np.bool_],
        fixed: NDArray[np.float64],
        scores: NDArray[np.float64],
        items: Sequence[tuple[int, int]],
        parts: Sequence[tuple[int, int]],
        linear: Sequence[tuple[int, int, float]],
        even: Sequence[tuple[int, int]],
        uneven: float,
        /,
    ) -> View: ...
    def follow(self) -> None: ...
    def best(self) -> int: ...
    def best_among(self, allowed: NDArray[np.bool_], /) -> int: ...
    def pop_fitting(self, spares: list[int], /) -> int: ...
    def find_fitting(self, wanted: int, which: NDArray[np.intp] | None, /) -> tuple[int, list[int]]: ...
