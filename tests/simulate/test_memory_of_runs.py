"""A run keeps what is live, whatever the length of the trace."""

from __future__ import annotations

import gc
from pathlib import Path

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
from pumice.simulate.workload_file import scan
from tests.simulate.samples import workload_file


def test_jobs_that_ended_are_forgotten(tmp_path: Path) -> None:
    # 900 jobs, one every 5 s, each for 20 s: 4 or 5 are live at a time.
    lines = "".join(f"j{number},{5 * number},q{number % 3},u,1,cpu=1,1,20,\n" for number in range(900))
    workload = scan(workload_file(tmp_path, lines))
    policy, groups = read_policy("steer"), read_node_groups("2:cpu=8", 0)
    spec = load_cluster(workload, policy, (), groups)
    engine = Engine(policy.config, plugin_factories(policy.config), spec.registry, LIVE)
    cluster = VirtualCluster(engine, spec, workload.stream(), Recorder(workload.last_submit))
    cluster.run(until=5 * 880 * 1_000_000)
    gc.collect()
    kept = gc.get_objects()
    assert len(cluster.jobs) <= 5
    assert sum(isinstance(one, LiveJob) for one in kept) <= 10
    # The engine drops jobs from its heaps when there are too many that have ended.
    assert sum(isinstance(one, Job) for one in kept) < 300
