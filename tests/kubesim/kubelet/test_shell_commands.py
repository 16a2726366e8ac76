from __future__ import annotations

import shutil

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubesim.kubelet.shell_commands import CommandRun, command_run
from tests.support.processes import run_process

MISSING = frozenset({"xyz", "train.sh"})


@pytest.mark.parametrize(
    ("words", "run"),
    [
        (["sleep", "30"], CommandRun(30.0, 0)),
        (["sleep", "1.5"], CommandRun(1.5, 0)),
        (["sleep", "2m", "3s"], CommandRun(123.0, 0)),
        (["true"], CommandRun(0.0, 0)),
        (["false"], CommandRun(0.0, 1)),
        (["echo", "hello"], CommandRun(0.0, 0)),
        (["/bin/sh", "-c", "sleep 10s && exit 3"], CommandRun(10.0, 3)),
        (["bash", "-c", "sleep 1; sleep 2\nexit"], CommandRun(3.0, 0)),
        (["sh", "-c", "false; exit"], CommandRun(0.0, 1)),
        (["sh", "-c", "false && sleep 100"], CommandRun(0.0, 1)),
        (["sh", "-c", "true || sleep 100; sleep 4"], CommandRun(4.0, 0)),
        (["sh", "-c", "sleep 1 && exit 258"], CommandRun(1.0, 2)),
        (["sh", "-c", "echo \"a; sleep 5\" 'b && c'; sleep 2;"], CommandRun(2.0, 0)),
        (["sh", "-c", "sleep 10 && xyz"], CommandRun(10.0, 127)),
        (["sh", "-c", "xyz || sleep 7"], CommandRun(7.0, 0)),
        (["sh", "train.sh"], CommandRun(0.0, 127)),
        (["sh", "-c", "sh train.sh"], CommandRun(0.0, 127)),
        (["xyz", "--epochs=1"], CommandRun(0.0, 127)),
        # More than a timer can wait for is the longest wait.
        (["sleep", "9999999999d"], CommandRun(1e9, 0)),
    ],
)
def test_command_with_known_effect(words, run):
    assert command_run(tuple(words), MISSING) == run


@pytest.mark.parametrize(
    "words",
    [
        [],
        ["nginx"],
        ["python", "train.py"],
        ["sleep"],
        ["sleep", "infinity"],
        ["sh"],
        ["sh", "run.sh"],
        ["sh", "-c"],
        ["sh", "-c", "sleep 5; python train.py"],
        ["sh", "-c", "sleep $SECONDS"],
        ["sh", "-c", "sleep 5 &"],
        ["sh", "-c", "sleep 5 | cat"],
        ["sh", "-c", "(sleep 5)"],
        ["sh", "-c", "echo $(sleep 5)"],
        ["sh", "-c", "echo `sleep 5`"],
        ["sh", "-c", "sleep 5 > /dev/null"],
        ["sh", "-c", "exit soon"],
        ["sh", "-c", "echo 'no end"],
    ],
)
def test_other_command_runs_until_stopped(words):
    assert command_run(tuple(words), MISSING) is None


def test_program_is_not_found_only_where_it_is_missing():
    assert command_run(("xyz",)) is None


_SIMPLE = st.sampled_from(["true", "false", ":", "echo a b", "echo '; exit 9'", "exit 3", "exit", "xyz", "sleep 0"])
_SCRIPTS = st.lists(st.tuples(_SIMPLE, st.sampled_from([" && ", " || ", "; ", "\n", ";"])), min_size=1, max_size=6)


@pytest.mark.process
@pytest.mark.skipif(shutil.which("sh") is None, reason="there is no shell to compare with")
@given(_SCRIPTS)
def test_exit_code_is_that_of_a_real_shell(parts):
    script = "".join(command + joint for command, joint in parts[:-1]) + parts[-1][0]
    real = run_process(["sh", "-c", script], capture_output=True)
    assert command_run(("sh", "-c", script), MISSING) == CommandRun(0.0, real.returncode), script
