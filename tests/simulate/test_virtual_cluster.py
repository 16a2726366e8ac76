"""Runs that can be computed by hand: when jobs start and end, what is evicted, what is measured."""

from __future__ import annotations

from pathlib import Path

import pytest

from pumice.engine.decisions import Bind, Evict
from pumice.engine.engine import Engine
from pumice.simulate import recorder as recorder_module
from pumice.simulate.simulation_run import simulate
from pumice.simulate.workload import SECOND
from tests.simulate.samples import EAGER, plan, queue, run, seconds

DAY = 86400


def test_jobs_start_when_there_is_room_and_end_after_their_run_time(tmp_path: Path) -> None:
    # 4 cpu. a takes 4 until 100, b arrives at 10 and waits 90 s, c fits beside b at 100 too.
    figures = run(tmp_path, "a,0,q,,4,cpu=1,4,100,\nb,10,q,,2,cpu=1,2,50,\nc,20,q,,2,cpu=1,2,200,\n", "1:cpu=4")
    root = figures.root
    assert (root.arrived, root.finished, root.unfinished, root.evictions) == (3, 3, 0, 0)
    assert figures.duration == 300 * SECOND
    assert seconds(root.waits.mean) == pytest.approx((0 + 90 + 80) / 3)
    assert seconds(root.waits.most) == 90
    # Turnaround by run time: 100/100, 140/50, 280/200.
    assert root.slowdowns.mean == pytest.approx(1000 * (1 + 2.8 + 1.4) / 3)
    assert root.used["cpu"] == pytest.approx((4 * 100 + 2 * 50 + 2 * 200) / 3600)


def test_elastic_job_grows_and_each_task_runs_from_its_own_start(tmp_path: Path) -> None:
    # 2 cpu for 3 tasks of 100 s with a gang of 1: two until 100, the third until 200.
    figures = run(tmp_path, "a,0,q,,3,cpu=1,1,100,\n", "1:cpu=2")
    assert figures.duration == 200 * SECOND
    assert seconds(figures.root.waits.most) == 0
    assert figures.root.used["cpu"] == pytest.approx(300 / 3600)


def test_nothing_is_computed_between_events(tmp_path: Path) -> None:
    figures = run(tmp_path, f"a,0,q,,1,cpu=1,1,{30 * DAY},\nb,{10 * DAY},q,,1,cpu=1,1,1,\n", "1:cpu=2")
    assert figures.cycles == 4  # two arrivals, two ends


def test_evicted_tasks_lose_their_work_and_start_again(tmp_path: Path) -> None:
    # 4 cpu, two queues. a lends all to p's tasks of 1000 s; at 100 q asks for 2 and gets them after 10 s of grace.
    lines = "a,0,p,,4,cpu=1,1,1000,\nb,100,q,,2,cpu=1,2,50,\n"
    figures = run(tmp_path, lines, "1:cpu=4", EAGER, grace=10 * SECOND)
    p, q = queue(figures, "root/p"), queue(figures, "root/q")
    assert (p.evictions, q.evictions, figures.root.evictions) == (2, 0, 2)
    assert p.lost["cpu"] == pytest.approx(2 * 110 / 3600)
    assert seconds(q.waits.most) == 10
    # q's tasks end at 160; the two that were evicted start then and run 1000 s again.
    assert figures.duration == 1160 * SECOND
    assert p.used["cpu"] == pytest.approx((4 * 100 + 2 * 900 + 2 * 1000) / 3600)


def test_shortfall_is_what_a_queue_misses_of_its_entitlement(tmp_path: Path) -> None:
    # Without reclaim q waits from 100 to 1000 for the 2 of 4 cpu that it is entitled to.
    figures = run(tmp_path, "a,0,p,,4,cpu=1,1,1000,\nb,100,q,,2,cpu=1,2,50,\n", "1:cpu=4")
    q, p = queue(figures, "root/q"), queue(figures, "root/p")
    assert q.shortfall["cpu"] == pytest.approx(2 * 900 / 3600)
    assert q.entitled["cpu"] == pytest.approx(2 * 950 / 3600)
    assert p.shortfall["cpu"] == 0
    assert figures.idle_while_waiting["cpu"] == 0


def test_idle_capacity_counts_only_while_jobs_wait(tmp_path: Path) -> None:
    # 4 cpu: a holds 2 until 100; the gang b of 3 waits from 20 on beside 2 idle cpu; nobody waits before or after.
    figures = run(tmp_path, "a,0,q,,2,cpu=1,2,100,\nb,20,q,,3,cpu=1,3,10,\n", "1:cpu=4")
    assert figures.idle_while_waiting["cpu"] == pytest.approx(2 * 80 / 3600)


def test_patience_of_the_engine_is_an_event(tmp_path: Path) -> None:
    # Nothing happens between 100 and 1000, yet b takes what it is owed after the 30 s of a live scheduler.
    waits = run(tmp_path, "a,0,p,,4,cpu=1,1,1000,\nb,100,q,,2,cpu=1,2,50,\n", "1:cpu=4", "steer")
    assert seconds(queue(waits, "root/q").waits.most) == 30


def test_run_ends_at_the_given_time(tmp_path: Path) -> None:
    figures = run(tmp_path, "a,0,q,,1,cpu=1,1,100,\nb,5,q,,2,cpu=1,2,9,\n", "1:cpu=1", until=50 * SECOND)
    assert figures.duration == 50 * SECOND
    assert (figures.root.finished, figures.root.unfinished, figures.root.never_started) == (0, 2, 1)
    assert figures.root.used["cpu"] == pytest.approx(50 / 3600)


def test_gang_that_never_fits_does_not_keep_the_run_going(tmp_path: Path) -> None:
    figures = run(tmp_path, "a,0,q,,3,cpu=1,3,100,\nb,5,q,,1,cpu=1,1,10,\n", "2:cpu=1", "steer")
    assert (figures.root.never_started, figures.root.finished) == (1, 1)


def test_first_come_first_served_ignores_queues_and_shares(tmp_path: Path) -> None:
    # One cpu. p's jobs came first, so q waits for all of them, although q holds nothing.
    lines = "".join(f"a{i},{i},p,,1,cpu=1,1,100,\n" for i in range(4)) + "b,4,q,,1,cpu=1,1,100,\n"
    first_come = run(tmp_path, lines, "1:cpu=1", "fcfs")
    fair = run(tmp_path, lines, "1:cpu=1")
    assert seconds(queue(first_come, "root/q").waits.most) == 400 - 4
    assert seconds(queue(fair, "root/q").waits.most) == 100 - 4


def test_engine_knows_only_live_jobs(tmp_path: Path) -> None:
    lines = "".join(f"a{i},{10 * i},q,,2,cpu=1,2,5,\n" for i in range(60))
    most: list[int] = []
    engines: list[Engine] = []

    def made(*arguments: object) -> Engine:
        engines.append(Engine(*arguments))  # type: ignore[arg-type]
        return engines[0]

    def watch(ended: int, now: int) -> None:
        most.append(len(engines[0].state.jobs) + len(engines[0].state.tasks))

    simulate(plan(tmp_path, lines, "1:cpu=2"), watch, made)
    assert max(most) == 3  # a job and its two tasks
    assert most[-1] == 0


@pytest.mark.parametrize("policy", ["paper", "proportion"])
def test_measuring_does_not_change_decisions(tmp_path: Path, policy: str, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = "".join(
        f"j{i},{i * 9},{'abc'[i % 3]}/{'xyz'[i % 3]}{i % 2},,{2 + i % 3},cpu={1 + i % 3},{1 + i % 2},{60 + i % 90},\n"
        for i in range(15)
    )
    planned = plan(tmp_path, lines, "2:cpu=4", policy)
    decided: list[list[object]] = []

    def traced(*arguments: object) -> Engine:
        engine = Engine(*arguments)  # type: ignore[arg-type]
        cycle, seen = engine.cycle, []
        decided.append(seen)

        def kept(now: int) -> list[object]:
            decisions = cycle(now)
            seen.extend((now, one) for one in decisions if isinstance(one, Bind | Evict))
            return list(decisions)

        engine.cycle = kept  # type: ignore[method-assign, assignment]
        return engine

    simulate(planned, None, traced)
    monkeypatch.setattr(recorder_module, "set_targets", lambda tree, capacity: None)
    simulate(planned, None, traced)
    assert decided[0] == decided[1]
    assert len(decided[0]) >= 30
