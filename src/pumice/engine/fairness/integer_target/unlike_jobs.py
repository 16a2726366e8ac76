"""The jobs with heterogeneous tasks, found by what their units ask for.

At the end of each step of a rounding pass these jobs are tried with any unit of their line. Most often nothing that
they ask for fits any more, however many of them wait: each inner node counts the jobs below it by the requests in their
lines, so that this is seen without looking at the jobs.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from pumice.engine.fairness.integer_target.task_line import Line
from pumice.model.specs import Items

if TYPE_CHECKING:
    from pumice.engine.fairness.integer_target.deficits import Deficits
    from pumice.engine.fairness.share_tree.share_node import JobNode, ShareNode

Requests = frozenset[Items]
NO_JOBS: dict[JobNode, Requests] = {}


class UnlikeJobs:
    """Jobs with heterogeneous tasks, counted at every node above them by the requests of their units."""

    def __init__(self) -> None:
        self._requests: dict[ShareNode, dict[JobNode, Requests]] = {}  # by parent
        self._counts: dict[ShareNode, dict[Items, int]] = {}
        self._known: dict[Requests, Requests] = {}  # one object for the requests of equal jobs

    def add(self, leaf: JobNode, line: Line) -> None:
        """Add a job, or update its requests to a new line."""
        requests = frozenset([run.items for run in line])
        assert leaf.parent is not None
        siblings = self._requests.setdefault(leaf.parent, {})
        if siblings.get(leaf) == requests:
            return
        self.discard(leaf)
        self._requests.setdefault(leaf.parent, siblings)[leaf] = self._known.setdefault(requests, requests)
        node: ShareNode | None = leaf.parent
        while node is not None:
            counts = self._counts.setdefault(node, {})
            for items in requests:
                counts[items] = counts.get(items, 0) + 1
            node = node.parent

    def discard(self, leaf: JobNode) -> None:
        """Remove a job, if it is there."""
        assert leaf.parent is not None
        siblings = self._requests.get(leaf.parent)
        requests = siblings.pop(leaf, None) if siblings is not None else None
        if requests is None:
            return
        if not siblings:
            del self._requests[leaf.parent]
        node: ShareNode | None = leaf.parent
        while node is not None:
            counts = self._counts[node]
            for items in requests:
                counts[items] -= 1
                if not counts[items]:
                    del counts[items]
            if not counts:
                del self._counts[node]
            node = node.parent
        if not self._requests:
            self._known.clear()

    def are_below(self, node: ShareNode) -> bool:
        """Whether there are any below a node."""
        return node in self._counts

    def below(self, group: ShareNode, deficits: Deficits) -> list[JobNode]:
        """The jobs below a node that may pass units over and ask for something that its deficit holds."""
        found: list[JobNode] = []
        stack = [group] if self._ask_for_less(group, group, deficits) else []
        while stack:
            node = stack.pop()
            stack += [child for child in node.branches.values() if self._ask_for_less(child, group, deficits)]
            jobs = self._requests.get(node, NO_JOBS)
            found += [leaf for leaf in jobs if may_pass_over(leaf) and _fits_one(jobs[leaf], group, deficits)]
        return found

    def _ask_for_less(self, node: ShareNode, group: ShareNode, deficits: Deficits) -> bool:
        """Whether a job below a node asks for something that the deficit of a group holds."""
        counts = self._counts.get(node)
        return counts is not None and _fits_one(counts, group, deficits)


def _fits_one(requests: Iterable[Items], group: ShareNode, deficits: Deficits) -> bool:
    return any(deficits.holds(group, items) for items in requests)


def may_pass_over(leaf: JobNode) -> bool:
    """Whether a job has units left, and the first of them is not its gang."""
    return leaf.run < len(leaf.line) and leaf.line[leaf.run].tasks <= 1
