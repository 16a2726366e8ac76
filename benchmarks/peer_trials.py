"""One run of one scheduler on one workload: Pumice in either form, or a peer's program, which is built if need be."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, NamedTuple

import click
import msgspec
import yaml

HERE = Path(__file__).parent
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "pumice"
COMPILED = HERE.parent / "build" / "compiled"
NO_TOOLCHAIN = 3  # exit status of tools/compile_engine.py
SETUP_SECONDS = 300  # more than any peer needs to take in a workload before its limit starts to count


class Peer(NamedTuple):
    """A scheduler to compare with."""

    name: str
    folder: str
    remark: str  # what its loop does and does not do; Pumice's has queues at every level, gangs and predicates
    gangs: bool = False  # whether its scheduling loop can place a job's tasks all or none
    picks_nodes: bool = True  # otherwise it admits jobs to quotas, and the tasks of an admitted job count as placed


PEERS = (
    Peer(
        "YuniKorn",
        "yunikorn",
        "its core alone: predicates are asked of the shim, and agree at once; gangs are pods of the shim",
    ),
    Peer(
        "Volcano",
        "volcano",
        "hierarchical DRF, predicates and node order; of many nodes it looks at a sample",
        gangs=True,
    ),
    Peer(
        "kube-scheduler",
        "kube-scheduler",
        "its default profile, which looks at a sample of many nodes; no queues: pods are served as they were created;"
        " gangs are behind feature gates",
        gangs=True,
    ),
    Peer(
        "KAI",
        "kai",
        "its default plugins and the action allocate; shares on two levels of queues; looks at every node",
        gangs=True,
    ),
    Peer(
        "Kueue",
        "kueue",
        "fair sharing in a tree of cohorts; admits whole jobs to quotas and leaves nodes to another scheduler",
        gangs=True,
        picks_nodes=False,
    ),
)
SHARED_FOLDERS = ("kubeobjects", "trial")  # of peers/: what the programs have in common


class Check(msgspec.Struct):
    """Violations in a run; all must be zero."""

    ok: bool
    missing: int = 0
    repeated: int = 0
    unknown: int = 0
    over_capacity: int = 0


class Trial(msgspec.Struct):
    """One measured run of one system on one workload: the line a peer's program prints."""

    peer: str
    version: str
    workload: str
    placements: int
    seconds: float
    placements_per_second: float
    cpu_seconds: float
    peak_rss_mib: float
    check: Check
    partial: bool = False
    reason: str = ""


class UnavailableError(Exception):
    """A system can't be measured here; the message says why."""


def progress(message: str) -> None:
    """A line on standard error, so that the table can be redirected."""
    click.echo(message, err=True)


def read_workload(name: str) -> dict[str, Any]:
    """A file of workloads/."""
    workload: dict[str, Any] = yaml.safe_load((HERE / "workloads" / f"{name}.yaml").read_text())
    return workload


def peer_program(peer: Peer, programs: Path | None) -> Path:
    """The peer's program: from a folder of programs built elsewhere, from the cache, or built now."""
    if programs is not None:
        if not (programs / peer.folder).exists():
            raise UnavailableError(f"{programs} has no program {peer.folder}")
        return programs / peer.folder
    go = shutil.which("go")
    if go is None:
        raise UnavailableError("Go is not installed")
    program = CACHE / "peers" / f"{peer.folder}-{build_key(peer, go)}"
    if not program.exists():
        build(peer, go, program)
    return program


def build_key(peer: Peer, go: str) -> str:
    """A hash of the compiler and of the sources."""
    digest = hashlib.sha256(subprocess.run([go, "version"], capture_output=True, check=True).stdout)
    for folder in (*SHARED_FOLDERS, peer.folder):
        for source in sorted((HERE / "peers" / folder).iterdir()):
            digest.update(source.name.encode() + b"\0" + source.read_bytes() + b"\0")
    return digest.hexdigest()[:16]


def build(peer: Peer, go: str, program: Path) -> None:
    """Build a static program, which also runs on a machine without Go."""
    progress(f"building {peer.name}: minutes the first time, its modules are downloaded and compiled")
    program.parent.mkdir(parents=True, exist_ok=True)
    unfinished = program.with_suffix(f".{os.getpid()}")
    command = [go, "build", "-buildvcs=false", "-trimpath", "-ldflags=-s -w", "-o", str(unfinished), "."]
    started = time.monotonic()
    done = subprocess.run(
        command,
        cwd=HERE / "peers" / peer.folder,
        env={**os.environ, "CGO_ENABLED": "0"},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise UnavailableError(f"it could not be built:\n{tail(done.stderr)}")
    unfinished.rename(program)
    progress(f"built {peer.name} in {time.monotonic() - started:.0f} s")


def run_peer(peer: Peer, program: Path, workload: dict[str, Any], limit: float, memory: int) -> Trial:
    """One run of a peer's program."""
    command = [str(program), f"-limit={limit}s", f"-memory={memory}"]
    document = msgspec.json.encode(workload)
    deadline = limit + SETUP_SECONDS
    try:
        done = subprocess.run(command, input=document, capture_output=True, timeout=deadline, check=False)
    except subprocess.TimeoutExpired:
        raise click.ClickException(f"{peer.name} on {workload['name']} hung: nothing after {deadline:.0f} s") from None
    if done.returncode:
        raise click.ClickException(f"{peer.name} on {workload['name']} failed:\n{tail(done.stderr.decode())}")
    return msgspec.json.decode(done.stdout.splitlines()[-1], type=Trial)


def compiled_sources() -> Path:
    """The sources with the compiled engine in them, made anew if the sources have changed."""
    environment = {"PUMICE_ENGINE_CACHE": str(CACHE / "compiled-engine"), **os.environ}
    command = [sys.executable, str(HERE.parent / "tools" / "compile_engine.py"), str(COMPILED)]
    COMPILED.parent.mkdir(exist_ok=True)
    progress("compiling the engine: minutes, unless it is in the cache")
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode == NO_TOOLCHAIN:
        raise UnavailableError(done.stderr.strip())
    if done.returncode:
        raise click.ClickException(tail(done.stderr))
    return COMPILED


def run_pumice(name: str, sources: Path, workload: dict[str, Any]) -> Trial:
    """One run of Pumice, by its own runner, in the form that its sources have."""
    command = [sys.executable, "-m", "benchmarks.run", "--once", workload["name"]]
    environment = {**os.environ, "PYTHONPATH": str(sources)}
    done = subprocess.run(command, cwd=HERE.parent, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise click.ClickException(
            f"{name} on {workload['name']} failed (--only-peers runs without it):\n{tail(done.stderr)}"
        )
    figures = msgspec.json.decode(done.stdout, type=dict[str, float])
    missing = workload["jobs"] * workload["tasksPerJob"] - int(figures["placements"])
    return Trial(
        peer=name,
        version="",
        workload=workload["name"],
        placements=int(figures["placements"]),
        seconds=figures["seconds"],
        placements_per_second=figures["placements_per_second"],
        cpu_seconds=figures["cpu_seconds"],
        peak_rss_mib=figures["peak_rss_mib"],
        check=Check(ok=missing == 0, missing=missing),
    )


def tail(text: str) -> str:
    """The last lines of an output, which usually contain the reason."""
    return "\n".join(text.strip().splitlines()[-15:])
