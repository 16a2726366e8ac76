"""The reason recorded with an eviction: preemptor, victim, their lowest common ancestor, and the keys of both sides."""

from __future__ import annotations

from pumice.engine.decisions import Evict, Sides
from pumice.engine.fairness.preemption_rules.rules import PreemptionRule, lowest_common_ancestor
from pumice.engine.fairness.share_tree.share_node import JobNode, ShareNode
from pumice.engine.transaction import Eviction


def sibling_keys(judge: PreemptionRule, leaf: JobNode) -> dict[ShareNode, float]:
    """The keys of all nodes on the preemptor's path and of their siblings, before the transaction changes any."""
    keys: dict[ShareNode, float] = {}
    node: ShareNode | None = leaf.parent
    while node is not None:
        keys.update((child, judge.key(child)) for child in node.children.values())
        node = node.parent
    return keys


class EvictionReason:
    """Builds the eviction decision, with its reason, for each victim of one preemptor."""

    def __init__(self, action: str, leaf: JobNode, judge: PreemptionRule, before: dict[ShareNode, float]) -> None:
        self._action = action
        self._leaf = leaf
        self._judge = judge
        self._before = before

    def __call__(self, gone: Eviction) -> Evict:
        """The eviction decision for one victim."""
        task = gone.task
        assert task.job is not None
        sides = None
        if self._before:
            level, ours, theirs = lowest_common_ancestor(self._leaf, gone.leaf)
            (ours_before, ours_now), (theirs_before, theirs_now) = (
                self._judge.judged(ours, self._leaf, task.shape.ask),
                self._judge.judged(theirs, gone.leaf, task.shape.ask),
            )
            before = (
                self._before[ours] if ours_before is None else ours_before,
                self._before[theirs] if theirs_before is None else theirs_before,
            )
            sides = Sides(level.path, ours.path, theirs.path, before, (ours_now, theirs_now), self._judge.measure)
        return Evict(task.spec.key, gone.node.name, task.job.key, self._leaf.job.key, self._action, sides)
