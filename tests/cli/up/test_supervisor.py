"""What works beside ``pumice up``: it is started again, comes to an end with it, and in the right order."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from pumice.cli.up import supervisor
from pumice.cli.up.supervisor import CannotStartError, SupervisedProcess
from tests.cli.command import SOURCES, pumice_command
from tests.support.processes import run_process, started_process

SECONDS = 60.0
WORK = "import sys; print('ok', flush=True); sys.stdin.read()"  # until we are gone


def eventually(holds: Callable[[], Any]) -> Any:
    """What it gives, as soon as that is something."""
    end = time.monotonic() + SECONDS
    while not (found := holds()):
        assert time.monotonic() < end, "it did not come to that"
        time.sleep(0.05)
    return found


def processes() -> dict[int, tuple[int, str]]:
    """Everybody who lives: parent and command."""
    listed = run_process(["ps", "-A", "-o", "pid=,ppid=,stat=,args="], capture_output=True, text=True, check=True)
    rows = [line.split(maxsplit=3) for line in listed.stdout.splitlines()]
    return {int(row[0]): (int(row[1]), row[3]) for row in rows if len(row) == 4 and not row[2].startswith("Z")}


class Up:
    """``pumice up`` as a process, and what can be seen of it."""

    def __init__(self, process: subprocess.Popen[str], place: Path) -> None:
        self.process = process
        self._kubeconfig = place / "kubeconfig"
        self._log = place / "log"

    @property
    def url(self) -> str:
        def look() -> Any:
            assert self.process.poll() is None, self.said
            return self._kubeconfig.exists() and yaml.safe_load(self._kubeconfig.read_text())

        found = eventually(look)
        return str(found["clusters"][0]["cluster"]["server"])

    @property
    def said(self) -> str:
        return self._log.read_text()

    def ask(self, path: str, body: Any = None) -> Any:
        content = json.dumps(body).encode() if body else None
        request = urllib.request.Request(self.url + path, content, {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=10) as answer:
            return json.loads(answer.read())

    def companion(self, name: str, but: int = 0) -> int:
        """The process of a companion, as soon as there is one (other than ``but``)."""

        def look() -> int:
            ours = [(pid, args) for pid, (parent, args) in processes().items() if parent == self.process.pid]
            return next((pid for pid, args in ours if f" pumice {name} " in args and pid != but), 0)

        return int(eventually(look))

    def place(self, name: str) -> None:
        """Have a pod, and wait until it has a node: then everybody is at work."""
        containers = [{"name": "c", "image": "x", "resources": {"requests": {"cpu": "1"}}}]
        spec = {"schedulerName": "pumice", "containers": containers}
        self.ask(PODS, {"metadata": {"name": name}, "spec": spec})
        eventually(lambda: self.ask(f"{PODS}/{name}")["spec"].get("nodeName"))

    def send(self, how: signal.Signals) -> None:
        self.process.send_signal(how)

    def end(self) -> int:
        return self.process.wait(timeout=SECONDS)


@contextmanager
def up(place: Path, *arguments: str) -> Iterator[Up]:
    command = [sys.executable, "-m", "pumice", "up", "--memory", "--port", "0", "--kubeconfig", "kubeconfig"]
    with (
        (place / "log").open("w") as log,
        started_process(
            [*command, "--nodes", "1", *arguments],
            stdout=subprocess.DEVNULL,
            stderr=log,
            text=True,
            cwd=place,
            env=os.environ | {"PYTHONPATH": str(SOURCES)},
        ) as process,
    ):
        yield Up(process, place)


def gone(*pids: int) -> bool:
    return not processes().keys() & set(pids)


GROUPS = "/apis/scheduling.volcano.sh/v1beta1/namespaces/default/podgroups"
PODS = "/api/v1/namespaces/default/pods"


def test_a_pod_finds_its_group_and_its_node(tmp_path: Path) -> None:
    with up(tmp_path) as running:
        running.place("one")
        (group,) = running.ask(GROUPS)["items"]
        assert group["spec"]["queue"] == "default"
        running.send(signal.SIGTERM)
        assert running.end() == 0
        where, who, *rest = running.said.splitlines()
        assert (where.split()[0], who.split()[0]) == ("Kubernetes", "scheduler")
        assert rest == ["stopping: waiting for writes in progress"], "nobody else had anything to say"


def test_kill_9_of_the_server_ends_them_too(tmp_path: Path) -> None:
    with up(tmp_path) as running:
        both = running.companion("scheduler"), running.companion("controllers")
        running.send(signal.SIGKILL)
        running.end()
        eventually(lambda: gone(*both))


def test_killed_processes_are_restarted(tmp_path: Path) -> None:
    with up(tmp_path) as running:
        for name in ("scheduler", "controllers"):
            before = running.companion(name)
            os.kill(before, signal.SIGKILL)
            assert running.companion(name, but=before) != before
        running.place("one")
        assert "scheduler: exited (SIGKILL); restarting in 1 s\n" in running.said
        assert "controllers: exited (SIGKILL); restarting in 1 s\n" in running.said


def test_server_answers_until_processes_have_stopped(tmp_path: Path) -> None:
    with up(tmp_path) as running:
        scheduler = running.companion("scheduler")
        running.place("one")
        os.kill(scheduler, signal.SIGSTOP)
        running.send(signal.SIGINT)
        eventually(lambda: "stopping" in running.said)
        assert running.ask("/version")["major"] == "1"
        os.kill(scheduler, signal.SIGCONT)
        assert running.end() == 0
        assert gone(scheduler)


def test_second_signal_stops_at_once(tmp_path: Path) -> None:
    with up(tmp_path) as running:
        both = running.companion("scheduler"), running.companion("controllers")
        running.place("one")
        os.kill(both[0], signal.SIGSTOP)
        running.send(signal.SIGINT)
        eventually(lambda: "stopping" in running.said)
        assert running.process.poll() is None
        running.send(signal.SIGINT)
        assert running.end() == 130
        assert gone(*both)
        assert "does not stop" not in running.said


def test_up_no_scheduler_starts_only_controllers(tmp_path: Path) -> None:
    with up(tmp_path, "--no-scheduler") as running:
        running.companion("controllers")
        parents = [(parent, args) for parent, args in processes().values() if parent == running.process.pid]
        assert len(parents) == 1
        assert "the controllers are running without a scheduler" in running.said
    done = pumice_command("up", "--no-scheduler", "--config", __file__)
    assert done.returncode == 2 and "cannot be combined with --no-scheduler" in done.stderr


def test_invalid_configuration_stops_the_cluster(tmp_path: Path) -> None:
    (tmp_path / "bad.yaml").write_text("actions: dance\n")
    with up(tmp_path, "--config", "bad.yaml") as running:
        assert running.end() == 2
        assert "scheduler: error: bad.yaml" in running.said and "dance" in running.said
        assert running.said.endswith("error: scheduler could not start; its error is printed above\n")


def test_verbose_prints_info_messages(tmp_path: Path) -> None:
    with up(tmp_path, "--verbose", "--metrics-address", "127.0.0.1:0") as running:
        eventually(lambda: "scheduler: metrics at http://127.0.0.1:" in running.said)


# ---- one of them, in this process -------------------------------------------------------------------------


class Story:
    """A companion that runs a script of the test's, with short pauses."""

    def __init__(self, script: str, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(supervisor, "FIRST_RESTART_DELAY", 0.01)
        monkeypatch.setattr(supervisor, "KILL_AFTER_SECONDS", 0.5)
        self.said: list[str] = []
        self.companion = SupervisedProcess("worker", [], self.said.append, verbose=False)
        self.companion._command = [sys.executable, "-c", script]

    async def until(self, holds: Callable[[], Any]) -> None:
        async with asyncio.timeout(SECONDS):
            while not holds():
                await asyncio.sleep(0.01)

    def told(self, then: Callable[[], Any]) -> None:
        async def run() -> None:
            life = asyncio.create_task(self.companion.run())
            try:
                await then()
                await self.companion.stop()
                await life
            finally:
                self.companion.kill()
                life.cancel()

        asyncio.run(run())


def test_reported_health_sets_the_state(monkeypatch: pytest.MonkeyPatch) -> None:
    script = "import time\nfor word in ('pods: not listed yet', 'ok'):\n  print(word, flush=True); input()"
    story = Story(script, monkeypatch)

    async def then() -> None:
        assert story.companion.state == "starting"
        await story.until(lambda: story.companion.state == "not ready")
        process = story.companion._process
        assert process and process.stdin
        process.stdin.write(b"\n")
        await story.until(lambda: story.companion.state == "ok")

    story.told(then)
    assert story.said == []


def test_restart_delay_grows_while_the_process_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    story = Story("raise SystemExit(3)", monkeypatch)
    asked: list[float] = []
    monkeypatch.setattr(supervisor, "Backoff", lambda first, most: _Book(asked))

    async def then() -> None:
        await story.until(lambda: len(story.said) == 3)

    story.told(then)
    assert story.said[:3] == ["worker: exited (exit status 3); restarting in 0 s"] * 3
    assert "reset" not in asked and len(asked) >= 3


class _Book:
    def __init__(self, asked: list[Any]) -> None:
        self._asked = asked

    def next(self) -> float:
        self._asked.append("next")
        return 0.0

    def reset(self) -> None:
        self._asked.append("reset")


def test_invalid_input_is_fatal_only_before_the_first_success(monkeypatch: pytest.MonkeyPatch) -> None:
    story = Story("raise SystemExit(2)", monkeypatch)
    with pytest.raises(CannotStartError, match="worker could not start"):
        asyncio.run(story.companion.run())
    story = Story("print('ok', flush=True); raise SystemExit(2)", monkeypatch)

    async def then() -> None:
        await story.until(lambda: len(story.said) == 2)

    story.told(then)
    assert story.said[0] == "worker: exited (exit status 2); restarting in 0 s"


def test_companion_that_ignores_sigterm_is_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    deaf = (
        "import signal, sys; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('ok', flush=True); sys.stdin.read()"
    )
    story = Story(deaf, monkeypatch)

    async def then() -> None:
        await story.until(lambda: story.companion.state == "ok")

    story.told(then)
    assert story.said == ["worker: did not stop in time; killed"]


def test_standard_error_is_relayed_line_by_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supervisor, "LONGEST_LINE", 1 << 10)
    script = (
        "import sys; e = sys.stderr.buffer; e.write(b'one\\ntw\\xff\\n' + b'x' * 100_000 + b'\\nthree\\n'); e.flush();"
        + WORK
    )
    story = Story(script, monkeypatch)

    async def then() -> None:
        await story.until(lambda: any("three" in line for line in story.said))

    story.told(then)
    assert story.said[:2] == ["worker: one", "worker: tw\ufffd"]
    assert all(line.startswith("worker: ") for line in story.said)


def test_only_the_supervisor_holds_the_input_pipe(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two of them: none may hold the pipe of the other, or it would not notice that we are gone."""

    async def run() -> None:
        stories = [Story(WORK, monkeypatch) for _ in range(2)]
        lives = [asyncio.create_task(story.companion.run()) for story in stories]
        for story in stories:
            await story.until(lambda story=story: story.companion.state == "ok")
        for story in stories:
            process = story.companion._process
            assert process and process.stdin
            story.companion._stopping = True
            process.stdin.close()
            async with asyncio.timeout(SECONDS):
                assert await process.wait() == 0
        await asyncio.gather(*lives)

    asyncio.run(run())
