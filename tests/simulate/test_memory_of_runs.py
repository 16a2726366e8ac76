"""A run keeps what is live, whatever the length of the trace."""

from __future__ import annotations

import gc
import tracemalloc
from pathlib import Path

import pytest

from pumice.config.plugin_loader import plugin_factories
from pumice.engine.engine import Engine
from pumice.engine.preemption.cooldown import LIVE
from pumice.engine.state.job import Job
from pumice.simulate.cluster_spec import load_cluster
from pumice.simulate.live_job import LiveJob
from pumice.simulate.node_groups import read_node_groups
from pumice.simulate.policies import read_policy
from pumice.simulate.recorder import Recorder
from pumice.simulate.virtual_cluster import VirtualCluster
from pumice.simulate.workload import SECOND
from pumice.simulate.workload_file import scan
from tests.simulate.samples import workload_file


def test_jobs_that_ended_are_forgotten(tmp_path: Path) -> None:
    gc.collect()
    of_others = sum(isinstance(one, Job) for one in gc.get_objects())  # tests before this one in the process
    cluster = cluster_of_short_jobs(tmp_path, 900, "steer", queues=3)
    cluster.run(until=5 * 880 * SECOND)
    gc.collect()
    kept = gc.get_objects()
    assert len(cluster.jobs) <= 5
    assert sum(isinstance(one, LiveJob) for one in kept) <= 10
    # The engine drops jobs from its heaps when there are too many that have ended.
    assert sum(isinstance(one, Job) for one in kept) - of_others < 300


@pytest.mark.parametrize("policy", ["steer", "fcfs"])
def test_memory_does_not_grow_with_the_trace(tmp_path: Path, policy: str) -> None:
    cluster = cluster_of_short_jobs(tmp_path, 1510, policy, queues=1)
    seen: dict[int, int] = {}

    def look(cluster: VirtualCluster) -> None:
        ended = cluster.recorder.ended_jobs
        if ended % 10 == 0 and ended not in seen:
            gc.collect()
            seen[ended] = tracemalloc.get_traced_memory()[0]

    gc.collect()
    gc.freeze()  # the objects of all other tests, which take long to go through
    tracemalloc.start()
    try:
        cluster.run(watch=look)
    finally:
        tracemalloc.stop()
        gc.unfreeze()
    # What the engine drops late makes the memory go up and down. The second time is twice as long as the first one: a
    # series has as many points then, because its intervals have doubled in between.
    first, second = (min(seen[ended] for ended in range(n, n + n // 4, 10)) for n in (600, 1200))
    assert (second - first) / 600 < 50, "bytes for each job that has ended"


def cluster_of_short_jobs(folder: Path, jobs: int, policy_name: str, *, queues: int) -> VirtualCluster:
    """One job every 5 s, each for 20 s: 4 or 5 are live at a time."""
    lines = "".join(f"j{number},{5 * number},q{number % queues},u,1,cpu=1,1,20,\n" for number in range(jobs))
    workload = scan(workload_file(folder, lines))
    policy, groups = read_policy(policy_name), read_node_groups("2:cpu=8", 0)
    spec = load_cluster(workload, policy, (), groups)
    engine = Engine(policy.config, plugin_factories(policy.config), spec.registry, LIVE)
    return VirtualCluster(engine, spec, workload.stream(), Recorder(expected_length=0))
