"""Nodes of the share tree by depth, for what is computed level by level."""

from __future__ import annotations

from collections.abc import Iterable

from pumice.engine.fairness.share_tree.share_node import ShareNode


def levels_above(nodes: Iterable[ShareNode]) -> list[list[ShareNode]]:
    """These nodes and all above them, by depth: the root first."""
    depths: dict[ShareNode, int] = {}
    for start in nodes:
        path: list[ShareNode] = []
        node: ShareNode | None = start
        while node is not None and node not in depths:
            path.append(node)
            node = node.parent
        depth = -1 if node is None else depths[node]
        for node in reversed(path):
            depth += 1
            depths[node] = depth
    levels: list[list[ShareNode]] = [[] for _ in range(max(depths.values(), default=-1) + 1)]
    for node, depth in depths.items():
        levels[depth].append(node)
    return levels
