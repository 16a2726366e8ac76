"""A scenario from beginning to end: load it, let happen what happens, cycle by cycle, and see what came out.

Without a number of cycles it runs until nothing changes and nothing is still to happen. Churn, where asked for,
comes after that first fill.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from pumice.fairness.steer import SteerOrder
from pumice.fairness.targets import set_targets
from pumice.fairness.tree import JobNode, ShareNode
from pumice.scheduling.config import Flag
from pumice.scheduling.decisions import Decision
from pumice.sim.churn import Means, churn
from pumice.sim.cluster import Cluster
from pumice.sim.events import Events
from pumice.sim.loading import SECOND, load
from pumice.sim.problems import BadInput, Problem
from pumice.sim.scenario import Scenario

LONGEST = 100
"""Cycles after which a scenario that never comes to rest is stopped."""


class Simulation:
    """A scenario that was loaded, and everything that has come out of it so far."""

    def __init__(self, scenario: Scenario, *, tracing: bool = False) -> None:
        loaded = load(scenario)
        if loaded.problems and not scenario.expects_refusals:
            raise BadInput(loaded.problems)
        self.scenario = scenario
        self.errors: list[Problem] = loaded.problems
        self.decisions: list[tuple[int, Decision]] = []
        self.means: Means | None = None
        self.cluster = Cluster(
            loaded.objects,
            loaded.registry,
            scenario.config,
            cycle_length=max(1, round(scenario.spec.cycle_seconds * SECOND)),
            tracing=tracing,
        )
        self._events = Events(scenario, self.cluster, loaded.translated)

    def step(self) -> list[Decision]:
        """What happens before the next cycle, and the cycle."""
        self.errors += self._events.before(self.cluster.cycles + 1)
        decisions = self.cluster.cycle()
        self.decisions += [(self.cluster.cycles, decision) for decision in decisions]
        return decisions

    def run(self, watch: Callable[[Simulation], None] | None = None) -> None:
        """All of it; ``watch`` is called after each cycle."""
        spec = self.scenario.spec
        seen = watch or (lambda _: None)
        limit = spec.cycles or LONGEST
        at_rest = False
        while self.cluster.cycles < limit and not at_rest:
            at_rest = not self.step() and spec.cycles is None
            seen(self)
            if spec.cycles is None and spec.churn is None and self._events.last_cycle > self.cluster.cycles:
                # Nothing changes before the next event, or it would never be reached: it is still to happen.
                at_rest, limit = False, max(limit, self._events.last_cycle)
        if spec.churn is not None:
            self.means = churn(self, spec.churn, seen)
        engine = self.cluster.engine
        if self.has_targets and not isinstance(engine.order, SteerOrder):
            set_targets(engine.tree, engine.state.capacity)  # the rule follows none, but people compare with it

    @property
    def has_targets(self) -> bool:
        """Whether entitlements over the tree mean anything under the policy in force."""
        plugins = self.cluster.engine.policy.config.plugins
        return any(entry.name == "drf" and entry.on(Flag.HIERARCHY) for entry in plugins)

    @property
    def key_name(self) -> str:
        """What the numbers are that decide in a trace: under ``steer`` the largest want, else the least share."""
        return "want" if isinstance(self.cluster.engine.order, SteerOrder) else "share"

    # --- figures --------------------------------------------------------------------------------------------------

    def held(self, node: ShareNode) -> Sequence[float]:
        """What a node of the tree holds; under churn, the mean."""
        return node.held if self.means is None else self.means.held(node)

    def running(self, leaf: JobNode) -> float:
        """How many tasks of a job have a place; under churn, the mean."""
        return leaf.job.running if self.means is None else self.means.running(leaf)

    def pending(self, leaf: JobNode) -> float:
        """How many tasks of a job wait; under churn, the mean."""
        return sum(leaf.job.unfinished.values()) - self.running(leaf)
