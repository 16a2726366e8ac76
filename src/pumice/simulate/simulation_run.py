"""One run: a workload, a cluster and a policy, from beginning to end. A run needs nothing of its process."""

from __future__ import annotations

import csv
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from pumice.config.plugin_loader import plugin_factories
from pumice.engine.engine import Engine
from pumice.engine.preemption.cooldown import LIVE
from pumice.simulate.cluster_spec import ClusterSpec, load_cluster
from pumice.simulate.figures import RunFigures
from pumice.simulate.live_job import LiveJob
from pumice.simulate.node_groups import NodeGroup
from pumice.simulate.policies import Policy
from pumice.simulate.recorder import Recorder
from pumice.simulate.variation import varied
from pumice.simulate.virtual_cluster import VirtualCluster
from pumice.simulate.workload import SECOND
from pumice.simulate.workload_file import WorkloadFile

JOB_COLUMNS = (
    "policy",
    "repeat",
    "id",
    "queue",
    "user",
    "tasks",
    "submit",
    "start",
    "end",
    "wait",
    "evictions",
    "lost",
    "state",
)


Progress = Callable[[int, int], None]
"""Gets the number of jobs that have ended, and the virtual time."""


@dataclass(frozen=True, slots=True)
class RunPlan:
    """What one run shall do. Times are microseconds."""

    workload: WorkloadFile
    policy: Policy
    files: tuple[str, ...]
    groups: tuple[NodeGroup, ...]
    repeat: int = 0
    seed: int = 0
    jitter: float = 0.0
    speedup: float = 1.0
    until: int | None = None
    grace: int = 0
    jobs_file: str | None = None

    def run(self, progress: Progress) -> RunFigures:
        """Run it; raises BadInput."""
        return simulate(self, progress)


EngineFactory = Callable[..., Engine]


def simulate(plan: RunPlan, progress: Progress | None = None, engine_factory: EngineFactory = Engine) -> RunFigures:
    """Run a plan; raises BadInput if cluster and workload do not fit together."""
    spec = load_cluster(plan.workload, plan.policy, plan.files, plan.groups)
    config = plan.policy.config
    engine = engine_factory(config, plugin_factories(config), spec.registry, LIVE)
    if plan.jobs_file is None:
        return _simulated(plan, spec, engine, progress, None)
    with Path(plan.jobs_file).open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        return _simulated(
            plan, spec, engine, progress, lambda job: writer.writerow(job_row(plan.policy.name, plan.repeat, job))
        )


def _simulated(
    plan: RunPlan,
    spec: ClusterSpec,
    engine: Engine,
    progress: Progress | None,
    on_job: Callable[[LiveJob], None] | None,
) -> RunFigures:
    jobs = varied(plan.workload.stream(), speedup=plan.speedup, jitter=plan.jitter, seed=plan.seed, repeat=plan.repeat)
    recorder = Recorder(round(plan.workload.last_submit / plan.speedup), on_job)
    cluster = VirtualCluster(engine, spec, jobs, recorder, plan.grace)
    cluster.run(plan.until, None if progress is None else lambda _: progress(recorder.ended_jobs, cluster.now))
    return recorder.figures(plan.policy.name, plan.repeat, cluster.cycles)


def job_row(policy: str, repeat: int, job: LiveJob) -> list[object]:
    """A line of the per-job CSV; times are seconds, unknown ones empty."""
    start, end, submit = job.first_start, job.end, job.job.submit
    state = "ended" if end is not None else "started" if start is not None else "never started"
    return [
        policy,
        repeat,
        job.job.id,
        job.job.queue,
        job.job.user,
        job.job.tasks,
        _seconds(submit),
        _seconds(start),
        _seconds(end),
        _seconds(start - submit if start is not None else None),
        job.evictions,
        _seconds(job.lost),
        state,
    ]


def _seconds(moment: int | None) -> str:
    return "" if moment is None else f"{moment / SECOND:.6f}".rstrip("0").rstrip(".")
