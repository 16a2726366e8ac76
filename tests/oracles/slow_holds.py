"""Room kept for owed jobs that find none, from the rule (docs/fairness.md, section 3.4).

A hold is remembered by the name of the job: for which unit, on which nodes, how much it lacked when last looked at,
and when that last shrank. Everything else is worked out anew.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from pumice.model.specs import NodeSpec, TaskSpec, Vector
from tests.oracles.slow_nodes import Needs, NodeRules, Pod, could_ever, idle


@dataclass
class Hold:
    """Room kept for a job."""

    unit: object
    needs: Needs
    lack: float
    progress: int  # when the lack last shrank


@dataclass
class Stuck:
    """An owed job that finds no room."""

    job: str
    unit: object  # what it would start, to compare
    tasks: list[TaskSpec]
    order: tuple[object, ...]  # the most important first
    branch: str  # the child of the root it is below
    last: int  # its latest start
    rank: tuple[int, int, str]


@dataclass
class SlowHolds:
    """Who holds room, since when the others wait, and how often a wait was doubled."""

    patience: int
    limit: int
    held: dict[str, Hold] = field(default_factory=dict)
    waiting: dict[str, int] = field(default_factory=dict)
    doubled: dict[str, int] = field(default_factory=dict)

    def review(
        self,
        stuck: Sequence[Stuck],
        nodes: Sequence[NodeSpec],
        pods: Sequence[Pod],
        capacity: Vector,
        rules: NodeRules,
        *,
        now: int,
        nodes_changed: bool,
    ) -> list[Needs]:
        """End holds and start new ones; returns what must stay."""
        by_job = {who.job: who for who in stuck}
        self.waiting = {job: self.waiting.get(job, now) for job in by_job}
        for job, hold in list(self.held.items()):
            if job not in by_job or by_job[job].unit != hold.unit:
                del self.held[job]
                continue
            here = 1.0 if nodes_changed else lack_of(hold.needs, nodes, pods, capacity)
            needs, lack = least_lack(by_job[job].tasks, nodes, pods, capacity, rules)
            if needs and (nodes_changed or lack < here):
                hold.needs, here = needs, lack
            if here < hold.lack:
                hold.progress = now
            hold.lack = here
            if now - hold.progress > self.limit or (nodes_changed and not needs):
                del self.held[job]
                self.doubled[job] = self.doubled.get(job, 0) + 1
                self.waiting[job] = now
        since = {job: min(now, max(self.waiting[job], who.last)) for job, who in by_job.items()}
        for who in sorted(stuck, key=lambda who: (who.order, since[who.job], who.rank)):
            times = self.doubled.get(who.job, 0)
            patience = self.patience * 2**times
            if not self.patience and times:  # twice nothing is nothing: then as long as the hold was in vain
                patience = self.limit * 2 ** (times - 1)
            taken = {by_job[job].branch for job in self.held}
            if who.branch not in taken and now - since[who.job] >= patience:
                needs, lack = least_lack(who.tasks, nodes, pods, capacity, rules)
                if needs:
                    self.held[who.job] = Hold(who.unit, needs, lack, now)
        return [hold.needs for hold in self.held.values()]

    def forget(self, jobs: Mapping[str, object]) -> None:
        """Jobs that are gone wait no more."""
        self.doubled = {job: times for job, times in self.doubled.items() if job in jobs}


def least_lack(
    tasks: Sequence[TaskSpec], nodes: Sequence[NodeSpec], pods: Sequence[Pod], capacity: Vector, rules: NodeRules
) -> tuple[Needs, float]:
    """Task by task the node where it lacks least, none with more than it holds; and what is missing there in all."""
    left = {node.name: idle(node, pods) for node in nodes}
    needs: Needs = {}
    # The larger first: by amounts, resource by resource.
    for task in sorted(tasks, key=lambda task: [(j, a) for j, a in enumerate(task.request) if a], reverse=True):
        asked = {j: a for j, a in enumerate(task.request) if a}
        lacks = {
            node.name: max(0.0, *((a - left[node.name][j]) / (capacity[j] or 1) for j, a in asked.items()))
            for node in sorted(nodes, key=lambda node: node.name)
            if could_ever(task, node, rules)
            and all(needs.get(node.name, {}).get(j, 0) + a <= node.allocatable[j] for j, a in asked.items())
        }
        if not lacks:
            return {}, 0.0
        best = min(lacks, key=lambda name: lacks[name])
        need = needs.setdefault(best, {})
        for j, a in asked.items():
            need[j] = need.get(j, 0) + a
            left[best][j] -= a
    return needs, lack_of(needs, nodes, pods, capacity)


def lack_of(needs: Needs, nodes: Sequence[NodeSpec], pods: Sequence[Pod], capacity: Vector) -> float:
    """What is missing on the nodes where room is kept: the dominant part of the cluster, added up."""
    left = {node.name: idle(node, pods) for node in nodes}
    total = 0.0
    for name, need in needs.items():
        total += max(max(0, a - left[name][j]) / (capacity[j] or 1) for j, a in need.items())
    return total
