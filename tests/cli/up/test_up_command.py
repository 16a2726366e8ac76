"""``pumice up`` as a command: what it says, what it refuses, and what it leaves behind."""

from __future__ import annotations

import fcntl
import logging
import os
import pty
import re
import socket
import struct
import subprocess
import sys
import termios
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import yaml

from kubesim.kubelet import node_template
from kubesim.stats import ClusterFigures
from kubesim.storage.log import Log
from kubesim.storage.newest_revision import encoded, newest_path
from pumice.cli.up import up_command as command
from pumice.cli.up.up_output import COMPONENT_MESSAGES, StatusLineLog, status_text
from tests.cli.command import SOURCES, pumice_command
from tests.kubesim.storage.store_helpers import line
from tests.support.processes import started_process

SECONDS = 30.0


@pytest.fixture
def home(tmp_path: Path) -> dict[str, str]:
    """A place of its own for everything that is written without being told where."""
    for name in ("share", "run", "tmp"):
        (tmp_path / name).mkdir()
    places = {"XDG_DATA_HOME": "share", "XDG_RUNTIME_DIR": "run", "TMPDIR": "tmp"}
    return {"HOME": str(tmp_path), **{name: str(tmp_path / folder) for name, folder in places.items()}}


@contextmanager
def up(home: dict[str, str], *arguments: str, port: int = 0, umask: int = -1) -> Iterator[list[str]]:
    """Run it for the time of a ``with`` block. Gives the lines that it printed, errors first."""
    surroundings = {key: value for key, value in os.environ.items() if key != "PUMICE_TOKEN"}
    with started_process(
        [sys.executable, "-m", "pumice", "up", "--port", str(port), *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=home["HOME"],
        env=surroundings | home | {"PYTHONPATH": str(SOURCES)},
        umask=umask,
    ) as process:
        assert process.stdout and process.stderr
        export = process.stdout.readline()
        lines: list[str] = []
        while not lines or lines[-1].rstrip() not in COMPONENT_MESSAGES.values():
            lines.append(process.stderr.readline())
            assert lines[-1], lines
        yield [*lines, export]
    assert process.returncode == 0


def test_start_prints_address_and_components(home: dict[str, str]) -> None:
    with up(home, "--data", "relative", "--nodes", "1") as lines:
        place = Path(home["HOME"]) / "relative"
        assert re.fullmatch(
            rf"Kubernetes API at http://127\.0\.0\.1:\d+, 1 simulated node, data in {place}\n", lines[0]
        )
        assert lines[1:] == [
            "scheduler and controllers are running: pods with schedulerName pumice or volcano are placed\n",
            f"export KUBECONFIG={place}/kubeconfig\n",
        ]
        assert str(place) in pumice_command("up", "--data", place, **home).stderr


def test_start_beyond_loopback_prints_the_outside_address(home: dict[str, str]) -> None:
    with up(home, "--memory", "--kubeconfig", "kc", "--host", "0.0.0.0", "--nodes", "0") as lines:
        (port,) = re.findall(r"https://127\.0\.0\.1:(\d+)", lines[0])
        outside = f"https://{socket.gethostname()}:{port}"
        kubeconfig = Path(home["HOME"]) / "kc"
        assert lines[1] == f"reachable from other machines as {outside}; the token is in {kubeconfig}\n"
        assert yaml.safe_load(kubeconfig.read_text())["users"][0]["user"]["token"]


def test_ignored_node_options_are_reported(home: dict[str, str]) -> None:
    with up(home, "--nodes", "3") as lines:
        assert len(lines) == 3
    with up(home, "--nodes", "2") as lines:
        assert lines[1] == "2 nodes requested, but the data directory has 3; remove some with kubectl delete node\n"
    with up(home, "--node-capacity", "cpu=1,memory=1Gi") as lines:
        assert lines[0].startswith("--node-capacity is ignored without --nodes: existing nodes keep their capacity")


def test_memory_leaves_nothing_behind(home: dict[str, str], tmp_path: Path) -> None:
    with up(home, "--memory", "--token", "t") as lines:
        kubeconfig = Path(lines[-1].rstrip().removeprefix("export KUBECONFIG="))
        assert kubeconfig.is_relative_to(tmp_path / "run") and kubeconfig.exists()
    with up(home, "--memory", "--kubeconfig", "mine"):
        assert list((tmp_path / "run").iterdir()) == []
    assert pumice_command("up", "--memory", "--host", "nowhere.invalid", **home).returncode == 2
    assert sorted(str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*")) == ["mine", "run", "share", "tmp"]


def test_port_in_use_is_an_error(home: dict[str, str], tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        done = pumice_command("up", "--port", port, **home)
    assert done.returncode == 1
    advice = "use --port to select another, --port 0 for any free port"
    assert done.stderr == f"error: port {port} is already in use; {advice}\n"
    assert list((tmp_path / "share").iterdir()) == []
    with up(home, port=port):  # on the usual data
        done = pumice_command("up", "--memory", "--port", port, **home)
        assert done.returncode == 1
        ours = rf"pumice up, process \d+, since \S+, at http://127\.0\.0\.1:{port}"
        assert re.fullmatch(rf"error: port {port} is already in use by {ours}; {advice}\n", done.stderr)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--host", "nowhere.invalid"], "--host nowhere.invalid: "),
        (["--host", "192.0.2.1"], "--host 192.0.2.1 is not an address of this machine"),
        (["--token", ""], "--token (or PUMICE_TOKEN) must not be empty"),
        (["--token", "two words"], "must consist of printable ASCII characters without spaces"),
        (["--nodes", "65537"], "65537 is not in the range 0<=x<=65536"),
        (["--tls-cert", "/dev/null", "--tls-key", "/dev/null"], "--tls-cert /dev/null: is not a certificate in PEM"),
        (
            ["--nodes-file", "/dev/null", "--node-capacity", "cpu=1,memory=1"],
            "cannot be combined with --nodes",
        ),
        (["--node-capacity", "cpu=1"], "--node-capacity: memory is missing"),
        (["--shared"], "--shared needs --here"),
        (["--here", "--admins", "root"], "--admins and --socket need --shared"),
        (["--nonsense"], "No such option"),
    ],
)
def test_invalid_options_are_usage_errors(
    home: dict[str, str], tmp_path: Path, arguments: list[str], words: str
) -> None:
    done = pumice_command("up", "--port", 0, *arguments, **home)
    assert done.returncode == 2
    (problem,) = [line for line in done.stderr.splitlines() if line.startswith("error: ")]
    assert words in problem
    assert list((tmp_path / "share").iterdir()) == []


def test_empty_token_variable_is_a_usage_error(home: dict[str, str]) -> None:
    done = pumice_command("up", PUMICE_TOKEN="", **home)
    assert (done.returncode, "must not be empty" in done.stderr) == (2, True)


def test_invalid_database_is_reported_by_up_and_fsck(home: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "pumice.db").write_text("nonsense " * 100)
    done = pumice_command("up", "--data", tmp_path, **home)
    assert (done.returncode, done.stderr) == (
        1,
        f"error: {tmp_path}/pumice.db cannot be read: file is not a database\n",
    )
    done = pumice_command("fsck", tmp_path)
    assert (done.returncode, done.stdout.splitlines()[-1]) == (1, f"1 finding in {tmp_path}")


def test_lost_commits_are_reported_until_they_are_given_up_by_repair(home: dict[str, str], tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir()
    log = Log(data / "pumice.db")
    log.append([line(1, "priorityclasses.scheduling.k8s.io/c")])
    log.close()
    newest_path(data / "pumice.db").write_bytes(encoded(9))
    done = pumice_command("up", "--data", data, **home)
    lost = "ends at revision 1, but revision 9 was committed: the writes after 1 are lost"
    ways = "restore a backup, or go on without what is lost: `pumice up --repair`"
    assert (done.returncode, done.stderr) == (1, f"error: {data}/pumice.db {lost}: {ways}\n")
    done = pumice_command("fsck", data)
    assert (done.returncode, done.stdout.splitlines()[0]) == (1, f"WRONG the log {lost}")
    with up(home, "--repair", "--data", str(data), "--no-scheduler", "--no-controllers", "--no-ui") as lines:
        assert re.fullmatch(
            rf"repaired {data}: 1 objects kept; the damaged database is pumice\.db\.damaged-\w+\n", lines[0]
        )
    done = pumice_command("fsck", data)
    assert (done.returncode, done.stdout) == (0, f"CLEAN {data}\n")
    (kept,) = data.glob("pumice.db.damaged-*")
    assert kept.stat().st_size


def test_others_may_write_nothing_whatever_the_umask(home: dict[str, str], tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir(mode=0o755)
    with up(home, "--data", str(data), "--token", "secret", "--no-ui", "--no-controllers", umask=0):
        found = {path.relative_to(data).as_posix(): path.stat().st_mode & 0o777 for path in data.rglob("*")}
    assert not [name for name, mode in found.items() if mode & 0o022]
    private = ("pumice.db", "pumice.db-newest", "tls", "tls/server.key", "kubeconfig", "lock")
    assert {name: oct(found[name]) for name in private if found[name] & 0o077} == {}
    assert "tls/server.crt" in found


def test_up_node_defaults_match_node_template() -> None:
    assert command.MAX_NODES == node_template.MAX_NODES
    assert command.DEFAULT_CAPACITY == node_template.DEFAULT_CAPACITY


def test_the_status_line() -> None:
    now = ClusterFigures(nodes=3, ready=2, phases={"Pending": 1200, "Running": 5}, revision=4099)
    begins, ends = "2 of 3 nodes ready | pods: 1,200 pending, 5 running | ", "1 queue | revision 4,099 | http://a:1"
    assert status_text(now, 1, {}, "http://a:1") == begins + ends
    fine = {"scheduler": "ok", "controllers": "ok"}
    assert status_text(now, 1, fine, "http://a:1") == f"{begins}scheduler ok | {ends}"
    trouble = fine | {"controllers": "restarting"}
    assert status_text(now, 1, trouble, "http://a:1") == f"{begins}controllers restarting | {ends}"


def test_lines_that_stay_and_the_one_that_is_kept(capsys: pytest.CaptureFixture[str]) -> None:
    lines = StatusLineLog()
    lines.print_line("a")
    lines.set_status("3 nodes ready")
    lines.print_line("scheduler: b")
    lines.handle(logging.makeLogRecord({"msg": "history is %s", "args": ("kept",), "levelno": logging.WARNING}))
    lines.end()
    lines.print_line("c")
    kept = "\r\x1b[K3 nodes ready"
    assert capsys.readouterr().err == (
        f"a\n{kept}\r\x1b[Kscheduler: b\n3 nodes ready\r\x1b[Khistory is kept\n3 nodes ready\nc\n"
    )


def test_the_status_line_stays_one_line_on_a_narrow_terminal(home: dict[str, str]) -> None:
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 40, 0, 0))
    with started_process(
        [sys.executable, "-m", "pumice", "up", "--memory", "--port", "0"],
        stdout=subprocess.DEVNULL,
        stderr=theirs,
        env=os.environ | home | {"PYTHONPATH": str(SOURCES)},
    ):
        os.close(theirs)
        said = b""
        while said.count(b"\r\x1b[K") < 2:
            said += os.read(ours, 4096)
    os.close(ours)
    line = said.decode().split("\r\x1b[K")[1]
    assert line.startswith("3 nodes ready | pods: none | ")
    assert len(line) == 39
