"""Small workloads for the tests of simulations."""

from __future__ import annotations

from pathlib import Path

from pumice.simulate.figures import QueueFigures, RunFigures
from pumice.simulate.node_groups import read_node_groups
from pumice.simulate.policies import read_policy
from pumice.simulate.simulation_run import RunPlan, simulate
from pumice.simulate.workload import SECOND
from pumice.simulate.workload_file import scan

HEADING = "id,submit,queue,user,tasks,request,gang,run_time,priority\n"

QUIET = """\
actions: "enqueue, allocate, backfill"
tiers:
- plugins: [{name: gang}, {name: drf, enableHierarchy: true}]
"""
"""Allocates and evicts nothing, so that small runs can be computed by hand."""

# No cooldown and no reservations: a job that is owed takes at once.
EAGER = """\
actions: "allocate, reclaim"
tiers:
- plugins: [{name: gang}, {name: drf, enableHierarchy: true, arguments: {drf.patience: -1}}]
configurations:
- name: reclaim
  arguments: {reclaim.patience: 0, reclaim.minRuntime: 0}
"""


def workload_file(folder: Path, lines: str, heading: str = HEADING) -> str:
    """A CSV workload of these lines."""
    path = folder / "workload.csv"
    path.write_text(heading + lines)
    return str(path)


def plan(folder: Path, lines: str, nodes: str, policy: str = QUIET, **options: int) -> RunPlan:
    """A run of these lines on these nodes; the policy is the text of a configuration, or a built-in name."""
    if "\n" in policy:
        (folder / "policy.yaml").write_text(policy)
        policy = f"tested={folder / 'policy.yaml'}"
    groups = tuple(read_node_groups(nodes, 0))
    return RunPlan(scan(workload_file(folder, lines)), read_policy(policy), (), groups, **options)


def run(folder: Path, lines: str, nodes: str, policy: str = QUIET, **options: int) -> RunFigures:
    """The figures of such a run."""
    return simulate(plan(folder, lines, nodes, policy, **options))


def queue(figures: RunFigures, path: str) -> QueueFigures:
    """The figures of one queue."""
    return next(one for one in figures.queues if one.path == path)


def seconds(microseconds: float | None) -> float | None:
    """A time in seconds."""
    return None if microseconds is None else microseconds / SECOND
