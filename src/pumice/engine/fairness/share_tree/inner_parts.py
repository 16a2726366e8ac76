"""What only queues and namespaces of the share tree have. Jobs are many, and do without."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pumice.model.specs import Items

if TYPE_CHECKING:
    from pumice.engine.fairness.share_tree.equal_jobs import Equality, EqualJobs
    from pumice.engine.fairness.share_tree.share_node import BranchKey, ShareNode


class InnerParts:
    """The part of a share node that has children."""

    __slots__ = (
        "able_count",
        "branches",
        "ceiling",
        "claims",
        "deserved",
        "equal_jobs",
        "guarantee",
        "held_heads",
        "owed_count",
        "queue_name",
        "user_ceilings",
        "waiting_heads",
    )

    def __init__(self, width: int) -> None:
        self.branches: dict[BranchKey, ShareNode] = {}  # children that are no jobs
        self.equal_jobs: dict[Equality, EqualJobs] = {}  # the jobs among the children, in groups
        self.queue_name: str | None = None  # the Queue object behind a queue node
        # Bounds, where some plugin sets them (docs/fairness.md, sections 6.1 to 6.3 and 8.3).
        self.guarantee: list[int] | None = None  # reserved: unavailable to other queues
        self.ceiling: list[int] | None = None  # real capability: the most that may be held below
        self.deserved: Items | None = None  # deserved amount; of the resources named, zeros included
        self.user_ceilings: dict[str, list[int]] | None = None  # of a leaf queue: the most each user may hold
        # Of a queue: the holdings of its jobs and the claims of its child queues; kept while any queue has a guarantee.
        self.claims: list[int] = [0] * width
        # The next units of the jobs below (see ``rounding``), counted by their request: running ones, and pending ones.
        self.held_heads: dict[Items, int] = {}
        self.waiting_heads: dict[Items, int] = {}
        # Children with candidates, counted per resource that their units ask for: with a count > 0 it is requested.
        self.able_count: list[int] = [0] * width
        self.owed_count: list[int] = [0] * width
