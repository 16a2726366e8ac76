"""The compiled shim: which pods are its own, and that it writes what the shim in Python writes."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pumice.agent import shim_start
from pumice.agent.shim_start import NOT_PLAIN, ForkServerProcess, server_commands
from tests.support.shims import SECONDS, ShimmedPod, container, shimmed_pod

PROBE = {"command": ["true"], "delay": 0.0, "period": 1.0, "timeout": 1.0, "successes": 1, "failures": 1}
MOUNT = {"source": "/tmp", "target": "/tmp", "read_only": False, "own": False, "sub_path": "", "host_type": ""}
IDENTITY = {"name": "n", "uid": 1, "gid": 1, "groups": [1], "home": "/", "shell": "/bin/sh"}

LINES = """
import os, sys
os.write(1, b"a" * 16384 + b"\\n" + b"b" * 40000 + b"\\n" + b"\\xff\\x00\\n\\n")
os.write(2, b"c" * 16383)
os.write(2, b"d" * 20000)
"""
SHOW = """
import os, sys
print(ascii(sorted(os.environb.items())), ascii(sys.argv), os.getcwd(), sorted(os.listdir("/proc/self/fd")))
"""


def main_container(*command: str, **more: Any) -> Callable[[Path], list[Any]]:
    return lambda folder: [container("main", *command, **more)]


PODS: dict[str, Callable[[Path], list[Any]]] = {
    "exit codes": lambda folder: [container(f"c{code}", "sh", "-c", f"exit {code}") for code in (0, 1, 255)],
    "signal": main_container("sh", "-c", "kill -SEGV $$"),
    "long lines": main_container(sys.executable, "-c", LINES),
    "strings": main_container(
        *(sys.executable, "-c", SHOW, "", "a b", 'quoted "x" \\ \n\t\x01', "é€\U0001f600", os.fsdecode(b"\xff\xfe")),
        environment={"E": "é", "B": os.fsdecode(b"\x80"), "N": "a=b\n", "EMPTY": ""},
        folder="/usr",
    ),
    "no such program": main_container("no-such-program-ä"),
    "no such path": main_container("/no/such/program"),
    "no such folder": main_container("true", folder="/no/such/folder"),
    "not executable": main_container("/etc/passwd"),
    "not executable in the path": lambda folder: [
        container("main", "passwd", environment={"PATH": "/nowhere:/etc:/etc/passwd"})
    ],
    "no program but a folder": main_container("/usr"),
    "no cgroup": main_container("true", joined=["/no/such/cgroup/tasks"]),
    "a limit of memory": main_container("sh", "-c", "ulimit -d", data_limit=123 << 20),
}


@pytest.fixture(autouse=True)
def with_native(native_shim: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shim_start, "NATIVE", native_shim)


def outcome(pod: ShimmedPod) -> tuple[Any, dict[str, list[tuple[str, str]]]]:
    """Records and logs, without what differs from run to run."""
    record = pod.wait_finished()
    assert record["started"] > 1e9
    logs = {each["name"]: sorted(pod.log(each["name"])) for each in record["containers"]}
    for each in record["containers"]:
        run = each["run"]
        assert run is not None and run["finished"] >= run["started"] >= record["started"]
        run["pid"] = run["start_ticks"] = 0
        run["started"] = run["finished"] = 0.0
    record["started"] = 0.0
    return record, logs


@pytest.mark.parametrize("name", PODS)
def test_both_shims_write_the_same(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = []
    for kind in ("native", "python"):
        (tmp_path / kind).mkdir()
        with shimmed_pod(tmp_path / kind / "pod", *PODS[name](tmp_path)) as pod:
            found.append(outcome(pod))
        monkeypatch.setattr(shim_start, "NATIVE", tmp_path / "none")
    assert found[0] == found[1]


@pytest.mark.parametrize(
    ("containers", "more", "plain"),
    [
        ([{}], {}, True),
        ([{}, {"identity": None, "output": ""}], {"deadline": 5.0}, True),
        ([{}], {"restart_policy": "OnFailure"}, False),
        ([{"init": True}, {}], {}, False),
        ([{"probes": {"readinessProbe": PROBE}}], {}, False),
        ([{"mounts": [MOUNT]}], {}, False),
        ([{"output": "output.log"}], {}, False),
        ([{}, {"identity": IDENTITY}], {}, False),
    ],
)
def test_only_plain_pods_are_its_own(
    containers: list[dict[str, Any]], more: dict[str, Any], plain: bool, tmp_path: Path
) -> None:
    each = [container(f"c{number}", "true", **special) for number, special in enumerate(containers)]
    pod = ShimmedPod(tmp_path / "pod", *each, **more)
    server = ForkServerProcess(server_commands()[0])
    try:
        server.channel.settimeout(SECONDS)
        server.channel.send(os.fsencode(pod.folder))
        assert server.channel.recv(4096) == (b"+" if plain else NOT_PLAIN) + os.fsencode(pod.folder)
        if plain:
            assert pod.wait_finished()["phase"] == "Succeeded"
        else:
            assert not (pod.folder / "shim.json").exists()
    finally:
        server.close()
        pod.end()


@pytest.mark.parametrize("torn", ["", "{", '{"uid":"x', '{"uid":"x"', '{"a":tru}', '["\\ud8', '{"a":1}}', "[1,2"])
def test_half_a_plan_is_an_error(torn: str, tmp_path: Path) -> None:
    (tmp_path / "plan.json").write_text(torn)
    server = ForkServerProcess(server_commands()[0])
    try:
        server.channel.settimeout(SECONDS)
        server.channel.send(os.fsencode(tmp_path))
        assert server.channel.recv(4096) == b"-" + os.fsencode(tmp_path)
    finally:
        server.close()
