"""vsub with scripts that run as processes of this machine: arrays, order, time limits, output files, Ctrl-C."""

from __future__ import annotations

import json
import os
import pty
import select
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.machines import Machine
from tests.support.processes import end_process, start_process

pytestmark = [pytest.mark.long, pytest.mark.timeout(900)]

SCRIPT = """#!/bin/sh
#PUMICE -N sweep -q default --array 1-9:2,20%2
#PUMICE --output %j-%a.out --env WORD=run -R cpu=1,memory=16Mi
echo $WORD $PUMICE_ARRAY_INDEX of $PUMICE_ARRAY_COUNT at $VC_TASK_INDEX
echo + >> active
sleep 0.3
echo - >> active
echo problem >&2
test $PUMICE_ARRAY_INDEX != 7
"""


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machine]:
    found = Machine(tmp_path_factory.mktemp("machine"), "cpu=4,memory=8Gi")
    yield found
    found.end()


def test_array_with_options_in_the_script(machine: Machine, tmp_path: Path) -> None:
    """Never more than two at a time; each in its file and in the log; the one that fails makes the array fail."""
    (tmp_path / "sweep.sh").write_text(SCRIPT)
    (tmp_path / "sweep.sh").chmod(0o755)
    ended = machine.run("vsub", "--wait", "--", "./sweep.sh", folder=tmp_path)
    assert ended.returncode == 1
    assert "job sweep: Failed: 5 pods succeeded, but minSuccess is 6\n" in ended.stderr
    indexes = [1, 3, 5, 7, 9, 20]
    for position, index in enumerate(indexes):
        line = f"run {index} of 6 at {position}\n"
        assert (tmp_path / f"sweep-{index}.out").read_text() == f"{line}problem\n"
        assert f"sweep-main-{position}: {line}" in ended.stdout
    level = most = 0
    for mark in (tmp_path / "active").read_text().split():
        level += 1 if mark == "+" else -1
        most = max(most, level)
    assert (level, most) == (0, 2)


def test_a_job_starts_after_another_or_fails_with_it(machine: Machine, tmp_path: Path) -> None:
    for name, code in (("good", 0), ("bad", 3)):
        done = machine.run(
            "vsub",
            name,
            "-q",
            "default",
            "--",
            "sh",
            "-c",
            f"sleep 0.5; echo {name} >> ran; exit {code}",
            folder=tmp_path,
        )
        assert done.returncode == 0, done.stderr
    later = ["-q", "default", "--wait", "--"]
    ended = machine.run("vsub", "late", "--after", "good", "--after", "any:bad", *later, "sort", "ran", folder=tmp_path)
    assert (ended.returncode, ended.stdout) == (0, "bad\ngood\n"), ended
    never = machine.run("vsub", "never", "--after", "bad", *later, "touch", "never", folder=tmp_path)
    assert never.returncode == 1
    words = "job never: Failed: starts only after job bad has completed, but that job ended with phase Failed\n"
    assert never.stderr.endswith(words)
    assert not (tmp_path / "never").exists()


def test_time_limit_and_unwritable_output_are_named_at_the_end(machine: Machine, tmp_path: Path) -> None:
    ended = machine.run("vsub", "slow", "-q", "default", "--time", "1s", "--wait", "--", "sleep", "60")
    assert ended.returncode == 143  # ended by SIGTERM
    assert (
        "pod slow-main-0: DeadlineExceeded: Pod was active on the node longer than the specified deadline"
        in ended.stderr
    )
    (tmp_path / "folder").mkdir()
    ended = machine.run("vsub", "blind", "-q", "default", "--output", str(tmp_path / "folder"), "--wait", "--", "true")
    assert ended.returncode == 128
    assert f"Is a directory: '{tmp_path}/folder'" in ended.stderr


def test_why_no_pod_can_be_created_is_said_while_waiting(machine: Machine, tmp_path: Path) -> None:
    container = {"name": "m", "image": "host", "command": ["true"]}
    container["resources"] = {"requests": {"memory": "2Gi"}, "limits": {"memory": "1Gi"}}
    template = {"spec": {"restartPolicy": "Never", "containers": [container]}}
    spec = {"queue": "default", "tasks": [{"name": "t", "replicas": 1, "template": template}]}
    job = {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "metadata": {"name": "stuck"}, "spec": spec}
    (tmp_path / "job.yaml").write_text(json.dumps(job))
    screen = Screen(machine, "vsub", "--wait", "-f", str(tmp_path / "job.yaml"))
    screen.until("job stuck: Failed to create Pod stuck-t-0: ")
    screen.until("must be less than or equal to memory limit of 1Gi")
    screen.type(b"\x03")
    screen.until("[y/N]: ")
    screen.type(b"y\r")
    assert screen.end() == 130
    assert screen.text.count("Failed to create") == 1


class Screen:
    """A command on a terminal."""

    def __init__(self, machine: Machine, *words: str) -> None:
        self._near, far = pty.openpty()
        program = Path(sys.executable).with_name(words[0])

        def take_terminal() -> None:
            os.setsid()
            os.close(os.open(os.ttyname(0), os.O_RDWR))  # Ctrl-C reaches the process

        self._process = start_process(
            [str(program), *words[1:]],
            stdin=far,
            stdout=far,
            stderr=far,
            env=machine.environment,
            cwd=machine.folder,
            preexec_fn=take_terminal,
        )
        os.close(far)
        self.text = ""

    def until(self, words: str) -> None:
        end = time.monotonic() + 120
        while words not in self.text:
            assert time.monotonic() < end, self.text
            if select.select([self._near], [], [], 0.1)[0]:
                self.text += os.read(self._near, 4096).decode()

    def type(self, keys: bytes) -> None:
        os.write(self._near, keys)

    def end(self) -> int:
        try:
            return int(self._process.wait(120))
        finally:
            end_process(self._process)
            os.close(self._near)


@pytest.mark.parametrize(
    ("name", "answer", "outcome"),
    [
        ("kept", b"n\r", "job kept is left running; cancel it with vcancel kept"),
        ("dropped", b"y\r", "job dropped cancelled"),
        ("hurried", b"\x03", "job hurried is left running"),  # Ctrl-C again
    ],
)
def test_ctrl_c_asks_what_becomes_of_the_job(machine: Machine, name: str, answer: bytes, outcome: str) -> None:
    screen = Screen(machine, "vsub", name, "-q", "default", "--wait", "--", "sh", "-c", "echo on; sleep 600")
    screen.until("on\r\n")
    screen.type(b"\x03")
    screen.until(f"Cancel job {name}? Otherwise it is left running [y/N]: ")
    screen.type(answer)
    screen.until(outcome)
    assert screen.end() == 130
    names = {line.split()[0]: line.split()[2] for line in machine.run("vjobs").stdout.splitlines()}
    assert names.get(name) == (None if name == "dropped" else "Running")
    if name in names:
        assert machine.run("vcancel", name).returncode == 0
