"""A log with a scheduler that was started anew: it learned the cluster from its objects, and remembered nothing."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kubesim.server import RunningCluster
from pumice.decision_log.job_story import JobStory
from pumice.decision_log.log_files import log_files
from pumice.decision_log.replay import LogError
from pumice.decision_log.seek import past_moment
from pumice.decision_log.writer import DecisionLog
from pumice.model.specs import TaskSpec, TaskStatus
from pumice.simulate.policies import read_policy
from pumice.simulate.recorded.log_plan import LogPlan, recorded_policy
from pumice.simulate.recorded.recorded_run import read_log
from tests.support.in_process import pumice
from tests.support.live_cluster import QUEUES, eventually, live, phase, placed, scheduling, submit
from tests.support.lives import recorded_halves
from tests.support.log_simulations import difference

NOWHERE = "decisions-000009.jsonl"


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """12 cpus. early fills them, the scheduler stops, gone is deleted and late comes; the next one lets late run."""
    place = tmp_path_factory.mktemp("restarted")

    async def check(running: RunningCluster) -> None:
        for name in ("a", "b"):
            await running.api.create(QUEUES, "", {"metadata": {"name": name}, "spec": {"weight": 1, "parent": "root"}})
        async with scheduling(running.server, decision_log=DecisionLog(place / "log")) as scheduler:
            await eventually(lambda: scheduler.cycles > 0)
            await submit(running, "early", 8, queue="a", least=1)
            await submit(running, "gone", 4, queue="a", least=1)
            await eventually(lambda: len(placed(running)["early"]) == 8 and len(placed(running)["gone"]) == 4)
            await eventually(lambda: phase(running, "gone") == "Running")
        for number in range(4):
            await running.api.delete("pods", "default", f"gone-{number}")
        await submit(running, "late", 4, queue="b")
        await eventually(lambda: not any(name == "gone" for name in placed(running)))
        async with scheduling(running.server, decision_log=DecisionLog(place / "log")) as another:
            await eventually(lambda: phase(running, "late") == "Running")
            cycles = another.cycles
            await eventually(lambda: another.cycles > cycles + 1)

    live(place, check)
    headings = [json.loads(path.read_text().splitlines()[0]) for path in log_files(place / "log")]
    assert [heading["cycles"] for heading in headings] == [0, 0]
    return place / "log"


def test_the_simulation_makes_the_same_decisions(log: Path) -> None:
    assert difference(log, conditions=False) == ""


def test_what_happened_while_nobody_watched_is_in_the_history(log: Path) -> None:
    history = read_log(log).history
    late = [one.event.object for one in history.outside if getattr(one.event, "object", None) is not None]
    names = {task.name for task in late if isinstance(task, TaskSpec) and task.status is TaskStatus.PENDING}
    assert names >= {f"late-{number}" for number in range(4)}
    assert all(history.binds[f"default/gone-{number}"][-1].has_end for number in range(4))
    assert not any(history.binds[f"default/early-{number}"][-1].has_end for number in range(8))


def test_the_life_of_a_job_tells_what_was_missed(log: Path) -> None:
    told = [(each.what, each.text) for each in JobStory("gone", lambda key: key == "default/gone").chapters(log)]
    assert told[-1] == (
        "is deleted",
        "default/gone-0, default/gone-1, default/gone-2 and 1 more while no scheduler ran",
    )
    assert not any(
        what == "is deleted"
        for what, _ in (
            (each.what, each.text) for each in JobStory("early", lambda key: key == "default/early").chapters(log)
        )
    )


@pytest.mark.parametrize("policy", [recorded_policy(), read_policy("steer"), read_policy("fcfs")], ids=lambda p: p.name)
def test_every_policy_runs_to_the_end(log: Path, policy: object) -> None:
    figures = LogPlan(log, policy).run(lambda ended, now: None)  # type: ignore[arg-type]  # policies
    assert (figures.root.arrived, figures.root.never_started) == (3, 0)
    assert {queue.path: queue.arrived for queue in figures.queues}["root/b"] == 1


@pytest.mark.parametrize("rest", [b"", b'{"is":"log","form'], ids=["empty", "half a line"])
def test_files_of_schedulers_that_were_killed_at_their_start_are_passed_over(tmp_path: Path, rest: bytes) -> None:
    recorded_halves(tmp_path, seconds=6)
    (tmp_path / NOWHERE).write_bytes(rest)
    assert difference(tmp_path) == ""
    assert past_moment(tmp_path, 4_000_000).cycle == 4


def test_a_file_that_ends_within_its_snapshot_is_passed_over(tmp_path: Path) -> None:
    recorded_halves(tmp_path, seconds=6)
    lines = log_files(tmp_path)[0].read_bytes().splitlines(keepends=True)
    heading = json.loads(lines[0]) | {"standing": 3}
    (tmp_path / NOWHERE).write_bytes(json.dumps(heading).encode() + b"\n" + b"".join(lines[1:3]) + b'{"is":"obj')
    assert difference(tmp_path) == ""


def test_resources_in_another_order_are_refused(tmp_path: Path) -> None:
    recorded_halves(tmp_path, seconds=4)
    (first,) = log_files(tmp_path)
    text = first.read_text()
    (tmp_path / NOWHERE).write_text(text.replace('"resources":["cpu","memory",', '"resources":["memory","cpu",', 1))
    with pytest.raises(LogError, match=f"{NOWHERE}: resources have another order than in the files before it"):
        read_log(tmp_path)


def test_replay_passes_over_a_file_without_its_first_line(tmp_path: Path) -> None:
    recorded_halves(tmp_path, seconds=4)
    (tmp_path / NOWHERE).touch()
    done = pumice("replay", tmp_path)
    assert (done.status, done.out.count(": same, ")) == (0, 1) and NOWHERE not in done.out
