"""Node properties as columns: a label, the taints or the name of all nodes as one array of codes.

A column numbers the values that occur; a node without a value has code -1. A property of values is stored in a table
with one entry per code and a last one for "none", and ``table[codes]`` evaluates it for every node: the same column
serves selectors (does the value match?) and topologies (the code is the domain).
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from pumice.engine.placement.node_table import NodeTable
from pumice.model.specs import Taint

Mask = NDArray[np.bool_]
Value = TypeVar("Value", bound=Hashable)


class Column(Generic[Value]):
    """One property of all nodes."""

    __slots__ = ("codes", "values")

    def __init__(self, of_nodes: Iterable[Value | None]) -> None:
        self.values: dict[Value, int] = {}
        known = self.values
        codes = [-1 if value is None else known.setdefault(value, len(known)) for value in of_nodes]
        self.codes: NDArray[np.intp] = np.array(codes, np.intp)

    def table(self) -> Mask:
        """A new table of False: one entry per value, the last one for nodes that have none."""
        return np.zeros(len(self.values) + 1, np.bool_)

    @property
    def present(self) -> Mask:
        """The nodes that have the property."""
        return self.codes >= 0


class NodeColumns:
    """The columns of a node table, created on demand; valid until the nodes change."""

    __slots__ = ("_labels", "_names", "_nodes", "_taints", "count", "epoch", "index", "table")

    def __init__(self, table: NodeTable) -> None:
        self.table = table
        self.epoch = table.epoch
        self.index = table.index
        self.count = len(table.nodes)
        self._nodes = table.nodes
        self._labels: dict[str, Column[str]] = {}
        self._names: Column[str] | None = None
        self._taints: Column[tuple[Taint, ...]] | None = None

    def current(self, table: NodeTable) -> bool:
        """Whether these are still the columns of the table."""
        return self.table is table and self.epoch == table.epoch

    def label(self, key: str) -> Column[str]:
        """A label of all nodes."""
        column = self._labels.get(key)
        if column is None:
            values = (node.spec.labels.get(key) if node.spec is not None else None for node in self._nodes)
            column = self._labels[key] = Column(values)
        return column

    @property
    def names(self) -> Column[str]:
        """The names of all nodes: each its own domain."""
        if self._names is None:
            self._names = Column(node.name for node in self._nodes)
        return self._names

    @property
    def taints(self) -> Column[tuple[Taint, ...]]:
        """The taints of all nodes."""
        if self._taints is None:
            self._taints = Column(node.spec.taints if node.spec is not None else () for node in self._nodes)
        return self._taints


def columns_of(table: NodeTable, known: NodeColumns | None) -> NodeColumns:
    """The given columns if they are still valid, else new ones."""
    return known if known is not None and known.current(table) else NodeColumns(table)
