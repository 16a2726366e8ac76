"""The inner loops of the node table in C (node_kernel.c)."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from pumice.engine.state.task_shapes import TaskShape
from pumice.model.specs import Items

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
    def lose(self, node: int, gains: int, growths: int, /) -> list[TaskShape]: ...
    def grow(
        self, views: list[View | None], nodes: list[int], nowhere_else: bool, gains: int, growths: int, /
    ) -> list[TaskShape]: ...
    def reserve(self, room: dict[int, list[Items]], /) -> None: ...

class View:
    """The nodes as seen by one shape."""

    def __new__(
        cls,
        table: Table,
        shape: TaskShape,
        index: int,
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
    def fits_somewhere(self, gains: int, growths: int, /) -> bool: ...
    def search(self) -> tuple[int, list[int], int]: ...
