"""``pumice plan --replay``: the end of a decision log once more, as it was and with the change."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pumice.cli.plan.plan_sources import engine_basis, newest_file
from pumice.decision_log.recorded_cycles import RecordedCycles
from pumice.plan.change_application import apply_change
from pumice.plan.change_file import Change
from pumice.sim.simulated_cluster import SimulatedCluster
from pumice.simulate.figures import RunFigures
from pumice.simulate.recorded.log_plan import load_log
from pumice.simulate.recorded.recorded_cluster import RecordedCluster
from pumice.simulate.recorded.recorded_run import RecordedLog, RecordedRun
from pumice.simulate.report.values import report_values

GRACE = 30_000_000
"""How long tasks terminate that the log does not show terminating, in microseconds."""


def replay_values(log: Path, duration: int, change: Change) -> dict[str, Any]:
    """The figures of the last part of a log without and with a change; raises BadInput."""
    end = max((cycle.now for cycle in RecordedCycles(newest_file(log))), default=0)
    since = end - duration
    found = load_log(log, since)
    runs = [_run(found, since, None, "as it was"), _run(found, since, change, "with the change")]
    return report_values(runs, [], {"replaySeconds": duration / 1e6, "graceSeconds": GRACE / 1e6})


def _run(found: RecordedLog, since: int, change: Change | None, name: str) -> RunFigures:
    cluster = RecordedCluster(found.engine(), found.history, grace=GRACE, restarts_engine=change is None)
    cluster.run(lambda now, events, decisions: None, max(since, found.history.cycles[0]))
    if change is not None:
        _apply(change, cluster)
    run = RecordedRun(cluster)
    run.run()
    return run.figures(name)


def _apply(change: Change, cluster: RecordedCluster) -> None:
    basis = engine_basis("the decision log", cluster.engine)
    changed = SimulatedCluster.around(cluster.engine, basis.controlled)
    applied = apply_change(change, basis, changed)
    cluster.engine = changed.engine
    kinds = (one.object.partition("/") for one in applied.objects)
    cluster.kept_queues |= {name for kind, _, name in kinds if kind == "Queue"}
    cluster.replaces_engine = cluster.replaces_engine and change.config is None
