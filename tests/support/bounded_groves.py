"""Groves with limits on their queues, at random: ceilings, guarantees (also impossible ones) and limited users."""

from __future__ import annotations

from collections.abc import Callable

from hypothesis import strategies as st

from pumice.engine.fairness.share_tree.share_node import JobNode, NodeKind, ShareNode
from tests.support.groves import WIDTH, Grove, below, groves


@st.composite
def bounded_groves(draw: st.DrawFn, *, holdings: bool = True) -> Grove:
    """A grove of which some queues are limited; jobs belong to three users and may be in namespaces."""
    grove = draw(groves(namespaces=draw(st.booleans()), holdings=holdings))
    for job in grove.jobs:
        job.user = draw(st.sampled_from(["ann", "bob", "cy"]))
    limit(grove, draw)
    return grove


def limit(grove: Grove, draw: Callable[[st.SearchStrategy[int]], int]) -> None:
    """New limits for all queues."""
    for node in grove.groups:
        node.ceiling = node.guarantee = node.user_ceilings = None
        if node.kind is not NodeKind.QUEUE:
            continue
        some = draw(st.integers(0, 7))
        if some & 1:
            node.ceiling = [draw(st.integers(0, total * 5 // 4)) for total in grove.capacity]
        if some & 2 and node.parent is not None:
            node.guarantee = [max(0, draw(st.integers(-total // 4, total // 2))) for total in grove.capacity]
        if some & 4 and not any(child.kind is NodeKind.QUEUE for child in node.children.values()):
            node.user_ceilings = {
                user: [draw(st.integers(0, total)) for total in grove.capacity] for user in ("ann", "bob")
            }


def reserved(grove: Grove, node: ShareNode, j: int) -> int:
    """What a node is guaranteed, as far as that is possible."""
    bounds = grove.tree.bounds
    return bounds.guarantees[node][j] if bounds is not None and node in bounds.guarantees else 0


def most(grove: Grove, node: ShareNode, j: int) -> int:
    """What may be claimed below a node."""
    ceiling = node.ceiling[j] if node.ceiling is not None else grove.capacity[j]
    return min(ceiling, grove.capacity[j])


def claimed_below(grove: Grove, node: ShareNode, j: int, whole: dict[JobNode, list[int]]) -> int:
    """What the children of a node claim together: each what it has, or what it is guaranteed if that is more."""
    total = 0
    for child in node.children.values():
        if isinstance(child, JobNode):
            total += whole[child][j]
        else:
            total += max(reserved(grove, child, j), claimed_below(grove, child, j, whole))
    return total


def of_user(leaf: JobNode) -> list[JobNode]:
    """The jobs that share a user's ceiling with a job."""
    return [job for job in below(leaf.queue) if job.user == leaf.user]


def user_most(leaf: JobNode, j: int) -> int | None:
    """A user's ceiling in the queue of a job; None: there is none."""
    ceilings = leaf.queue.user_ceilings or {}
    return ceilings[leaf.user][j] if leaf.user in ceilings else None


def above_limits(grove: Grove, whole: dict[JobNode, list[int]]) -> list[str]:
    """Where more is claimed than there may be."""
    found = []
    for node in grove.groups:
        for j in range(WIDTH):
            claims = claimed_below(grove, node, j, whole)
            if claims > most(grove, node, j):
                found.append(f"{node.path}: {claims} of resource {j}, at most {most(grove, node, j)}")
    for leaf in grove.jobs:
        for j in range(WIDTH):
            limit_ = user_most(leaf, j)
            if limit_ is not None and sum(whole[job][j] for job in of_user(leaf)) > limit_:
                found.append(f"{leaf.user} in {leaf.queue.path}: above {limit_} of resource {j}")
    return found
