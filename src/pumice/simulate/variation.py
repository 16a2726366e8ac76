"""The workload of one repeat: faster arrivals, and times that vary by chance, the same for every policy."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from random import Random

from pumice.simulate.workload import WorkloadJob


def varied(
    jobs: Iterable[WorkloadJob], *, speedup: float, jitter: float, seed: int, repeat: int
) -> Iterator[WorkloadJob]:
    """The jobs with the time between arrivals divided by ``speedup``.

    With ``jitter``, run times and times between arrivals are multiplied by random factors around 1 (log-normal; jitter
    is the standard deviation of the logarithm). A job draws by its place in the workload alone, so that policies and
    runs with one seed see the same jobs.
    """
    draw = Random(f"{seed}/{repeat}")
    before, arrival = 0, 0.0
    for job in jobs:
        gap, run_time = (job.submit - before) / speedup, float(job.run_time)
        before = job.submit
        if jitter:
            gap *= draw.lognormvariate(0.0, jitter)
            run_time *= draw.lognormvariate(0.0, jitter)
        arrival += gap
        yield job.at(round(arrival), round(run_time))
