"""``pumice audit`` as users call it: what it prints about a log that is wrong, and its exit statuses."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from pumice.cli.audit_command import SHOWN
from pumice.decision_log.line_chain import chain_of, sealed, unsealed
from pumice.decision_log.log_files import log_files
from tests.cli.command import pumice_command
from tests.support.in_process import pumice
from tests.support.lives import recorded_halves

pytestmark = pytest.mark.process


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """Two queues that share 12 cpus."""
    recorded_halves(tmp_path / "log", seconds=9)
    return tmp_path / "log"


def forge(log: Path, change: Callable[[str], str]) -> int:
    """Change lines and compute all hashes anew, so that the log is as if it had been written so; returns how many."""
    (path,) = log_files(log)
    chain, changed, lines = "", 0, []
    for line in path.read_bytes().splitlines():
        body = unsealed(line)[0].decode()
        forged = change(body)
        changed += forged != body
        chain = chain_of(forged.encode(), chain)
        lines.append(sealed(forged.encode(), chain))
    path.write_bytes(b"\n".join([*lines, b""]))
    return changed


def test_a_sound_log_is_clean(log: Path) -> None:
    done = pumice("audit", log)
    assert done.status == 0 and done.out.endswith(f"CLEAN {log}: everything holds\n")
    values = json.loads(pumice("audit", log, "-o", "json").out)
    assert values["clean"] and values["findings"] == []
    assert {rule: found["wrong"] for rule, found in values["rules"].items()} == dict.fromkeys(values["rules"], 0)
    assert values["rules"]["bind"]["checked"] == values["decisions"]["bind"] > 20
    assert [queue["path"] for queue in values["queues"]] == ["root", "root/a", "root/b"]


def test_findings_name_line_cycle_and_decision(log: Path) -> None:
    assert forge(log, lambda line: line.replace('"node":"n0"', '"node":"n9"') if '"is":"cycle"' in line else line)
    done = pumice("audit", log)
    assert done.status == 1
    values = json.loads(pumice("audit", log, "-o", "json").out)
    assert not values["clean"] and values["rules"]["bind"]["wrong"] > SHOWN
    first = values["findings"][0]
    assert (first["rule"], first["message"]) == ("bind", "there is no such node")
    assert first["decision"] == "bind ns/a-j3-t-0 to n9" and first["cycle"] == 1
    lines = done.out.splitlines()
    place = lines.index(next(line for line in lines if line.startswith(f"{first['line']}: cycle 1, ")))
    assert lines[place].endswith(": bind")
    assert lines[place + 1 : place + 3] == [f"    {first['decision']}", f"    {first['message']}"]
    total = len(values["findings"])
    assert f"... and {total - SHOWN} more; --all shows {total} of them" in lines
    assert lines[-1] == f"WRONG {log}: {total} findings"
    everything = pumice("audit", log, "--all").out
    assert everything.count("there is no such node") == total and "more; --all" not in everything


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("decisions-000001.jsonl", b"hello\n", "decisions-000001.jsonl:1: not a decision log"),
        ("notes.txt", b"hello\n", "no decision log in this directory; its files are decisions-*.jsonl"),
    ],
)
def test_what_is_no_log_is_refused_without_the_usage(tmp_path: Path, name: str, content: bytes, said: str) -> None:
    (tmp_path / name).write_bytes(content)
    done = pumice_command("audit", tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("error: ") and said in done.stderr and "Usage" not in done.stderr


def test_an_altered_line_is_named_without_the_usage(log: Path) -> None:
    (path,) = log_files(log)
    path.write_bytes(path.read_bytes().replace(b'"node":"n0"', b'"node":"n1"', 1))
    done = pumice_command("audit", log)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(f"error: the log is not as it was written: {path}:")
    assert len(done.stderr.splitlines()) == 1


def test_an_empty_file_and_one_that_ends_in_half_a_line_are_noted(log: Path) -> None:
    (path,) = log_files(log)
    path.write_bytes(path.read_bytes()[:-5])
    (log / "decisions-000002.jsonl").touch()
    done = pumice("audit", log)
    assert done.status == 0
    assert f"note: {path.name}: the last line is incomplete" in done.out
    assert "note: decisions-000002.jsonl: empty, as a crash leaves a file" in done.out
