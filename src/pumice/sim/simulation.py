"""Run a scenario: load it, run events and cycles, and keep the results.

A scenario without a number of cycles runs until nothing changes and no event is left. Churn starts after that first
allocation.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from pumice.engine.config.scheduler_config import Flag
from pumice.engine.decisions import Decision
from pumice.engine.fairness.fluid_target.targets import set_targets
from pumice.engine.fairness.share_tree.share_node import JobNode, ShareNode
from pumice.input_errors import BadInput, Problem
from pumice.sim.manifest_files import SCENARIO, Manifest
from pumice.sim.manifest_translation import pods_of_job
from pumice.sim.scenario import Scenario, read_scenario
from pumice.sim.scenario_events import ScenarioEvents
from pumice.sim.scenario_loader import SECOND, decode_problems, load_scenario
from pumice.sim.simulated_cluster import SimulatedCluster
from pumice.sim.task_churn import ChurnMeans, run_churn

MAX_IDLE_CYCLES = 100
"""The limit of cycles after the last event, for a scenario that does not become stable."""


def open_simulation(manifests: list[Manifest], path: str, *, tracing: bool = False) -> Simulation:
    """Load a scenario; raises BadInput with all problems."""
    try:
        scenario = read_scenario(manifests, path)
    except BadInput as error:
        others = [manifest for manifest in manifests if manifest.kind != SCENARIO]
        raise BadInput([*error.problems, *decode_problems(others)]) from None
    return Simulation(scenario, tracing=tracing)


class Simulation:
    """A loaded scenario and its results so far."""

    def __init__(self, scenario: Scenario, *, tracing: bool = False) -> None:
        loaded = load_scenario(scenario)
        if loaded.problems and not scenario.expects_refusals:
            raise BadInput(loaded.problems)
        self.scenario = scenario
        self.errors: list[Problem] = loaded.problems
        self.decisions: list[tuple[int, Decision]] = []
        self.means: ChurnMeans | None = None
        self.cluster = SimulatedCluster(
            loaded.objects,
            loaded.registry,
            scenario.config,
            cycle_length=max(1, round(scenario.spec.cycle_seconds * SECOND)),
            termination_cycles=scenario.spec.termination_cycles,
            recreation_cycles=scenario.spec.recreation_cycles,
            controlled=(key for translated in loaded.translated for key in pods_of_job(translated)),
            tracing=tracing,
        )
        self.admission = loaded.admission
        self._events = ScenarioEvents(scenario, self.cluster, loaded.admission, loaded.translated)

    def step(self) -> list[Decision]:
        """Run the events before the next cycle, and the cycle."""
        self.errors += self._events.run_before(self.cluster.cycles + 1)
        decisions = self.cluster.cycle()
        self.decisions += [(self.cluster.cycles, decision) for decision in decisions]
        return decisions

    def run(self, watch: Callable[[Simulation], None] | None = None) -> None:
        """All of it; ``watch`` is called after each cycle."""
        spec = self.scenario.spec
        seen = watch or (lambda _: None)
        if spec.cycles is not None:
            while self.cluster.cycles < spec.cycles:
                self.step()
                seen(self)
        else:
            # With churn, later events happen during churn; otherwise the run waits for them.
            to_come = 0 if spec.churn is not None else self._events.last_cycle
            changing = True
            while changing and self.cluster.cycles < to_come + MAX_IDLE_CYCLES:
                changing = bool(self.step()) or self.cluster.cycles < to_come or self.cluster.is_changing
                seen(self)
        if spec.churn is not None:
            self.means = run_churn(self, spec.churn, seen)
        self.errors += self._events.missed_events()
        engine = self.cluster.engine
        if self.has_targets and not engine.order.has_targets:
            set_targets(engine.tree, engine.state.capacity)  # the policy uses no targets, but reports compare with them

    @property
    def has_targets(self) -> bool:
        """Whether entitlements are defined under the configured policy."""
        plugins = self.cluster.engine.policy.config.plugins
        return any(entry.name == "drf" and entry.on(Flag.HIERARCHY) for entry in plugins)

    @property
    def key_name(self) -> str:
        """The name of the keys in a trace: under ``steer`` the largest want goes first, else the smallest share."""
        return self.cluster.engine.order.measure

    # --- figures --------------------------------------------------------------------------------------------------

    def usage_of(self, node: ShareNode) -> Sequence[float]:
        """The usage of a node of the tree; under churn, the mean."""
        return node.held if self.means is None else self.means.held(node)

    def running_tasks(self, leaf: JobNode) -> float:
        """The number of tasks of a job that have a node; under churn, the mean."""
        return leaf.job.running if self.means is None else self.means.running(leaf)

    def pending_tasks(self, leaf: JobNode) -> float:
        """The number of pending tasks of a job; under churn, the mean."""
        return leaf.job.unfinished_tasks - self.running_tasks(leaf)
