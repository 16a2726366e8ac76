"""The figures of a policy, added up over its queues."""

from __future__ import annotations

from pathlib import Path

from pumice.simulate.node_groups import read_node_groups
from pumice.simulate.policies import read_policy
from pumice.simulate.report.series import series_values
from pumice.simulate.report.values import report_values
from pumice.simulate.simulation_run import RunPlan, simulate
from pumice.simulate.workload_file import scan
from tests.simulate.samples import workload_file


def test_what_one_queue_holds_does_not_make_up_for_what_another_misses(tmp_path: Path) -> None:
    # In the second of two hours a has all 4 cpus, while b waits, which is entitled to 2 of them: root is short of
    # nothing, b of 2 cpu hours. Then b has 4 cpus, and nobody else asks.
    lines = "x,0,a,ann,4,cpu=1,,7200,\ny,3600,b,bob,4,cpu=1,,3600,\n"
    groups = tuple(read_node_groups("1:cpu=4", 0))
    run = simulate(RunPlan(scan(workload_file(tmp_path, lines)), read_policy("fcfs"), (), groups))
    policy = report_values([run], [], {})["policies"]["fcfs"]
    short = {path: queue["shortfall"]["cpu"] for path, queue in policy["queues"].items()}
    assert short == {"root": 0, "root/a": 0, "root/b": 2}
    assert policy["queueShortfall"] == {"cpu": 2}


def test_jobs_that_never_start_keep_the_curve_of_waits_down(tmp_path: Path) -> None:
    # y ends after the half hour that is simulated, and z, which needs all cpus at once, has not started then.
    lines = "x,0,a,ann,2,cpu=1,,3600,\ny,0,a,ann,2,cpu=1,,3600,\nz,0,a,ann,4,cpu=1,,3600,\nw,0,a,ann,9,cpu=1,,60,\n"
    groups = tuple(read_node_groups("1:cpu=4", 0))
    run = simulate(RunPlan(scan(workload_file(tmp_path, lines)), read_policy("fcfs"), (), groups, until=1_800_000_000))
    (series,) = series_values([run])
    assert series["waits"] == [[0.0], [0.5]]
