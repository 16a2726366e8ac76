"""The real commands with a kubeconfig like those of managed clusters: a command supplies the token."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from kubebase.timestamps import stamp
from tests.cli.command import SOURCES, program, pumice_command, script
from tests.support.bare_cluster import bare_cluster
from tests.support.exec_stub import ExecStub
from tests.support.guarded_server import Guard
from tests.support.processes import run_process
from tests.support.shell_pages import need_kubectl

LONG_AGO = stamp(1_000_000)


class Managed:
    """A cluster that lets in who has the token of today."""

    def __init__(self, folder: Path, kubeconfig: Path, guard: Guard) -> None:
        self.stub, self.guard = ExecStub(folder / "plugin"), guard
        self.kubeconfig = folder / "managed"
        self._given = yaml.safe_load(kubeconfig.read_text())
        self.write()

    def write(self, **entry: object) -> None:
        (user,) = self._given["users"]
        user["user"] = self.stub.user(**entry)
        self.kubeconfig.write_text(yaml.safe_dump(self._given))


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, Guard]]:
    guard = Guard("admin")
    with guard.everywhere(), bare_cluster(tmp_path_factory.mktemp("cluster"), token="admin") as (_, kubeconfig):
        yield kubeconfig, guard


@pytest.fixture
def managed(cluster: tuple[Path, Guard], tmp_path: Path) -> Managed:
    kubeconfig, guard = cluster
    guard.good, guard.refused = {"today"}, 0
    return Managed(tmp_path, kubeconfig, guard)


def test_a_command_supplies_the_token(managed: Managed) -> None:
    managed.stub.answers(token="today", expirationTimestamp="2999-01-01T00:00:00Z")
    for name, *arguments in (["vqueues"], ["vjobs", "-A"], ["vcctl", "queue", "list"]):
        done = program(name, "--kubeconfig", managed.kubeconfig, *arguments)
        assert done.returncode == 0, done.stderr
    assert "root" in done.stdout
    assert len(managed.stub.runs) == 3 and not managed.guard.refused


def test_exec_plugin_gets_the_input_of_kubectl(managed: Managed) -> None:
    need_kubectl()
    managed.write(provideClusterInfo=True, args=["a b"], env=[{"name": "STUB_VARIABLE", "value": "v"}])
    managed.stub.answers(token="today")
    done = program("vqueues", "--kubeconfig", managed.kubeconfig)
    assert done.returncode == 0, done.stderr
    kubectl = ["kubectl", "--kubeconfig", str(managed.kubeconfig), "get", "--raw", "/api/v1/nodes"]
    done = run_process(kubectl, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr
    ours, theirs = managed.stub.runs
    theirs["info"]["spec"]["cluster"].pop("config", None)  # they write null for none
    assert ours == theirs


def test_a_token_that_has_expired_is_obtained_anew_for_the_next_request(managed: Managed) -> None:
    managed.stub.answers(token="today", expirationTimestamp=LONG_AGO)
    done = program("vcctl", "--kubeconfig", managed.kubeconfig, "queue", "create", "-n", "late")
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    before = len(managed.stub.runs)
    done = pumice_command("queue", "list", "--kubeconfig", managed.kubeconfig)
    assert done.returncode == 0 and "late" in done.stdout and len(managed.stub.runs) > before


def test_rejected_token_is_renewed_once(managed: Managed) -> None:
    managed.stub.answers(token="yesterday")
    done = program("vqueues", "--kubeconfig", managed.kubeconfig)
    assert done.returncode == 1 and done.stderr.startswith("error: Unauthorized: the server rejected the credentials")
    assert len(managed.stub.runs) == 2 and managed.guard.refused == 1  # the same token again is not sent again


def test_errors_name_user_command_and_output(managed: Managed) -> None:
    managed.stub.answers(code=255, stderr="The SSO session has expired\n")
    field = f"{managed.kubeconfig}: users[pumice].user.exec"
    done = program("vqueues", "--kubeconfig", managed.kubeconfig)
    assert (done.returncode, done.stderr) == (
        1,
        f"error: getting credentials: {field}: credential plugin {managed.stub.command} failed with exit code 255\n"
        "The SSO session has expired\n",
    )
    managed.write(command="no-such-plugin", installHint="Install it from https://example.com\n")
    for arguments in (["queue", "list"], ["sim", "node", "cordon", "n"], ["uninstall"], ["top", "--once"]):
        done = pumice_command(*arguments, "--kubeconfig", managed.kubeconfig)
        assert done.returncode == 1
        assert (
            f"{field}: credential plugin no-such-plugin executable not found\nInstall it from https://example.com"
            in done.stderr
        )


def at_terminal(
    name: str, *arguments: object, typed: bytes = b"", **environment: str
) -> subprocess.CompletedProcess[str]:
    """Run one of our programs with a terminal as its standard input, at which somebody types."""
    ours, theirs = os.openpty()
    try:
        os.write(ours, typed)
        return run_process(
            [sys.executable, "-c", script(name), *map(str, arguments)],
            stdin=theirs,
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
            env={**os.environ, "PYTHONPATH": str(SOURCES), **environment},
        )
    finally:
        os.close(theirs)
        os.close(ours)


@pytest.mark.parametrize("mode", ["IfAvailable", "Always"])
def test_at_a_terminal_the_command_may_ask(mode: str, managed: Managed) -> None:
    managed.write(interactiveMode=mode)
    managed.stub.answers(token="today", stderr="who are you?")
    done = at_terminal("vqueues", "--kubeconfig", managed.kubeconfig, typed=b"me\n\x04")
    assert (done.returncode, done.stderr) == (0, "who are you?"), done.stderr
    (run,) = managed.stub.runs
    assert run["stdin"] == "me\n" and run["info"]["spec"] == {"interactive": True}


def test_a_command_that_does_not_want_it_does_not_get_the_terminal(managed: Managed) -> None:
    managed.stub.answers(token="today", stderr="a warning")
    done = at_terminal("vqueues", "--kubeconfig", managed.kubeconfig)
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    assert managed.stub.runs[0]["info"]["spec"] == {"interactive": False}


def test_completion_leaves_the_terminal_alone(managed: Managed) -> None:
    managed.write(interactiveMode="IfAvailable")
    managed.stub.answers(token="today")
    words = f"vcctl --kubeconfig {managed.kubeconfig} queue get "
    done = at_terminal("vcctl", COMP_WORDS=words, COMP_CWORD="5", _VCCTL_COMPLETE="bash_complete")
    assert "root" in done.stdout
    (run,) = managed.stub.runs
    assert run["info"]["spec"] == {"interactive": False}
