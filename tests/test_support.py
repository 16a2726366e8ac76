"""The helpers of the tests: their index is complete, and what they start they can stop."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.processes import (
    end_all_processes,
    end_process,
    killed_after,
    run_process,
    start_process,
    started_process,
)

TESTS = Path(__file__).parent
SLEEP = [sys.executable, "-c", "import time; print('up', flush=True); time.sleep(600)"]
IGNORE_SIGTERM = "import signal; signal.signal(15, signal.SIG_IGN); print('up', flush=True); signal.pause()"


def helpers() -> set[str]:
    """Every module below ``tests`` that is no test, as the index names it."""
    found = set()
    for path in TESTS.rglob("*.py"):
        if path.name.startswith("test_") or path.name in ("conftest.py", "__init__.py"):
            continue
        named = path.parent in (TESTS / "support", TESTS / "oracles")
        found.add(path.name if named else str(path.relative_to(TESTS.parent)))
    return found


def test_index_of_helpers_is_complete() -> None:
    listed = re.findall(r"^\| `([\w/]+\.py)` \| .+ \|$", (TESTS / "support" / "README.md").read_text(), re.MULTILINE)
    assert sorted(listed) == sorted(helpers())


def test_every_process_is_started_by_the_helper() -> None:
    started = re.compile(r"subprocess\.(run|Popen|call|check_call|check_output)\(|os\.(fork|system|posix_spawn)\(")
    others = [path for path in TESTS.rglob("*.py") if path not in (TESTS / "support" / "processes.py", Path(__file__))]
    assert [str(path) for path in others if started.search(path.read_text(encoding="utf-8"))] == []


def started(command: list[str]) -> subprocess.Popen[str]:
    process = start_process(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None and process.stdout.readline() == "up\n"
    return process


def test_child_is_interrupted() -> None:
    process = started(SLEEP)
    process.send_signal(signal.SIGINT)
    assert process.wait(60) == -signal.SIGINT
    assert end_process(process) == -signal.SIGINT


def test_child_is_interrupted_in_a_background_job() -> None:
    """A shell starts background jobs with SIGINT ignored, and children inherit that unless somebody resets it."""
    test = f"{__file__}::{test_child_is_interrupted.__name__}"
    suite = f"{sys.executable} -m pytest -q -p no:cacheprovider -p no:schemathesis -n 1 {test}"
    job = ["sh", "-c", f"trap '' INT; exec {suite}"]
    done = run_process(job, cwd=TESTS.parent, capture_output=True, text=True, timeout=250)
    assert done.returncode == 0, done.stdout + done.stderr


def test_child_that_ignores_sigterm_is_killed() -> None:
    assert end_process(started([sys.executable, "-c", IGNORE_SIGTERM]), grace=0.1) == -signal.SIGKILL


def test_child_ends_with_its_block_also_when_the_test_fails() -> None:
    with pytest.raises(ZeroDivisionError), started_process(SLEEP) as process:
        _ = 1 / 0
    assert process.returncode == -signal.SIGTERM


def test_children_that_nobody_ended_end_with_the_suite() -> None:
    process = started(SLEEP)
    end_all_processes()
    assert process.returncode == -signal.SIGTERM


def test_wait_for_output_is_bounded() -> None:
    with started_process(SLEEP, stdout=subprocess.PIPE, text=True) as process:
        with killed_after(process, 0.2):
            assert process.stdout is not None
            process.stdout.read()  # until it ends
        assert process.wait(60) == -signal.SIGKILL


# ---- the quick tests ---------------------------------------------------------------------------------------

QUICK_TESTS = """
import subprocess, sys, threading
import pytest

def start():
    subprocess.run([sys.executable, "-c", ""], check=True)

def test_of_arithmetic(): assert 1 + 1 == 2
def test_that_starts_a_process(): start()
def test_that_starts_a_process_in_a_thread():
    thread = threading.Thread(target=start)
    thread.start()
    thread.join()
@pytest.mark.process
def test_that_says_so(): start()
"""


@pytest.mark.timeout(600)
def test_quick_tests_may_not_start_processes(tmp_path: Path) -> None:
    """Our conftest over other folders: what starts a process fails, unless it is marked, and then it is not quick."""
    (tmp_path / "conftest.py").write_text((TESTS / "conftest.py").read_text())
    for folder in ("model", "elsewhere"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "test_same_name.py").write_text(QUICK_TESTS)
    command = [sys.executable, "-m", "pytest", "-c", str(TESTS.parent / "pyproject.toml"), "-p", "no:cacheprovider"]
    command += ["-p", "no:schemathesis"]  # which takes long to load
    command += ["-rA", "-q", "--rootdir", str(tmp_path), "-o", f"pythonpath={TESTS.parent}", str(tmp_path)]
    done = run_process(command, cwd=tmp_path, capture_output=True, text=True, timeout=250)
    assert sorted(re.findall(r"^FAILED (\S+)", done.stdout, re.MULTILINE)) == [
        "model/test_same_name.py::test_that_starts_a_process",
        "model/test_same_name.py::test_that_starts_a_process_in_a_thread",
    ], done.stdout + done.stderr
    assert "mark it with @pytest.mark.process: subprocess.Popen" in done.stdout
    assert "6 passed" in done.stdout
    quick = run_process([*command, "--quick"], cwd=tmp_path, capture_output=True, text=True, timeout=250)
    assert "2 failed, 1 passed, 1 deselected" in quick.stdout, quick.stdout + quick.stderr
