"""The programs as processes: what they load, how they watch, ask, complete and fail."""

from __future__ import annotations

import json
import os
import pty
import re
import shutil
import signal
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
import yaml

from pumice.cli.cluster import command_groups, volcano_programs
from pumice.kube.client.sync_client import Client
from pumice.kube.resources import QUEUES
from tests.cli.cluster.calls import Caller
from tests.cli.command import SOURCES, program, pumice_command, script
from tests.support.processes import run_process, started_process

SECONDS = 60.0
HEAVY = ("numpy", "aiohttp", "rich", "asyncio", "pumice.engine", "kubesim")
PREFIX = "queue.scheduling.volcano.sh"


def environment(kubeconfig: Path, **more: str) -> dict[str, str]:
    kept = {key: value for key, value in os.environ.items() if key not in ("NO_COLOR", "FORCE_COLOR")}
    return kept | {"PYTHONPATH": str(SOURCES), "KUBECONFIG": str(kubeconfig), "TERM": "xterm"} | more


def test_every_program_has_a_script() -> None:
    project = tomllib.loads((SOURCES.parent / "pyproject.toml").read_text())["project"]["scripts"]
    assert {name: f"pumice.cli.cluster.volcano_programs:run_{name}" for name in volcano_programs.PROGRAMS} == {
        name: target for name, target in project.items() if name != "pumice"
    }


@pytest.mark.parametrize("line", ["vqueues", "vjobs -A", "vsub quick -q default", "vcctl queue get default -o name"])
def test_volcano_programs_import_no_heavy_modules(kubeconfig: Path, line: str) -> None:
    name, *arguments = line.split()
    code = f"""
import sys
from pumice.cli.cluster.volcano_programs import run_{name}
try:
    run_{name}()
finally:
    print([module for module in {HEAVY!r} if module in sys.modules], file=sys.stderr)
"""
    for words in ([*arguments, "--help"], arguments):
        done = run_process(
            [sys.executable, "-c", code, *words],
            capture_output=True,
            text=True,
            check=True,
            env=environment(kubeconfig),
        )
        assert done.stderr.splitlines()[-1] == "[]"


def test_vsub_imports_no_more_than_a_submission_needs(kubeconfig: Path) -> None:
    """Loading is most of the time from the submission of a job to its start."""
    slow = ("yaml", "msgspec", "logging", "http.client", "email", "subprocess", "pumice.admission")
    code = f"""
import sys
from pumice.cli.cluster.volcano_programs import run_vsub
try:
    run_vsub()
finally:
    print([module for module in {slow!r} if module in sys.modules], file=sys.stderr)
"""
    words = [sys.executable, "-c", code, "slim", "-q", "default", "--", "true"]
    done = run_process(words, capture_output=True, text=True, check=True, env=environment(kubeconfig))
    assert done.stderr.splitlines()[-1] == "[]"


@pytest.mark.parametrize("name", [*volcano_programs.PROGRAMS, "pumice"])
def test_help_speaks_of_the_program_that_was_called(call: Caller, name: str) -> None:
    said = call.said(f"{name} -h")
    assert said.startswith(f"Usage: {name} ")
    if name not in ("vcctl", "pumice"):
        (examples,) = re.findall(r"Examples:\n(.*?)\nOptions:", said, re.DOTALL)
        assert all(line.startswith((f"  {name}", "  #")) for line in examples.splitlines() if line)


def test_every_command_has_examples(call: Caller) -> None:
    for group, commands in (("queue", command_groups.queue.commands), ("job", command_groups.job.commands)):
        for name in commands:
            assert f"  pumice {group} {name} " in call.said(f"pumice {group} {name} --help") or name == "list"


# ---- failing -------------------------------------------------------------------------------------------------------


def test_unreachable_cluster_is_an_error(call: Caller, kubeconfig: Path, tmp_path: Path) -> None:
    silent = yaml.safe_load(kubeconfig.read_text())
    silent["clusters"][0]["cluster"]["server"] = "http://127.0.0.1:1"
    call.kubeconfig = tmp_path / "silent"
    call.kubeconfig.write_text(yaml.safe_dump(silent))
    for line in ("vqueues", "vjobs -w", "vsub x", "vcctl queue delete x --yes"):
        status, out, err = call(line)
        assert (status, out) == (1, "")
        assert err.startswith("error: the cluster is not reachable: http://127.0.0.1:1: Connection refused. ")
        assert err.count("\n") == 1


def test_invalid_kubeconfigs_are_rejected(call: Caller, kubeconfig: Path, tmp_path: Path) -> None:
    assert call("vqueues --context nope") == (
        2,
        "",
        f"error: {kubeconfig}: contexts: Not found: 'nope': known contexts are pumice\n",
    )
    call.kubeconfig = tmp_path / "none"
    status, out, err = call("vqueues")
    assert (status, out) == (2, "") and err.startswith(f"error: {tmp_path / 'none'}: file not found; set KUBECONFIG")
    assert call.said(f"vcctl --kubeconfig {kubeconfig} --context pumice queue get root -o name") == f"{PREFIX}/root\n"


def test_a_reader_that_goes_away_is_no_error(kubeconfig: Path) -> None:
    command = f"{sys.executable} -c '{script('vqueues')}' -o json | head -1; exit ${{PIPESTATUS[0]}}"
    done = run_process(
        ["bash", "-c", command], capture_output=True, text=True, check=False, env=environment(kubeconfig)
    )
    assert (done.stdout, done.stderr) == ("{\n", "") and done.returncode in (0, 141)


# ---- watching ------------------------------------------------------------------------------------------------------


@contextmanager
def watching(kubeconfig: Path, name: str, *arguments: str) -> Iterator[Any]:
    """A program that stays; gives a function that reads lines until one fits."""
    with started_process(
        [sys.executable, "-c", script(name), *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment(kubeconfig),
    ) as process:

        def until(words: str) -> list[str]:
            lines = []
            for line in process.stdout or ():
                lines.append(line.rstrip("\n"))
                if words in line:
                    return lines
            raise AssertionError(f"it ended after {lines}: {process.stderr and process.stderr.read()}")

        yield until
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=SECONDS)
        assert process.returncode == 130
        assert said == "\n"  # after the ^C that a terminal shows


def test_the_tree_is_watched(kubeconfig: Path, client: Client, call: Caller) -> None:
    call.said("vcctl queue create top")
    call.said("vcctl queue create leaf -p top")
    with watching(kubeconfig, "vqueues", "-w") as until:
        assert until("|--leaf")[0].startswith("Name             Weight     State  Inqueue")
        client.merge(QUEUES.path("", "leaf", "status"), {"status": {"running": 3}})
        # what is above changes with it, and is printed first
        assert until("|--leaf") == [
            "root                  1      Open        0        0        3        0",
            "|--top                1      Open        0        0        3        0",
            "|  |--leaf            1      Open        0        0        3        0",
        ]
        client.merge(QUEUES.path("", "leaf", "status"), {"status": {"share": 0.5}})  # not in this table
        call.said("vcctl queue delete leaf --yes")
        assert until("Deleted") == ["|  |--leaf            1   Deleted        0        0        3        0"]


def test_other_outputs_are_watched(kubeconfig: Path, client: Client, call: Caller) -> None:
    call.said("vcctl queue create seen")
    with (
        watching(kubeconfig, "vcctl", "queue", "get", "seen", "-w", "-o", "name") as names,
        watching(kubeconfig, "vcctl", "queue", "list", "-w", "-o", "yaml") as documents,
        watching(kubeconfig, "vcctl", "queue", "get", "seen", "-w", "-o", "json") as objects,
    ):
        names("seen")
        documents("name: seen")
        assert json.loads("\n".join([*objects('"weight"'), "}}"]))["metadata"]["name"] == "seen"
        objects("}")
        call.said("vcctl queue operate default -w 3")
        call.said("vcctl queue operate seen -w 2")
        assert names("seen") == [f"{PREFIX}/seen"]
        assert objects('"weight"')[-1].strip() == '"weight": 2'
        last = "\n".join(documents("  weight: 3")).rpartition("\n---\n")[2]
        assert yaml.safe_load(last)["metadata"]["name"] == "default"


def test_jobs_are_watched(kubeconfig: Path, call: Caller) -> None:
    with watching(kubeconfig, "vjobs", "-w") as until:
        call.said("vsub watched -q default")
        assert until("watched")[-1].split()[:3] == ["watched", "default", "Pending"]
        call.said("vcancel watched")
        assert until("watched")[-1].split()[:3] == ["watched", "default", "Deleted"]


# ---- asking --------------------------------------------------------------------------------------------------------


def asked(kubeconfig: Path, answer: bytes, **more: str) -> tuple[int, str]:
    """``vcctl queue delete asked`` on a terminal: the exit status, and what was on the screen."""
    ours, theirs = pty.openpty()
    with started_process(
        [sys.executable, "-c", script("vcctl"), "queue", "delete", "asked"],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        env=environment(kubeconfig, **more),
    ) as process:
        os.close(theirs)
        screen = b""
        while b"[y/N]" not in screen:
            screen += os.read(ours, 4096)
        os.write(ours, answer)
        with suppress(OSError):  # the other end is closed
            while content := os.read(ours, 4096):
                screen += content
        status = process.wait(SECONDS)
    os.close(ours)
    return status, screen.decode().replace("\r\n", "\n")


def on_terminal(kubeconfig: Path, **more: str) -> str:
    """What ``vqueues`` shows on a terminal."""
    ours, theirs = pty.openpty()
    done = run_process(
        [sys.executable, "-c", script("vqueues")], stdout=theirs, check=True, env=environment(kubeconfig, **more)
    )
    os.close(theirs)
    screen = os.read(ours, 65536).decode()
    os.close(ours)
    return screen if done.returncode == 0 else ""


def test_color_only_on_terminals(kubeconfig: Path) -> None:
    assert on_terminal(kubeconfig).startswith("\x1b[1mName\x1b[0m   ")
    assert on_terminal(kubeconfig, NO_COLOR="1").startswith("Name   ")
    assert "\x1b" not in program("vqueues", KUBECONFIG=str(kubeconfig)).stdout


def test_delete_asks_on_a_terminal(kubeconfig: Path, call: Caller) -> None:
    call.said("vcctl queue create asked")
    for answer in (b"n\n", b"\n", b"\x04"):
        status, screen = asked(kubeconfig, answer)
        assert status == 1 and "nothing was deleted" in screen
        assert screen.startswith("will be deleted:\n  queue asked\ndelete it? [y/N]: ")
    status, screen = asked(kubeconfig, b"y\n")
    assert (status, screen) == (0, f"will be deleted:\n  queue asked\ndelete it? [y/N]: y\n{PREFIX}/asked deleted\n")
    assert call("vcctl queue get asked").status == 1


# ---- completing ----------------------------------------------------------------------------------------------------


def completed(kubeconfig: Path, line: str, **more: str) -> list[str]:
    """What a shell would offer for the last word of a line."""
    words = line.split(" ")
    name = words[0]
    variables = {f"_{name.upper()}_COMPLETE": "bash_complete", "COMP_WORDS": line, "COMP_CWORD": str(len(words) - 1)}
    run = pumice_command if name == "pumice" else lambda **more: program(name, **more)
    done = run(KUBECONFIG=str(kubeconfig), **variables, **more)
    assert done.stderr == ""
    return [text.partition(",")[2] for text in done.stdout.split()]


@pytest.mark.parametrize(
    ("line", "offered"),
    [
        ("vqueues compl", ["complete-a", "complete-b"]),
        ("vqueues --name compl", ["complete-a", "complete-b"]),
        ("vcctl queue get complete-a compl", ["complete-b"]),
        ("pumice queue delete compl", ["complete-a", "complete-b"]),
        ("vsub x -q compl", ["complete-a", "complete-b"]),
        ("vcancel complete", ["complete-job"]),
        ("vcctl -n kube-system job view complete", []),
        ("vsuspend -n default complete", ["complete-job"]),
        ("vjobs -n kube-s", ["kube-system"]),
        ("vjobs --context pum", ["pumice"]),
        ("vjobs -o ", ["table", "wide", "json", "yaml", "name"]),
        ("vcctl queue op", ["operate"]),
    ],
)
def test_existing_names_are_completed(kubeconfig: Path, call: Caller, line: str, offered: list[str]) -> None:
    if call("vcctl queue get complete-a").status:
        for name in ("complete-a", "complete-b"):
            call.said(f"vcctl queue create {name}")
        call.said("vsub complete-job -q complete-a")
    assert completed(kubeconfig, line) == offered


def test_completion_without_cluster_is_silent_and_empty(kubeconfig: Path, tmp_path: Path) -> None:
    silent = tmp_path / "silent"
    silent.write_text(re.sub(r"127\.0\.0\.1:\d+", "127.0.0.1:1", kubeconfig.read_text()))
    assert completed(silent, "vqueues d") == []
    assert completed(tmp_path / "none", "vqueues d") == []
    assert completed(tmp_path / "none", "vqueues --context d") == []


def test_the_script_for_bash_works_in_bash(kubeconfig: Path, tmp_path: Path) -> None:
    for name in ("vqueues", "pumice"):
        what = script(name) if name != "pumice" else "from pumice.cli.main import main; main()"
        (tmp_path / name).write_text(f"#!{sys.executable}\n{what}\n")
        (tmp_path / name).chmod(0o755)
    (tmp_path / "script").write_text(pumice_command("completion", "bash").stdout)
    lines = f"""
        source {tmp_path / "script"}
        COMP_WORDS=(vqueues def) COMP_CWORD=1
        _vqueues_completion vqueues def vqueues && echo "${{COMPREPLY[@]}}"
        complete -p pumice vcctl vqueues vjobs vsub vcancel vsuspend vresume | wc -l
    """
    path = f"{tmp_path}{os.pathsep}{os.environ['PATH']}"
    done = run_process(
        ["bash", "-c", lines], capture_output=True, text=True, check=True, env=environment(kubeconfig, PATH=path)
    )
    assert (done.stdout.split(), done.stderr) == (["default", "8"], "")


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_the_scripts_for_other_shells(shell: str, tmp_path: Path) -> None:
    done = pumice_command("completion", shell)
    assert (done.returncode, done.stderr) == (0, "")
    for name in ("pumice", *volcano_programs.PROGRAMS):
        assert f"_{name.upper()}_COMPLETE={shell}_complete" in done.stdout
    if found := shutil.which(shell):
        (tmp_path / "script").write_text(done.stdout)
        run_process([found, "-n", str(tmp_path / "script")], check=True)
