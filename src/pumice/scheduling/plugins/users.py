"""users: nobody holds more of a leaf queue than its minUserLimitPercent and userLimitFactor say (fairness.md 8).

A limit somebody wrote on a queue counts whether or not a configuration names this plugin: the policy adds it at the
end of the tiers. Before targets are set, the users of every limited queue are counted anew: those who hold something
there or ask for something that can run are active. Between, the share tree keeps what each user holds up to date by
the difference, so that the gate costs a few comparisons a unit, however many jobs a queue has.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pumice.fairness.tree import JobNode, ShareNode
from pumice.fairness.users import (
    Exact,
    UserRule,
    base_of,
    child_queues,
    configured_capacity,
    static_parts,
    user_rule,
)
from pumice.model.resources import LARGEST_AMOUNT, PODS
from pumice.scheduling.flags import Flag
from pumice.scheduling.plugin import Arguments, Plugin

if TYPE_CHECKING:
    from pumice.scheduling.units import Unit


@dataclass(slots=True)
class _LimitedQueue:
    """A leaf queue whose users are limited. ``held``: what each holds there, counted on by the share tree."""

    node: ShareNode
    rule: UserRule
    configured: list[Exact]
    held: defaultdict[str, defaultdict[int, int]] = field(default_factory=lambda: defaultdict(lambda: defaultdict(int)))
    active: set[str] = field(default_factory=set)

    def limit(self, j: int, unit: int) -> int | None:
        """The most that one user may hold of a resource once a unit that asks for so much of it has started."""
        configured = self.configured[j]
        return self.rule.limit(configured, base_of(configured, self.node.held[j] + unit), len(self.active))


@dataclass(frozen=True, slots=True)
class Beyond:
    """A unit that would take its user beyond the limit, and how that limit comes about (fairness.md 8)."""

    user: str
    queue: ShareNode
    resource: int
    held: int
    asks: int
    limit: int
    users: int  # active ones: n
    configured: Exact  # Q
    base: Exact  # C
    rule: UserRule


class UsersPlugin(Plugin):
    """Counts the users of limited queues and keeps each within the limit."""

    name = "users"
    takes = ()

    def __init__(self, arguments: Arguments) -> None:
        super().__init__(arguments)
        self._limited: dict[ShareNode, _LimitedQueue] = {}
        self._counted: list[JobNode] = []

    # --- bounds -------------------------------------------------------------------------------------------------

    def set_bounds(self) -> None:
        """Find the limited queues, count their users, and cap what these are entitled to."""
        for node in self._limited:
            node.user_ceilings = None
        for leaf in self._counted:
            leaf.user_held = None
        self._limited.clear()
        self._counted.clear()
        queues = self.state.queues
        rules = {name: rule for name, queue in queues.items() if (rule := user_rule(queue)) is not None}
        if not rules or not self.config.on(Flag.ALLOCATABLE):
            return
        for node, part in static_parts(self.tree.root).items():
            rule = rules.get(node.object) if node.object is not None else None
            if rule is None or child_queues(node):
                continue  # only leaf queues have users
            assert node.object is not None
            configured = configured_capacity(queues[node.object], part, node, self.state.capacity)
            queue = self._limited[node] = _LimitedQueue(node, rule, configured)
            self._count(queue)
            node.user_ceilings = self._ceilings(queue)

    def _count(self, queue: _LimitedQueue) -> None:
        for leaf in queue.node.walk():
            if isinstance(leaf, JobNode):
                held = leaf.user_held = queue.held[leaf.user]
                for j, amount in enumerate(leaf.held):
                    held[j] += amount
                if leaf.demand.pieces:
                    queue.active.add(leaf.user)
                self._counted.append(leaf)

    def _ceilings(self, queue: _LimitedQueue) -> dict[str, list[int]] | None:
        """What each user of a queue is entitled to at most; the same for all, since the limit is one."""
        limits = [queue.limit(j, 0) for j in range(self.tree.width)]
        if None in limits:
            return None
        ceiling = [LARGEST_AMOUNT if j == PODS or limit is None else limit for j, limit in enumerate(limits)]
        return {user: list(ceiling) for user in queue.held}

    # --- the gate -------------------------------------------------------------------------------------------------

    def allocatable(self, leaf: JobNode, unit: Unit) -> str | None:
        """Whether the user stays within the limit on every resource that the unit asks for."""
        if leaf.user_held is None:  # most jobs, and this is asked for every unit
            return None
        beyond = next(self.beyond(leaf, unit), None)
        return self._refusal(beyond) if beyond is not None else None

    def beyond(self, leaf: JobNode, unit: Unit) -> Iterator[Beyond]:
        """The resources of which a unit would take its user beyond the limit."""
        held = leaf.user_held
        if held is None:
            return
        queue = self._limited[leaf.queue]
        for j, amount in unit.ask:
            limit = queue.limit(j, amount)
            if limit is not None and held[j] + amount > limit:
                configured = queue.configured[j]
                base = base_of(configured, queue.node.held[j] + amount)
                users = len(queue.active)
                yield Beyond(leaf.user, queue.node, j, held[j], amount, limit, users, configured, base, queue.rule)

    def may_take(self, leaf: JobNode, unit: Unit) -> str | None:
        """Whoever leaves another queue lifts no limit of this one."""
        return self.allocatable(leaf, unit)

    def _refusal(self, beyond: Beyond) -> str:
        j = beyond.resource

        def written(amount: int) -> str:
            return self.registry.format_amount(j, amount)

        whose = f"one of {beyond.users} users" if beyond.users > 1 else "one user"
        return (
            f"user {beyond.user} holds {self.registry.names[j]} {written(beyond.held)} of the {written(beyond.limit)} "
            f"that {whose} may hold in queue {beyond.queue.object}, and asks for {written(beyond.asks)} more"
        )
