"""Time series: nothing is lost when intervals double."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pumice.simulate.event_counts import POINTS, EventCounts
from pumice.simulate.figures import HOUR
from pumice.simulate.node_groups import read_node_groups
from pumice.simulate.policies import read_policy
from pumice.simulate.simulation_run import RunPlan, simulate
from pumice.simulate.workload import SECOND
from pumice.simulate.workload_file import scan
from tests.simulate.samples import workload_file


@given(st.lists(st.integers(0, 100_000), min_size=1, max_size=40), st.integers(1, 50))
def test_every_event_is_counted(times: list[int], width: int) -> None:
    counts = EventCounts(width)
    for time in sorted(times):
        counts.add(time)
    assert sum(counts.counts) == len(times)
    assert len(counts.counts) == max(times) // counts.width + 1 <= POINTS


@pytest.mark.parametrize("run_time", [7, 400, 481, 5000, 100_000])
def test_series_of_queues_add_up_to_their_integrals(tmp_path: Path, run_time: int) -> None:
    # Intervals are a second long at first, because the last job comes after 40 s: a run time of 481 s doubles them.
    lines = f"a,0,eng/prod,ann,2,cpu=1,1,{run_time},\nb,3,sci,bob,3,cpu=2,1,11,\nc,40,sci,bob,1,cpu=1,1,5,\n"
    groups = tuple(read_node_groups("1:cpu=4", 0))
    found = simulate(RunPlan(scan(workload_file(tmp_path, lines)), read_policy("steer"), (), groups))
    width, length = found.series_width, found.duration
    for queue in found.queues:
        for series, hours in (
            (queue.used_series["cpu"], queue.used["cpu"]),
            (queue.entitled_series["cpu"], queue.entitled["cpu"]),
        ):
            assert len(series) == -(-length // width) <= POINTS
            lengths = [min(width, length - index * width) for index in range(len(series))]
            total = sum(level * part for level, part in zip(series, lengths, strict=True))
            assert total == pytest.approx(hours * HOUR)
    assert width == SECOND * (
        1 if length <= POINTS * SECOND else 1 << (-(-length // (POINTS * SECOND)) - 1).bit_length()
    )
