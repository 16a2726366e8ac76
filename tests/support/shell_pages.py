"""Pages that show a terminal: what they show is typed, in order, and must print what stands below it.

A block that begins with ``$`` is a terminal. ``pumice up`` is started on a free port and left running, or run to its
end where the page shows that it fails; one that is started while another runs takes its place. ``export`` is taken
over. A command that stays (``-w``) is left alone until it has printed what is shown, and then interrupted; where the
page shows a question with its answer, the answer is typed. Everything happens in a home of its own. A page may leave
lines of an output out; ages, moments, ports, uids and process numbers may differ.
"""

from __future__ import annotations

import os
import pty
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import pytest

from pumice.cli.cluster.volcano_programs import PROGRAMS
from tests.support.processes import end_process, killed_after, run_process, start_process, started_process

ROOT = Path(__file__).parent.parent.parent
HOME = "$HOME"
METRICS = "127.0.0.1:8080"  # on the page; here a port that is free
FAILURES = ("Error", "error:", "The Queue")
SECONDS = 60
UP = re.compile(r"(\w+=\S+ )?pumice up\b")
STAYS = re.compile(r"^(v|pumice )[^|]* -w$")
ANSWER = re.compile(r"\[y/N\]: (y|n)$", re.MULTILINE)

_BLOCK = re.compile(r"^```\n(\$ .*?)^```$", re.MULTILINE | re.DOTALL)
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
_CHANGING = [
    (re.compile(r"-[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b"), "-UID"),
    (re.compile(r"\b\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ"), "MOMENT"),
    (re.compile(r"\b(?:\d+d)?(?:\d+h)?(?:\d+m)?\d+[smhd]\b"), "AGE"),
    (re.compile(r"\b(?:\d+ min )?\d+ s\b"), "A WHILE"),
    (re.compile(r"\bprocess \d+"), "process N"),
    (re.compile(r"\b[\d,]+ cycles, [\d,]+ decisions"), "N cycles, N decisions"),
    (re.compile(r"\b(pod/[a-z]+)-[a-z0-9]{5}\b"), r"\1-SUFFIX"),
    (re.compile(r"(127\.0\.0\.1|localhost):\d+"), r"\1:PORT"),
    (re.compile(r"\s+"), " "),
]


class Shown(NamedTuple):
    """A command, and the lines below it."""

    command: str
    output: list[str]


def shown(text: str) -> list[Shown]:
    """Everything that is typed on a page."""
    found: list[Shown] = []
    for block in _BLOCK.findall(text):
        for line in block.splitlines():
            if line.startswith("$ "):
                found.append(Shown(line.removeprefix("$ "), []))
            else:
                found[-1].output.append(line)
    return found


def need_kubectl() -> None:
    """Skip where there is no kubectl; in CI that is a failure."""
    if shutil.which("kubectl") is None:
        assert os.environ.get("CI") != "true", "kubectl is not on PATH; CI has to have it"
        pytest.skip("kubectl is not on PATH")


class Terminal:
    """Where a page is typed."""

    def __init__(self, home: Path, stop: signal.Signals = signal.SIGINT, folder: Path = ROOT) -> None:
        self.home = home
        self._folder = folder
        self._stop = stop
        self._up: subprocess.Popen[bytes] | None = None
        self._started = 0
        with socket.create_server(("127.0.0.1", 0)) as free:
            self._port = free.getsockname()[1]
        programs = home / "bin"
        programs.mkdir()
        calls = {name: f"from pumice.cli.cluster.volcano_programs import run_{name}; run_{name}()" for name in PROGRAMS}
        for name, call in {**calls, "pumice": "from pumice.cli.main import main; main()"}.items():
            (programs / name).write_text(f'#!/bin/sh\nexec {sys.executable} -c "{call}" "$@"\n')
            (programs / name).chmod(0o755)
        ours = {"HOME": str(home), "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}"}
        removed = {"KUBECONFIG", "PUMICE_TOKEN", "XDG_DATA_HOME", "XDG_RUNTIME_DIR"}
        self._environment = {key: value for key, value in os.environ.items() if key not in removed} | ours

    def type(self, one: Shown) -> None:
        """Type a command, and compare what it prints with the page."""
        command = one.command.replace(HOME, str(self.home)).replace(METRICS, f"127.0.0.1:{self._port}")
        fails = any(line.startswith(FAILURES) for line in one.output)
        if command.startswith("export "):
            name, _, value = command.removeprefix("export ").partition("=")
            self._environment[name] = value
            return
        if UP.match(command) and not fails:
            said = self._start(command if "--port" in command else f"{command} --port 0")
        elif STAYS.match(command):
            said = self._stay(command, one)
        elif answer := ANSWER.search("\n".join(one.output)):
            said = self._ask(command, answer[1])
        else:
            done = self.run(f"exec 2>&1; {command}")
            said = done.stdout
            assert bool(done.returncode) == fails, f"{command}: exit status {done.returncode}\n{said}"
        self._compare(one, said)

    def run(self, command: str) -> subprocess.CompletedProcess[str]:
        """Type a command, and wait for its end."""
        return run_process(
            ["bash", "-c", command],
            cwd=self._folder,
            env=self._environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=False,
        )

    def _stay(self, command: str, one: Shown) -> str:
        """Type a command that does not end by itself; what it said when all that is shown was there."""
        lines = []
        wanted = [self._steady(line) for line in one.output]
        with started_process(
            ["bash", "-c", f"exec {command}"],
            cwd=self._folder,
            env=self._environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            text=True,
        ) as process:
            with killed_after(process, SECONDS):
                for line in process.stdout or ():
                    lines.append(line)
                    if wanted and self._steady(line) == wanted[0]:
                        del wanted[0]
                    if not wanted:
                        break
            process.send_signal(signal.SIGINT)
            process.wait(SECONDS)
        return "".join(lines)

    def _ask(self, command: str, answer: str) -> str:
        """Type a command on a real terminal, and the answer to what it asks."""
        ours, theirs = pty.openpty()
        environment = self._environment | {"TERM": "dumb"}
        with started_process(
            ["bash", "-c", command], cwd=self._folder, env=environment, stdin=theirs, stdout=theirs, stderr=theirs
        ) as process:
            os.close(theirs)
            said, typed = b"", False
            with killed_after(process, SECONDS), suppress(OSError):  # when nobody has the other end any more
                while part := os.read(ours, 4096):
                    said += part
                    if said.endswith(b"[y/N]: ") and not typed:
                        typed = bool(os.write(ours, f"{answer}\n".encode()))
            process.wait(SECONDS)
        os.close(ours)
        return _COLOUR.sub("", said.decode())

    def _compare(self, one: Shown, said: str) -> None:
        printed = iter([self._steady(line) for line in said.splitlines()])
        for line in one.output:  # in this order; the page may leave lines out
            assert self._steady(line) in printed, f"{one.command}: the page shows {line!r}; it printed\n{said}"

    def _steady(self, line: str) -> str:
        line = line.replace(str(self.home), HOME)
        for pattern, instead in _CHANGING:
            line = pattern.sub(instead, line)
        return line.strip()

    def _start(self, command: str) -> str:
        self.stop(self._stop)
        self._started += 1
        log = self.home / f"up-{self._started}.log"
        with log.open("wb") as output:
            self._up = start_process(
                ["bash", "-c", UP.sub(lambda match: f"{match[1] or ''}exec pumice up", command)],
                cwd=self._folder,
                env=self._environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
            )
        for _ in self._patiently():
            if "export KUBECONFIG=" in log.read_text():
                break
            assert self._up.poll() is None, log.read_text()
        return log.read_text()

    def stop(self, how: signal.Signals = signal.SIGTERM) -> None:
        """End what was started; when it is asked to, it ends well."""
        if self._up is None:
            return
        process, self._up = self._up, None
        process.send_signal(how)
        try:
            status = process.wait(timeout=SECONDS)
        finally:
            end_process(process)
        assert status == (-how if how is signal.SIGKILL else 0)

    @staticmethod
    def _patiently() -> Iterator[None]:
        end = time.monotonic() + SECONDS
        while time.monotonic() < end:
            yield
            time.sleep(0.05)
        raise TimeoutError(f"pumice up did not come up within {SECONDS} s")
