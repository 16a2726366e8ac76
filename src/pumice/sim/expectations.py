"""Compare the result of a run with the expectations of its scenario.

Only the fields that a scenario states are compared, down to a single resource of an allocation. The exception is a
refused object or event, which must always be expected. An allocation may differ by ``tolerance.tasks`` tasks, each as
large as the largest below the node. An entitlement may differ by ``tolerance.share`` of the cluster and by one unit for
each job, because entitlements are rounded down to whole units.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from kubebase.resource_vector import MEMORY, PODS
from pumice.engine.fairness.share_tree.share_node import JobNode, ShareNode
from pumice.input_errors import did_you_mean
from pumice.model.specs import TaskStatus
from pumice.sim.run_report import decisions_report, dominant_share_of, jobs_below
from pumice.sim.scenario import Expect, ExpectedJob, ExpectedQueue, Quantities
from pumice.sim.simulation import Simulation

NOTHING = "nothing"


@dataclass(frozen=True, slots=True)
class Difference:
    """One figure that is not as expected."""

    where: str
    expected: str
    actual: str


def find_differences(simulation: Simulation) -> list[Difference]:
    """All differences between a run and the expectations of its scenario."""
    expect = simulation.scenario.spec.expect or Expect()
    return list(_Comparison(simulation, expect).all())


class _Comparison:
    """One run and what was expected of it."""

    def __init__(self, simulation: Simulation, expect: Expect) -> None:
        self.simulation = simulation
        self.expect = expect
        self.engine = simulation.cluster.engine
        self.registry = self.engine.state.registry

    def all(self) -> Iterator[Difference]:
        expect = self.expect
        for key, job in expect.jobs.items():
            yield from self._job(key, job)
        for name, queue in expect.queues.items():
            yield from self._queue(name, queue)
        decisions = decisions_report(self.simulation)
        if expect.binds is not None:
            binds = {one["pod"]: one["node"] for one in decisions if one["type"] == "bind"}
            yield from _compare_maps("binds", expect.binds, binds)
        if expect.evicted is not None:
            evicted = {one["pod"]: "evicted" for one in decisions if one["type"] == "evict"}
            yield from _compare_maps("evicted", dict.fromkeys(expect.evicted, "evicted"), evicted)
        for key, nodes in expect.pipelined.items():
            yield from self._pipelined(key, nodes)
        yield from self._errors()

    def _errors(self) -> Iterator[Difference]:
        """Compare refused objects with expected refusals, in both directions."""
        refused: dict[str, list[str]] = {}
        for problem in self.simulation.errors:
            refused.setdefault(problem.object, []).append(problem.reason)
        for i, error in enumerate(self.expect.errors):
            said = refused.get(error.object, [])
            if not any(error.contains in reason for reason in said):
                wanted = f"refused, with '{error.contains}'" if error.contains else "refused"
                yield Difference(f"errors[{i}].{error.object}", wanted, "; ".join(said) or "let in")
        expected = {error.object for error in self.expect.errors}
        for subject, said in refused.items():
            if subject not in expected:
                yield Difference(f"errors.{subject}", "let in", f"refused: {'; '.join(said)}")

    # --- nodes of the tree ----------------------------------------------------------------------------------------

    def _job(self, key: str, expected: ExpectedJob) -> Iterator[Difference]:
        where = f"jobs.{key}"
        leaf = self.engine.tree.jobs.get(key)
        if leaf is None:
            yield Difference(where, "a job", f"no such job{did_you_mean(key, self.engine.tree.jobs)}")
            return
        for name, wanted, count in (
            ("running", expected.running, self.simulation.running_tasks(leaf)),
            ("pending", expected.pending, self.simulation.pending_tasks(leaf)),
        ):
            if wanted is not None and abs(wanted - count) > self.expect.tolerance.tasks:
                yield Difference(f"{where}.{name}", _format_number(wanted), _format_number(count))
        if expected.phase is not None and expected.phase != leaf.job.phase.value:
            yield Difference(f"{where}.phase", expected.phase, leaf.job.phase.value)
        yield from self._allocated(leaf, expected.allocated, f"{where}.allocated")

    def _queue(self, name: str, expected: ExpectedQueue) -> Iterator[Difference]:
        where = f"queues.{name}"
        nodes = self._named_nodes()
        node = nodes.get(name)
        if node is None:
            yield Difference(where, "a queue", f"no such queue{did_you_mean(name, nodes)}")
            return
        capacity = self.engine.state.capacity
        share = dominant_share_of(self.simulation.usage_of(node), capacity)
        if expected.share is not None and abs(expected.share - share) > self.expect.tolerance.share:
            yield Difference(f"{where}.share", _format_number(expected.share), _format_number(share))
        yield from self._allocated(node, expected.allocated, f"{where}.allocated")
        jobs = sum(1 for _ in jobs_below(node))
        for resource, wanted in self._wanted(expected.entitled):
            index = self._index(resource)
            entitled = node.entitled[index] if index is not None else 0
            allowed = self.expect.tolerance.share * (capacity[index] if index is not None else 0)
            if abs(wanted - entitled) > allowed + jobs:
                yield self._amounts(f"{where}.entitled.{resource}", resource, wanted, entitled)

    def _allocated(self, node: ShareNode, expected: Quantities, where: str) -> Iterator[Difference]:
        held = self.simulation.usage_of(node)
        for resource, wanted in self._wanted(expected):
            index = self._index(resource)
            actual = held[index] if index is not None else 0
            allowed = self.expect.tolerance.tasks * (_largest_request(node, index) if index is not None else 0)
            if abs(wanted - actual) > allowed:
                yield self._amounts(f"{where}.{resource}", resource, wanted, actual)

    def _named_nodes(self) -> dict[str, ShareNode]:
        """Nodes by the name of their object and by their path; a name wins over a path."""
        nodes = [node for node in self.engine.tree.root.walk() if not isinstance(node, JobNode)]
        by_path = {node.path: node for node in nodes}
        return by_path | {node.queue_name: node for node in nodes if node.queue_name is not None}

    # --- amounts ----------------------------------------------------------------------------------------------------

    def _wanted(self, quantities: Quantities) -> Iterator[tuple[str, int]]:
        return ((name, self.registry.amount(name, quantity)) for name, quantity in quantities.items())

    def _index(self, resource: str) -> int | None:
        return self.registry.index(resource) if resource in self.registry else None

    def _amounts(self, where: str, resource: str, wanted: int, actual: float) -> Difference:
        index = self._index(resource)
        if index is None:
            return Difference(where, str(wanted / 1000), f"0{did_you_mean(resource, self.registry)}")
        if isinstance(actual, int):
            shown = self.registry.format_amount(index, actual)
        else:
            shown = _format_number(actual if index in (MEMORY, PODS) else actual / 1000)
        return Difference(where, self.registry.format_amount(index, wanted), shown)

    # --- tasks that wait for room -----------------------------------------------------------------------------------

    def _pipelined(self, key: str, nodes: tuple[str, ...]) -> Iterator[Difference]:
        job = self.engine.state.jobs.get(key)
        waiting = [t for t in job.each_task() if t.status is TaskStatus.PIPELINED] if job is not None else []
        places = sorted({task.node.name for task in waiting if task.node is not None})
        if not places or not set(places) <= set(nodes):
            yield Difference(f"pipelined.{key}", f"on {', '.join(nodes)}", ", ".join(places) or NOTHING)


def _largest_request(node: ShareNode, index: int) -> int:
    asks = (dict(items).get(index, 0) for leaf in jobs_below(node) for items, _ in leaf.demand.parts)
    return max(asks, default=0)


def _compare_maps(where: str, expected: Mapping[str, str], actual: Mapping[str, str]) -> Iterator[Difference]:
    for key in sorted(expected.keys() | actual.keys()):
        if expected.get(key) != actual.get(key):
            yield Difference(f"{where}.{key}", expected.get(key, NOTHING), actual.get(key, NOTHING))


def _format_number(value: float) -> str:
    return f"{value:.6g}"
