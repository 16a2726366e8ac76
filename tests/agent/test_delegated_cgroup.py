"""Cgroups of version 2 for an ordinary user, in a scope that the user's systemd has delegated; here, root has."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from pumice.agent.cgroups import CONTROLLERS, LEAF
from tests.support.people import Account, accounts, need_root, open_folder, shell_as
from tests.support.processes import run_process

MOUNT = Path("/sys/fs/cgroup")
SOURCE = Path(__file__).parents[2] / "src"
PROGRAM = """
import os, sys
from pathlib import Path
from pumice.agent.cgroups import ContainerLimits, find_cgroups

def find():
    found = find_cgroups("test")
    print(found, Path("/proc/self/cgroup").read_text().strip().rpartition("/")[2])
    return found

made = find().create("uid", {"main": ContainerLimits(memory=64 << 20, cpu=500)})
join = "".join(f"open({path!r}, 'w').write('0');" for path in made.joined["main"])
hog = os.spawnv(os.P_WAIT, sys.executable, [sys.executable, "-c", f"{join} print(len(bytearray(500 << 20)))"])
print(hog, "oom_kill 0" not in Path(made.oom_counters["main"]).read_text().splitlines())
print((Path(made.folders[0]) / "cpu.max").read_text().strip())
find()  # again, from the cgroup in which it is now
for folder in made.folders:
    os.rmdir(folder)
"""


@pytest.fixture
def account() -> Iterator[Account]:
    need_root()
    with open_folder() as folder, accounts(folder, f"scoped{os.getpid() % 100_000}") as (made,):
        shutil.copytree(SOURCE, folder / "src", ignore=shutil.ignore_patterns("__pycache__"))
        yield made


@pytest.fixture
def scope(account: Account) -> Iterator[Path]:
    """A cgroup that is the user's, as systemd makes it."""
    try:
        offered = set((MOUNT / "cgroup.subtree_control").read_text().split())
    except OSError:
        offered = set()
    if not offered >= set(CONTROLLERS):
        pytest.skip("needs cgroups of version 2")
    folder = MOUNT / f"pumice-scope-{os.getpid()}"
    folder.mkdir()
    try:
        for name in ("", "cgroup.procs", "cgroup.subtree_control", "cgroup.threads"):
            os.chown(folder / name, account.uid, account.gid)
        yield folder
    finally:
        for inner in (*folder.glob("*/"), folder):
            with suppress(OSError):
                inner.rmdir()


@pytest.mark.parametrize("delegated", [True, False])
def test_limits_hold_in_a_delegated_cgroup(account: Account, scope: Path, delegated: bool) -> None:
    """Its own processes make way; without the mark of systemd nothing is moved, and there are no cgroups."""
    if delegated:
        os.setxattr(scope, "user.delegate", b"1")
    (account.home / "program.py").write_text(PROGRAM)
    variables = {"PATH": os.environ["PATH"], "PYTHONPATH": str(account.home.parent / "src")}
    inner = shell_as(account, f"exec {sys.executable} {account.home}/program.py", variables)
    command = ["sh", "-c", f'echo $$ > {scope}/cgroup.procs; exec "$@"', "sh", *inner]
    said = run_process(command, text=True, capture_output=True)
    lines = said.stdout.splitlines()
    if not delegated:
        assert lines == [f"None {scope.name}"], said
        return
    assert lines == [
        f"cgroups (version 2: memory, cpu, pids) {LEAF}",
        "-9 True",
        "50000 100000",
        f"cgroups (version 2: memory, cpu, pids) {LEAF}",
    ], said
