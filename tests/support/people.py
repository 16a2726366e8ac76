"""Accounts of this machine for the time of a test, and what their owners try: in processes that are really theirs."""

from __future__ import annotations

import os
import pickle
import pwd
import shlex
import shutil
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeVar

import pytest

from pumice.kube.client.api_errors import ApiError
from pumice.kube.client.kubeconfig import Access, read_kubeconfig
from pumice.kube.client.sync_client import Client
from pumice.kube.resources import JOBS, NODES, PODS
from tests.support.agents import end_processes_in
from tests.support.killable import Program
from tests.support.processes import in_child, run_process

T = TypeVar("T")
SECONDS = 120.0
Object = dict[str, Any]


def need_root() -> None:
    """Skip a test that cannot have users of its own."""
    if os.geteuid() != 0:
        pytest.skip("only root may make accounts and become other users")
    if not shutil.which("useradd") or not shutil.which("userdel"):
        pytest.skip("useradd and userdel are not installed")


@contextmanager
def open_folder() -> Iterator[Path]:
    """A folder that other users may enter; those of pytest are closed by every run of pytest that begins."""
    with TemporaryDirectory(prefix="pumice-people-", ignore_cleanup_errors=True) as made:
        folder = Path(made)
        folder.chmod(0o755)
        yield folder


@dataclass(frozen=True, slots=True)
class Account:
    """An account that exists for the time of a test."""

    name: str
    uid: int
    gid: int
    home: Path

    def does(self, action: Callable[[], T]) -> T:
        """Do something in a process of this user; its result, or its exception."""

        def act() -> bytes:
            answer: tuple[bool, Any]
            try:
                os.initgroups(self.name, self.gid)
                os.setresgid(self.gid, self.gid, self.gid)
                os.setresuid(self.uid, self.uid, self.uid)
                os.chdir("/")
                answer = (True, action())
            except Exception as error:
                answer = (False, _portable(error))
            return pickle.dumps(answer)

        good, result = pickle.loads(in_child(act))
        if good:
            return result  # type: ignore[no-any-return]  # it came through a pipe
        raise _rebuilt(*result)


class ElsewhereError(Exception):
    """An exception of another process."""


def _portable(error: Exception) -> tuple[str, Any]:
    if isinstance(error, ApiError):
        return "api", (error.code, error.reason, error.message)
    if isinstance(error, OSError):
        return "os", (error.errno, error.strerror)
    return "other", (f"{type(error).__name__}: {error}",)


def _rebuilt(kind: str, values: tuple[Any, ...]) -> Exception:
    kinds: dict[str, Callable[..., Exception]] = {"api": ApiError, "os": OSError, "other": ElsewhereError}
    return kinds[kind](*values)


@contextmanager
def accounts(folder: Path, *names: str, group: str = "") -> Iterator[list[Account]]:
    """Accounts with homes in a folder; the last is a member of the group."""
    made: list[Account] = []
    try:
        if group:
            assert run_process(["groupadd", group]).returncode == 0
        for name in names:
            more = ["-G", group] if group and name == names[-1] else []
            home = folder / name
            assert run_process(["useradd", "-M", "-d", str(home), "-s", "/bin/sh", *more, name]).returncode == 0
            entry = pwd.getpwnam(name)
            home.mkdir(mode=0o700)
            os.chown(home, entry.pw_uid, entry.pw_gid)
            made.append(Account(name, entry.pw_uid, entry.pw_gid, home))
        yield made
    finally:
        for account in made:
            run_process(["userdel", account.name])
        if group:
            run_process(["groupdel", group])


class SharedMachine:
    """``pumice up --here --shared`` as processes, and clients of its users."""

    def __init__(self, folder: Path, admins: str, *more: str) -> None:
        self.data, self.socket = folder / "data", folder / "run" / "api.sock"
        options = ["--here", "--shared", "--admins", admins, "--here-capacity", "cpu=8,memory=4Gi"]
        options += ["--port", "0", "--data", str(self.data), "--socket", str(self.socket), *more]
        self._up = Program(folder, "up", *options)
        self._up.start()
        self.until((self.data / "kubeconfig").exists)
        self.root = Client(read_kubeconfig(self.data / "kubeconfig"))
        self.until(self._is_ready)

    def _is_ready(self) -> bool:
        nodes = self.root.list(NODES.path()).items
        conditions = [entry for node in nodes for entry in (node.get("status") or {}).get("conditions") or ()]
        return any(entry["type"] == "Ready" and entry["status"] == "True" for entry in conditions)

    def until(self, holds: Callable[[], T]) -> T:
        """Wait until something holds; what it was."""
        end = time.monotonic() + SECONDS
        while True:
            if found := holds():
                return found
            assert time.monotonic() < end, self._up.said()
            time.sleep(0.05)

    def as_user(self, account: Account, action: Callable[[Client], T]) -> T:
        """What a user gets over the socket."""

        def act() -> T:
            client = Client(Access(f"unix://{self.socket}", namespace=account.name))
            try:
                return action(client)
            finally:
                client.close()

        return account.does(act)

    def refused(self, account: Account, action: Callable[[Client], object], *words: str) -> str:
        """Check that the API refuses something to a user, with these words in its message."""
        with pytest.raises(ApiError) as caught:
            self.as_user(account, action)
        assert caught.value.code == 403, caught.value.message
        for word in words:
            assert word in caught.value.message, caught.value.message
        return str(caught.value.message)

    def pod(self, account: Account, name: str) -> Object:
        """A pod as it is now; empty if there is none."""
        with suppress(ApiError):
            return self.root.get(PODS.path(account.name, name))
        return {}

    def run_pod(self, account: Account, name: str, script: str, *, spec: Object | None = None, **more: Any) -> Object:
        """Let a user run a pod to its end; its status."""
        pod = pod_of(name, script, spec=spec, **more)
        self.as_user(account, lambda client: client.create(PODS.path(account.name), pod))
        return self.ended(account, name)

    def ended(self, account: Account, name: str) -> Object:
        """Wait for the end of a pod; its status."""

        def status() -> Object:
            found: Object = self.pod(account, name).get("status") or {}
            return found if found.get("phase") in {"Succeeded", "Failed"} else {}

        return self.until(status)

    def log(self, account: Account, name: str, *, of: Account | None = None) -> str:
        """The log of a pod as a user reads it."""
        path = PODS.path((of or account).name, name, "log")
        return self.as_user(account, lambda client: b"".join(client.text_lines(path, {})).decode())

    def output(self, account: Account, name: str, script: str, **more: Any) -> str:
        """What a pod of a user writes."""
        status = self.run_pod(account, name, script, **more)
        assert status.get("containerStatuses"), status
        return self.log(account, name)

    def end(self) -> None:
        """Stop it, and whatever its pods have left."""
        self.root.close()
        self._up.end(signal.SIGTERM)
        end_processes_in(self.data / "agent")


def pod_of(name: str, script: str, *, spec: Object | None = None, **more: Any) -> Object:
    """A pod for the scheduler that runs a shell script."""
    main = {
        "name": "main",
        "image": "host",
        "command": ["/bin/sh", "-c", script],
        "resources": {"requests": {"cpu": "100m", "memory": "16Mi"}},
        **more,
    }
    whole = {"schedulerName": "pumice", "restartPolicy": "Never", "containers": [main], **(spec or {})}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": whole}


def job_of(name: str, script: str, *, queue: str = "default", annotations: Object | None = None) -> Object:
    """A Volcano Job of one pod."""
    pod = pod_of(name, script)["spec"]
    return {
        "apiVersion": JOBS.api_version,
        "kind": "Job",
        "metadata": {"name": name},
        "spec": {
            "queue": queue,
            "minAvailable": 1,
            "tasks": [
                {
                    "name": "main",
                    "replicas": 1,
                    "template": {"metadata": {"annotations": annotations or {}}, "spec": pod},
                }
            ],
        },
    }


def shell_as(account: Account, command: str, environment: dict[str, str]) -> list[str]:
    """The command line of a shell that is really a user's, in its home, and finds the interpreter of these tests.

    The interpreter may be in the home of root, which others may not enter: the shell sees that part of it alone.
    """
    steps = []
    for folder, needed in _closed_folders().items():
        kept = {path: f"$spare/{number}" for number, path in enumerate(sorted(needed))}
        steps += ["spare=$(mktemp -d)", "mount -t tmpfs none $spare"]
        steps += [f"mkdir {copy} && mount --bind {path} {copy}" for path, copy in kept.items()]
        steps.append(f"mount -t tmpfs -o mode=755 none {folder}")
        steps += [f"mkdir -p {path} && mount --bind {copy} {path}" for path, copy in kept.items()]
    variables = " ".join(f"{name}={shlex.quote(value)}" for name, value in environment.items())
    become = f"setpriv --reuid {account.uid} --regid {account.gid} --init-groups env -i {variables}"
    steps.append(f"cd {shlex.quote(str(account.home))} && exec {become} bash -c {shlex.quote(command)}")
    return ["unshare", "-m", "--propagation", "private", "bash", "-ec", "\n".join(steps)]


def _closed_folders() -> dict[Path, set[Path]]:
    """Folders that others may not enter, and which of their entries they need here."""
    found: dict[Path, set[Path]] = {}
    for needed in (Path(sys.base_prefix), Path(sys.prefix), Path(__file__).parents[2]):
        way = [*reversed(needed.parents), needed]
        for folder, entry in pairwise(way):
            if not folder.stat().st_mode & 0o001:
                found.setdefault(folder, set()).add(entry)
                break
    return found
