"""drf: dominant resource fairness, flat or over the hierarchy of queues (fairness.md 2 and 3)."""

from __future__ import annotations

from fractions import Fraction

from pumice.fairness.order import DrfOrder, Order
from pumice.fairness.paper import PaperOrder
from pumice.fairness.steer import SteerOrder
from pumice.fairness.tree import ShareTree
from pumice.model.accounts import Job
from pumice.scheduling.config import Flag
from pumice.scheduling.plugin import Arguments, Plugin, PluginError

RULES = ("steer", "paper")


class DrfPlugin(Plugin):
    """``enableHierarchy`` turns H-DRF on; ``drf.rule`` chooses how it is followed."""

    name = "drf"

    def __init__(self, arguments: Arguments) -> None:
        super().__init__(arguments)
        rule = arguments.get("drf.rule", "steer")
        if rule not in RULES:
            raise PluginError("drf.rule", f"{rule!r} is not a rule; write steer or paper")
        self.rule = rule
        self.patience = _seconds(arguments, "drf.patience", 300)
        self.hold_limit = _seconds(arguments, "drf.holdLimit", 120)

    def queue_order(self, tree: ShareTree, capacity: list[int]) -> Order | None:
        """H-DRF over the tree, or jobs by their share of the cluster."""
        if not self.config.on(Flag.HIERARCHY):
            return DrfOrder(tree, capacity)
        if self.rule == "paper":
            return PaperOrder(tree, capacity)
        return SteerOrder(tree, capacity, self.patience, self.hold_limit)

    def job_key(self, job: Job, priority: int, started: bool) -> int | None:
        """Jobs go by share at this plugin's place in the tiers: see ``orders_jobs_by_share``."""
        return None

    def orders_jobs_by_share(self) -> bool:
        """This is where a job's share counts."""
        return True


def _seconds(arguments: Arguments, name: str, default: int) -> int:
    """A number of seconds as microseconds; -1 means never."""
    value = arguments.get(name, default)
    try:
        seconds = Fraction(str(value))
    except (ValueError, ZeroDivisionError):
        seconds = Fraction(-2)
    if seconds < 0 and seconds != -1:
        raise PluginError(
            name, f"{value!r} is not a number of seconds; write for example 300, 0 (at once) or -1 (never)"
        )
    return int(seconds * 1_000_000)
