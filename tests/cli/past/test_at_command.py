"""``pumice at`` shows the cluster as it was, and the life of a job."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pumice.decision_log.log_files import log_files
from pumice.decision_log.writer import DecisionLog
from pumice.model.specs import TaskStatus
from tests.support.in_process import pumice
from tests.support.recorded import Recorded
from tests.support.taking import Shell, taking_engine


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """8 cpu. early of a has them from second 1 on; at second 5 late of b comes, and gets 4 of them back."""
    folder = tmp_path_factory.mktemp("log")
    writer = DecisionLog(folder)
    engine = Recorded(taking_engine(), writer)
    shell = Shell(engine, grace=2, audited=False)  # type: ignore[arg-type]  # stands for its engine
    shell.node("n0", 8000, 8000)
    shell.child("a")
    shell.child("b")
    shell.job("a", [(1000, 1)] * 8, name="early")
    for _ in range(4):
        shell.cycle()
    engine.replace()
    shell.job("b", [(1000, 1)] * 4, name="late")
    shell.job("b", [(9000, 1)], name="huge")
    for _ in range(6):
        shell.cycle()
    engine.replace()
    for key, task in sorted(shell.tasks.items()):
        if task.job == "ns/late" and task.status is TaskStatus.RUNNING:
            shell.end(key)
    shell.end_job("ns/late")
    shell.cycle()
    writer.close()
    assert len(log_files(folder)) == 3
    return folder


def rows(text: str) -> list[list[str]]:
    return [line.split() for line in text.splitlines()]


def test_the_tree_before_and_after(log: Path) -> None:
    before, after = pumice("at", "4", "--log", log), pumice("at", "10.5", "tree", "--log", log)
    assert before.status == after.status == 0
    assert before.out.startswith("4.000000 s, after cycle 4\n") and after.out.startswith(
        "10.000000 s, after cycle 10\n"
    )
    assert ["|--a", "1", "████████████████████", "100%", "100%", "8", "0", "cpu", "8,", "memory", "8"] in rows(
        before.out
    )
    assert ["|--b", "1", "██████████", "50%", "50%", "4", "1", "cpu", "4,", "memory", "4"] in rows(after.out)


def test_jobs_and_nodes_while_victims_leave(log: Path) -> None:
    jobs = pumice("at", "5", "jobs", "--log", log, "-o", "wide").out
    assert "ns/early  a      ns    Running        4         0        0" in jobs
    assert "ns/late   b      ns    Inqueue        0         4        0" in jobs
    nodes = pumice("at", "5", "nodes", "--log", log).out
    assert rows(nodes)[3][:7] == ["n0", "Ready", "8", "4", "0", "of", "8"]


def test_why_a_job_waited_then(log: Path) -> None:
    found = pumice("at", "7", "why", "huge", "--log", log)
    assert found.status == 0 and found.out.startswith("7.000000 s, after cycle 7\n\nns/huge ")
    assert "would not fit" in found.out or "more than" in found.out or "no node" in found.out
    values = json.loads(pumice("at", "7", "why", "ns/huge", "--log", log, "-o", "json").out)
    assert values["job"] == "ns/huge"
    missing = pumice("at", "4", "why", "late", "--log", log)
    assert missing.status == 1 and "job late did not exist at 4.000000 s" in missing.err


def test_decisions_of_the_last_seconds(log: Path) -> None:
    found = pumice("at", "5", "decisions", "--log", log, "--last", "1").out
    assert "5.000000 s, cycle 5\n" in found and "cycle 1\n" not in found
    assert found.count("  evict      ns/early-t-") == 4 and "from n0 for ns/late (reclaim)" in found
    values = json.loads(pumice("at", "5", "decisions", "--log", log, "-o", "json").out)
    assert [cycle["cycle"] for cycle in values["cycles"]] == [5] and values["cycle"] == 5


def test_json_of_the_other_views(log: Path) -> None:
    tree, jobs, nodes = (
        json.loads(pumice("at", "6", view, "--log", log, "-o", "json").out) for view in ("tree", "jobs", "nodes")
    )
    assert {queue["name"] for queue in tree["queues"]} >= {"a", "b"} and tree["cycle"] == 6
    assert {job["key"] for job in jobs["jobs"]} == {"ns/early", "ns/late", "ns/huge"}
    assert nodes["nodes"][0]["name"] == "n0" and len(nodes["nodes"][0]["tasks"]) == 8


def test_the_life_of_a_job(log: Path) -> None:
    told = [line.split("  ", 2) for line in pumice("at", "--follow", "late", "--log", log).out.splitlines()]
    events = [(time, what.strip()) for time, what, _ in told]
    assert events == [
        ("5.000000 s", "came"),
        ("5.000000 s", "evicts"),
        ("5.000000 s", "gets a place"),
        ("8.000000 s", "starts"),
        ("9.000000 s", "runs"),
        ("11.000000 s", "is deleted"),
        ("11.000000 s", "is gone"),
    ]
    texts = {what.strip(): text.strip() for _, what, text in told}
    assert texts["came"] == "to queue b"
    assert "ns/early-t-" in texts["evicts"] and texts["evicts"].endswith("and 1 more")
    assert texts["starts"].startswith("ns/late-t-0 on n0")


def test_the_life_of_the_victim_up_to_a_time(log: Path) -> None:
    early = json.loads(pumice("at", "6", "--follow", "ns/early", "--log", log, "-o", "json").out)
    assert [each["event"] for each in early][:3] == ["came", "starts", "runs"]
    assert early[-1]["event"] == "is evicted" and "for ns/late (reclaim)" in early[-1]["message"]
    assert all(each["time"] <= 6_000_000 for each in early)


@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [
        ((), 2, "Missing argument 'TIME'"),
        (("5", "jbs"), 2, "'jbs' is not one of tree, jobs, nodes, why, decisions"),
        (("5", "why"), 2, "'why' needs a job"),
        (("5", "tree", "late"), 2, "tree takes no job"),
        (("5", "tree", "--follow", "late"), 2, "takes no 'tree'"),
        (("yesterday",), 2, "'yesterday' is not a time"),
        (("0",), 2, "no cycle is recorded before the time asked for; the first one was at 1.000000 s"),
        (("--follow", "nobody"), 1, "the log names no job nobody"),
    ],
)
def test_wrong_usage(log: Path, arguments: tuple[str, ...], status: int, message: str) -> None:
    found = pumice("at", *arguments, "--log", log)
    assert found.status == status and message in found.err and "Traceback" not in found.err


def test_a_time_after_the_end_is_said_to_be_one(log: Path) -> None:
    # Somebody who forgets the date gets the end of an old log for this morning.
    after, within = pumice("at", "500", "--log", log), pumice("at", "10.5", "--log", log)
    assert after.status == 0 and after.err == "note: the log ends at 11.000000 s; this is the last that it has\n"
    assert within.err == ""
