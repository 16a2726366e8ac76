"""drf: dominant resource fairness, flat or over the hierarchy of queues (docs/fairness.md, sections 2 and 3)."""

from __future__ import annotations

from pumice.engine.config.scheduler_config import Flag
from pumice.engine.fairness.orders.published_hdrf import PublishedHdrfOrder
from pumice.engine.fairness.orders.serving_order import ServingOrder
from pumice.engine.fairness.orders.target_order import TargetOrder
from pumice.engine.fairness.share_tree.tree import ShareTree
from pumice.engine.plugins.builtin.arguments import seconds
from pumice.engine.plugins.plugin import Argument, Arguments, Plugin, PluginError
from pumice.engine.state.job import Job

RULES = ("steer", "paper")


class DrfPlugin(Plugin):
    """``enableHierarchy`` turns H-DRF on; ``drf.rule`` chooses how it is followed."""

    name = "drf"
    takes = (
        Argument("drf.rule", "steer", "how H-DRF is followed: steer (exact targets) or paper (as published)"),
        Argument(
            "drf.patience", "300", "seconds an owed job finds no room before some is kept for it; 0 at once, -1 never"
        ),
        Argument("drf.holdLimit", "120", "seconds without progress after which room is no longer kept; -1 never"),
    )

    def __init__(self, arguments: Arguments) -> None:
        super().__init__(arguments)
        rule = arguments.get("drf.rule", "steer")
        if rule not in RULES:
            raise PluginError("drf.rule", f"{rule!r} is not a rule; write steer or paper")
        self.rule = rule
        self.patience = seconds(arguments, "drf.patience", 300_000_000, never=True)
        self.hold_limit = seconds(arguments, "drf.holdLimit", 120_000_000, never=True)

    def queue_order(self, tree: ShareTree, capacity: list[int]) -> ServingOrder | None:
        """H-DRF over the tree. Flat DRF orders jobs, not queues."""
        if not self.config.on(Flag.HIERARCHY):
            return None
        if self.rule == "paper":
            return PublishedHdrfOrder(tree, capacity)
        return TargetOrder(tree, capacity, self.patience, self.hold_limit)

    def job_key(self, job: Job, priority: int, started: bool) -> int | None:
        """Order jobs by share at this plugin's position in the tiers: see ``orders_jobs_by_share``."""
        return None

    def orders_jobs_by_share(self) -> bool:
        """A job's share counts at this position."""
        return True
