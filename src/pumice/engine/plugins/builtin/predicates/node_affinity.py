"""Node selection: the nodes that a selector or a node affinity term selects, by their labels or their name."""

from __future__ import annotations

import numpy as np

from kubebase.label_selector import Requirement, meets
from pumice.engine.plugins.builtin.predicates.node_columns import Column, Mask, NodeColumns
from pumice.model.specs import Constraints, NodeTerm


def selected(constraints: Constraints, columns: NodeColumns) -> Mask | None:
    """The nodes that match the node selector and the required node affinity; None for all."""
    if not constraints.node_selector and constraints.node_required is None:
        return None
    mask = np.ones(columns.count, np.bool_)
    for key, value in constraints.node_selector:
        mask &= _where(Requirement(key, "In", (value,)), columns.label(key))
    if constraints.node_required is not None:
        picked = np.zeros(columns.count, np.bool_)
        for term in constraints.node_required:
            picked |= picked_by(term, columns)
        mask &= picked
    return mask


def picked_by(term: NodeTerm, columns: NodeColumns) -> Mask:
    """The nodes that match all requirements of a term. An empty term selects no node."""
    mask = np.full(columns.count, bool(term.labels or term.fields))
    for requirement in term.labels:
        mask &= _where(requirement, columns.label(requirement.key))
    for requirement in term.fields:  # metadata.name is the only one there is
        mask &= _where(requirement, columns.names)
    return mask


def _where(requirement: Requirement, column: Column[str]) -> Mask:
    table = column.table()
    if requirement.operator == "In":  # pods pinned to one node each are common: no scan of all names
        for value in requirement.values:
            code = column.values.get(value)
            if code is not None:
                table[code] = True
    else:
        for value, code in column.values.items():
            table[code] = meets((requirement,), {requirement.key: value})
        table[-1] = meets((requirement,), {})
    return table[column.codes]
