"""users: limit what one user of a leaf queue may hold, by minUserLimitPercent and userLimitFactor, as in YARN.

A limit in a Queue applies whether or not a configuration names this plugin: the plugin chain adds it at the end of the
tiers. Before targets are set, the plugin recounts the usage and demand of the users of every limited queue. In between,
the share tree updates each user's usage incrementally.

The percentage decides which users come first, not how much of a queue may be used: once no job in the cluster can start
within the limits, users beyond it may use capacity that would stay idle (``gives_way``). The factor is a hard limit.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pumice.engine.config.enable_flags import Flag
from pumice.engine.fairness.limits.user_limits import (
    Exact,
    LimitedQueue,
    UserLimitRule,
    child_queues,
    configured_capacity,
    static_parts,
    user_rule,
)
from pumice.engine.fairness.share_tree.share_node import JobNode, ShareNode
from pumice.engine.plugins.plugin import Arguments, Plugin

if TYPE_CHECKING:
    from pumice.engine.candidates.units import AllocationUnit


@dataclass(frozen=True, slots=True)
class Beyond:
    """A unit whose user is at the limit already, with the terms of that limit (docs/fairness.md, section 8.1)."""

    user: str
    queue: ShareNode
    resource: int
    held: int
    asks: int
    limit: int
    users: int  # users with pending work: n
    configured: Exact  # Q
    base: Exact  # C
    rule: UserLimitRule
    by_factor: bool  # whether the factor is the limit that rejects it


class UsersPlugin(Plugin):
    """Counts the users of limited queues, and makes users at their limit wait for the others."""

    name = "users"
    takes = ()

    def __init__(self, arguments: Arguments) -> None:
        super().__init__(arguments)
        self._counted: list[JobNode] = []
        self._waiting: dict[ShareNode, int] = {}  # the number of waiting users per queue when targets were set

    # --- bounds -------------------------------------------------------------------------------------------------

    def set_bounds(self) -> None:
        """Find the limited queues, and count the usage and demand of their users."""
        limited = self.tree.limited
        for node in limited:
            node.user_ceilings = None
        for leaf in self._counted:
            leaf.user_held = None
        limited.clear()
        self._counted.clear()
        queues = self.state.queues
        rules = {name: rule for name, queue in queues.items() if (rule := user_rule(queue)) is not None}
        if rules and self.config.on(Flag.ALLOCATABLE):
            for node, part in static_parts(self.tree.root).items():
                rule = rules.get(node.queue_name) if node.queue_name is not None else None
                if rule is None or child_queues(node):
                    continue  # only leaf queues have users
                assert node.queue_name is not None
                configured = configured_capacity(queues[node.queue_name], part, node, self.state.capacity)
                queue = limited[node] = LimitedQueue(node, rule, configured)
                for below in node.walk():
                    if isinstance(below, JobNode):
                        queue.count(below)
                        self._counted.append(below)
        self._waiting = self._count_waiting()

    def bounds_moved(self) -> bool:
        """Whether users began or ceased to wait: the entitlement ceilings depend on their number."""
        return bool(self._waiting) and self._waiting != self._count_waiting()

    def _count_waiting(self) -> dict[ShareNode, int]:
        return {node: queue.waiting() for node, queue in self.tree.limited.items() if queue.rule.percent is not None}

    # --- allocate -----------------------------------------------------------------------------------------------------

    def allocatable(self, leaf: JobNode, unit: AllocationUnit) -> str | None:
        """Whether the user is below the limit of every resource that the unit asks for."""
        if leaf.user_held is None:  # most jobs, and this runs for every unit
            return None
        beyond = next(self.beyond(leaf, unit), None)
        return self._refusal(beyond) if beyond is not None else None

    def gives_way(self, leaf: JobNode, unit: AllocationUnit) -> bool:
        """Whether only the percentage rejects a unit: the factor is a hard limit."""
        return leaf.user_held is not None and not any(beyond.by_factor for beyond in self.beyond(leaf, unit))

    def beyond(self, leaf: JobNode, unit: AllocationUnit) -> Iterator[Beyond]:
        """The resources whose limit the user of a unit has reached."""
        held = leaf.user_held
        if held is None:
            return
        queue = self.tree.limited[leaf.queue]
        rule, users = queue.rule, 0
        for j, amount in unit.ask:
            configured, base = queue.configured[j], queue.base(j, amount)
            by_factor = rule.by_factor(configured)
            most = by_factor
            # Counting waiting users pays off only where it can matter: for users above the smallest possible part.
            least = rule.by_percent(base, len(queue.held) + 1)
            if least is not None and held[j] >= least:
                users = users or queue.waiting()
                by_percent = rule.by_percent(base, users)
                most = min((n for n in (by_factor, by_percent) if n is not None), default=None)
            if most is not None and held[j] >= most:
                hard = by_factor is not None and held[j] >= by_factor
                users = users or queue.waiting()
                yield Beyond(leaf.user, queue.node, j, held[j], amount, most, users, configured, base, rule, hard)

    def preemptive(self, leaf: JobNode, unit: AllocationUnit) -> str | None:
        """A victim in another queue lifts no limit of this one."""
        return self.allocatable(leaf, unit)

    def _refusal(self, beyond: Beyond) -> str:
        j = beyond.resource

        def written(amount: int) -> str:
            return self.registry.format_amount(j, amount)

        whose = f"one of {beyond.users} users" if beyond.users > 1 else "one user"
        return (
            f"user {beyond.user} holds {self.registry.names[j]} {written(beyond.held)} of the {written(beyond.limit)} "
            f"that {whose} may hold in queue {beyond.queue.queue_name}, and asks for {written(beyond.asks)} more"
        )
