"""``pumice replay``, and the scheduler that writes what it reads, as processes of their own."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import pytest

from pumice.cli.replay_command import parse_time, time_text
from pumice.decision_log.log_files import log_files
from pumice.decision_log.replay import first_time
from tests.cli.cluster.calls import Caller
from tests.cli.command import pumice_command
from tests.support.api_servers import pumice_up
from tests.support.lives import recorded_life
from tests.support.processes import started_process


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = tmp_path_factory.mktemp("log")
    recorded_life(found, 3, seconds=8)
    assert len(log_files(found)) > 1
    return found


def altered(path: Path, place: Path) -> Path:
    """The same log, with a task bound to another node."""
    lines = path.read_text().splitlines(keepends=True)
    number = next(i for i, line in enumerate(lines) if '"does":"bind"' in line)
    cycle = json.loads(lines[number])
    bind = next(decision for decision in cycle["decisions"] if decision["does"] == "bind")
    bind["node"] = "elsewhere"
    lines[number] = json.dumps(cycle, separators=(",", ":")) + "\n"
    changed = place / path.name
    changed.write_text("".join(lines))
    return changed


def test_folder_prints_a_result_for_each_file(folder: Path) -> None:
    done = pumice_command("replay", folder, PYTHONHASHSEED="5")
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert [line.partition(": ")[0] for line in lines] == [path.name for path in log_files(folder)]
    assert all(": same, " in line and " cycle" in line and " decision" in line for line in lines)


def test_difference_is_shown_with_its_line(folder: Path, tmp_path: Path) -> None:
    path = next(path for path in log_files(folder) if '"does":"bind"' in path.read_text())
    done = pumice_command("replay", altered(path, tmp_path))
    assert done.returncode == 1 and "differs after " in done.stdout
    assert '    recorded: {"does": "bind"' in done.stdout and '"node": "elsewhere"' in done.stdout
    assert "    replayed: {" in done.stdout and "decision 1" in done.stdout
    as_json = json.loads(pumice_command("replay", tmp_path / path.name, "-o", "json").stdout)
    difference = as_json["files"][0]["difference"]
    assert not as_json["same"] and f"  cycle {difference['cycle']} (line {difference['line']})" in done.stdout


def test_a_cycle_can_be_looked_at(folder: Path) -> None:
    path = log_files(folder)[0]
    done = pumice_command("replay", path, "--until", 1, "--print")
    assert done.returncode == 0 and "1 cycle," in done.stdout
    assert "cycle 1 at 1.000000 s\n  told:\n" in done.stdout and '{"is": "changed", "kind": "node"' in done.stdout
    assert "  decided:" in done.stdout and "  entitled:" in done.stdout
    shown = json.loads(pumice_command("replay", path, "--until", 1, "--print", "-o", "json").stdout)["cycle"]
    assert shown["cycle"] == 1 and shown["events"] and shown["decisions"]


def test_time_selects_the_file_and_the_last_cycle(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    call = Caller(folder, monkeypatch)
    files = log_files(folder)
    begins = first_time(files[1])
    assert begins is not None
    seconds = begins / 1e6
    shown = json.loads(call(f"pumice replay {folder} --at {seconds} --print -o json").out)
    assert [Path(one["file"]).name for one in shown["files"]] == [files[1].name]
    assert (shown["cycle"]["now"], shown["files"][0]["cycles"]) == (begins, 1)
    early = call(f"pumice replay {folder} --at 0")
    assert early.status == 2 and "no cycle is recorded before the time asked for" in early.err
    wrong = call(f"pumice replay {folder} --at teatime")
    assert wrong.status == 2 and "'teatime' is not a time; write for example 03:00" in wrong.err


def test_times_are_read_in_local_time() -> None:
    now = datetime(2026, 11, 16, 9, 30, tzinfo=timezone(timedelta(hours=2)))
    three = datetime(2026, 11, 16, 1, tzinfo=UTC)
    for text in ("03:00", "2026-11-16 03:00", "2026-11-16T01:00:00Z", str(three.timestamp())):
        assert parse_time(text, now) == three.timestamp() * 1_000_000
    assert time_text(1_500_000) == "1.500000 s"
    assert datetime.fromisoformat(time_text(parse_time("03:00", now))) == three


def test_a_job_is_followed_through_the_cycles(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    call = Caller(folder, monkeypatch)
    path = next(path for path in log_files(folder) if '"does":"bind"' in path.read_text())
    cycle = next(json.loads(line) for line in path.read_text().splitlines() if '"does":"bind"' in line)
    bind = next(decision for decision in cycle["decisions"] if decision["does"] == "bind")
    found = json.loads(call(f"pumice replay {path} --job {bind['job']} -o json").out)["job"]
    assert {"cycle": cycle["cycle"], "now": cycle["now"], **bind} in found
    name = bind["job"].partition("/")[2]
    assert all(name in json.dumps(record) for record in found)
    text = call(f"pumice replay {path} --job {name}").out
    assert f"  cycle {cycle['cycle']}  " in text and '"does": "bind"' in text
    assert "no event or decision about job x/none" in call(f"pumice replay {path} --job x/none").out


def test_invalid_log_is_a_usage_error(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "x.jsonl").write_text("hello\n")
    for given, says in (
        (tmp_path / "empty", "no decision log found"),
        (tmp_path / "x.jsonl", "x.jsonl:1: not a record"),
    ):
        done = pumice_command("replay", given)
        assert done.returncode == 2 and says in done.stderr and "Traceback" not in done.stderr
    first, rest = log_files(folder)[0].read_text().split("\n", 1)
    heading = json.loads(first) | {"config": 'actions: "allocate"\ntiers: [{plugins: [{name: acme}]}]\n'}
    (tmp_path / "y.jsonl").write_text(json.dumps(heading) + "\n" + rest)
    done = pumice_command("replay", tmp_path / "y.jsonl")
    assert done.returncode == 2
    assert 'cannot use the recorded configuration: configuration:2: unknown plugin "acme"' in done.stderr


def test_a_scheduler_that_is_killed_leaves_a_log_that_can_be_replayed(tmp_path: Path) -> None:
    config, folder, said = tmp_path / "config.yaml", tmp_path / "log", tmp_path / "said"
    config.write_text('actions: "enqueue"\n')

    def until(holds: Callable[[], bool]) -> None:
        while not holds():
            assert running.poll() is None, said.read_text()
            time.sleep(0.05)

    def recorded() -> str:
        return "".join(path.read_text() for path in log_files(folder)) if folder.exists() else ""

    with pumice_up("--nodes", "1") as (_, kubeconfig), said.open("w") as stderr:
        command = [
            sys.executable,
            "-m",
            "pumice",
            "scheduler",
            "--kubeconfig",
            str(kubeconfig),
            "--config",
            str(config),
        ]
        command += ["--metrics-address", "", "--decision-log", str(folder), "--decision-log-files", "2"]
        with started_process(command, stderr=stderr) as running:
            until(lambda: '"is":"cycle"' in recorded())
            config.write_text('actions: "enqueue, alocate"\n')
            os.kill(running.pid, signal.SIGHUP)
            until(lambda: f"{config}:1: " in said.read_text())
            assert "the previous configuration stays in force" in said.read_text() and len(log_files(folder)) == 1
            config.write_text('actions: "enqueue, allocate"\n')
            os.kill(running.pid, signal.SIGHUP)
            until(lambda: '"config":"actions: \\"enqueue, allocate\\"' in recorded())
            until(lambda: '"is":"cycle"' in log_files(folder)[-1].read_text())  # the file that began with it
            running.kill()
    done = pumice_command("replay", folder)
    assert done.returncode == 0 and done.stdout.count(": same, ") == 2, done.stdout + done.stderr


def test_limits_of_the_log_are_said(tmp_path: Path) -> None:
    done = pumice_command("scheduler", "--decision-log", tmp_path, "--decision-log-size", 0)
    assert done.returncode == 2 and "1<=x<=4096" in done.stderr
    (tmp_path / "file").touch()
    done = pumice_command("scheduler", "--decision-log", tmp_path / "file")
    assert done.returncode == 2 and "is a file" in done.stderr
