"""Pumice and two other schedulers on the same workloads, on the same machine, in the same run.

A peer is a Go program in peers/ that feeds a workload to the peer's own scheduling loop, taken unmodified
from the Go module registry, and prints one JSON line. Programs are built once per version of their sources,
into the user's cache. Every system gets one run of every workload before any gets its second, so that a
noisy neighbour disturbs all of them alike. What is compared is the median rate, from everything pending to
everything placed. A peer that reaches a limit is stopped and marked; its rate is that of the placements it
made until then, without the time its cycle took to open.
"""

import hashlib
import os
import platform
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import click
import msgspec
import yaml

HERE = Path(__file__).parent
WORKLOADS = ("A", "B", "C", "C-gang")  # workloads that fit completely, so that all systems reach the same result
GO_IS_MISSING = 3  # exit status
SETUP_SECONDS = 300  # more than any peer needs to take in a workload before its limit starts to count


class Peer(NamedTuple):
    """A scheduler to compare with."""

    name: str
    folder: str
    gangs: bool  # whether its scheduling loop can place a job's tasks all or none


PEERS = (Peer("YuniKorn", "yunikorn", gangs=False), Peer("Volcano", "volcano", gangs=True))


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
    peak_rss_mib: float
    check: Check
    partial: bool = False
    reason: str = ""


class PumiceReport(msgspec.Struct):
    """The part of the output of `python -m benchmarks.run --json -` that is read here."""

    placements: int
    seconds: list[float]
    peak_rss_mib: float


class Summary(msgspec.Struct):
    """The runs of one system on one workload."""

    workload: str
    system: str
    version: str
    runs: int
    median: float  # placements per second, as are the two below
    min: float
    max: float
    peak_rss_mib: float
    partial: bool
    reason: str
    pumice_is_faster_by: float | None  # None without a run of Pumice, or if no task was placed


def build(peer: Peer, go: str) -> Path:
    """The peer's program, built unless the cache has it for these sources and this compiler."""
    compiler = subprocess.run([go, "version"], capture_output=True, check=True).stdout
    digest = hashlib.sha256(compiler)
    for folder in (HERE / "peers" / "trial", HERE / "peers" / peer.folder):
        for source in sorted(folder.iterdir()):
            digest.update(source.name.encode() + b"\0" + source.read_bytes() + b"\0")
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "pumice" / "peers"
    program = cache / f"{peer.folder}-{digest.hexdigest()[:16]}"
    if program.exists():
        return program
    progress(f"building {peer.name}: minutes the first time, its modules are downloaded and compiled")
    cache.mkdir(parents=True, exist_ok=True)
    unfinished = program.with_suffix(f".{os.getpid()}")
    command = [go, "build", "-buildvcs=false", "-o", str(unfinished), "."]
    started = time.monotonic()
    done = subprocess.run(command, cwd=HERE / "peers" / peer.folder, capture_output=True, text=True, check=False)
    if done.returncode:
        raise click.ClickException(f"{peer.name} could not be built:\n{tail(done.stderr)}")
    unfinished.rename(program)
    progress(f"built {peer.name} in {time.monotonic() - started:.0f} s")
    return program


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


def run_pumice(workload: dict[str, Any]) -> Trial:
    """One run of Pumice, by its own runner."""
    name = workload["name"]
    command = [sys.executable, "-m", "benchmarks.run", "--workload", name, "--runs", "1", "--json", "-"]
    done = subprocess.run(command, cwd=HERE.parent, capture_output=True, text=True, check=False)
    if done.returncode:
        raise click.ClickException(f"Pumice on {name} failed (--only-peers runs without it):\n{tail(done.stderr)}")
    report = msgspec.json.decode(done.stdout, type=PumiceReport)
    seconds = report.seconds[0]
    missing = workload["jobs"] * workload["tasksPerJob"] - report.placements
    return Trial(
        peer="Pumice",
        version="",
        workload=name,
        placements=report.placements,
        seconds=seconds,
        placements_per_second=report.placements / seconds,
        peak_rss_mib=report.peak_rss_mib,
        check=Check(ok=missing == 0, missing=missing),
    )


def summarise(trials: list[Trial]) -> list[Summary]:
    """Medians and ranges by workload and system, in the order they first ran."""
    groups: dict[tuple[str, str], list[Trial]] = {}
    for trial in trials:
        groups.setdefault((trial.workload, trial.peer), []).append(trial)
    medians = {key: statistics.median(t.placements_per_second for t in group) for key, group in groups.items()}
    summaries = []
    for (workload, system), group in groups.items():
        rates = [trial.placements_per_second for trial in group]
        median, pumice = medians[workload, system], medians.get((workload, "Pumice"))
        summaries.append(
            Summary(
                workload=workload,
                system=system,
                version=group[0].version,
                runs=len(group),
                median=median,
                min=min(rates),
                max=max(rates),
                peak_rss_mib=max(trial.peak_rss_mib for trial in group),
                partial=any(trial.partial for trial in group),
                reason=next((trial.reason for trial in group if trial.partial), ""),
                pumice_is_faster_by=pumice / median if pumice and median else None,
            )
        )
    return summaries


def table(summaries: list[Summary]) -> str:
    """A Markdown table: a row per workload; per system the median (range), and Pumice's multiple of it."""
    versions = {summary.system: summary.version for summary in summaries}
    by_place = {(summary.workload, summary.system): summary for summary in summaries}
    systems = [name for name in ("Pumice", *(peer.name for peer in PEERS)) if name in versions]
    workloads = dict.fromkeys(summary.workload for summary in summaries)
    rows = [
        ["placements/s", *(f"{name} {versions[name]}".rstrip() for name in systems)],
        *([workload, *(cell(by_place.get((workload, name))) for name in systems)] for workload in workloads),
    ]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    rows.insert(1, ["-" * width for width in widths])
    lines = ["| " + " | ".join(text.ljust(w) for text, w in zip(row, widths, strict=True)) + " |" for row in rows]
    notes = dict.fromkeys(f"* {s.system}: {s.reason}" for s in summaries if s.partial)
    return "\n".join([*lines, "", "Median (range); the multiple is Pumice's median over the peer's.", *notes])


def cell(summary: Summary | None) -> str:
    """For example `4,284 (4,101-4,333), 7.5x`, with a star when a limit stopped the runs."""
    if summary is None:
        return "-"
    star = "*" if summary.partial else ""
    text = f"{summary.median:,.0f}{star} ({summary.min:,.0f}-{summary.max:,.0f})"
    if summary.system == "Pumice" or summary.pumice_is_faster_by is None:
        return text
    return f"{text}, {summary.pumice_is_faster_by:,.1f}x"


def progress(message: str) -> None:
    """A line on standard error, so that the table can be redirected."""
    click.echo(message, err=True)


def tail(text: str) -> str:
    """The last lines of an output, which usually contain the reason."""
    return "\n".join(text.strip().splitlines()[-15:])


def read_workload(name: str) -> dict[str, Any]:
    """A file of workloads/."""
    workload: dict[str, Any] = yaml.safe_load((HERE / "workloads" / f"{name}.yaml").read_text())
    return workload


def one_round(
    workload: dict[str, Any], programs: dict[Peer, Path], limit: float, memory: int, only_peers: bool
) -> Iterator[Trial]:
    """One run of every system that supports the workload. Pumice runs first: if it fails, no time is lost."""
    if not only_peers:
        yield run_pumice(workload)
    for peer, program in programs.items():
        if workload["minMember"] == 1 or peer.gangs:
            yield run_peer(peer, program, workload, limit, memory)


def describe(trial: Trial) -> str:
    """A line of progress."""
    rate, memory = f"{trial.placements_per_second:,.0f}/s", f"{trial.peak_rss_mib:,.0f} MiB"
    return f"{trial.workload:8} {trial.peer:9} {rate:>10} {memory:>10}  {trial.reason}".rstrip()


@click.command(help=str(__doc__).partition("\n")[0])
@click.option("--workload", "names", multiple=True, type=click.Choice(WORKLOADS), help="Only these.")
@click.option("--runs", default=3, show_default=True, type=click.IntRange(1), help="Rounds over all systems.")
@click.option("--limit", default=60.0, show_default=True, help="Stop a peer after this many seconds.")
@click.option("--memory", default=8000, show_default=True, help="Stop a peer above this many MiB.")
@click.option("--only-peers", is_flag=True, help="Leave Pumice out.")
@click.option("--output", type=click.Path(path_type=Path), default=HERE / "results" / "peers.json")
def main(names: tuple[str, ...], runs: int, limit: float, memory: int, only_peers: bool, output: Path) -> None:
    """Build, run, compare."""
    go = shutil.which("go")
    if go is None:
        progress("Go is missing: the peers can't be built")
        sys.exit(GO_IS_MISSING)
    workloads = [read_workload(name) for name in dict.fromkeys(names or WORKLOADS)]
    programs = {peer: build(peer, go) for peer in PEERS}

    load, cores = os.getloadavg()[0], os.cpu_count() or 1
    if load > cores / 2:
        progress(f"the load is {load:.1f} on {cores} cores: these figures will not be worth publishing")
    trials: list[Trial] = []
    for _ in range(runs):
        for workload in workloads:
            for trial in one_round(workload, programs, limit, memory, only_peers):
                progress(describe(trial))
                trials.append(trial)

    summaries = summarise(trials)
    output.parent.mkdir(parents=True, exist_ok=True)
    machine = {
        "processor": platform.machine(),
        "cores": cores,
        "load_before": load,
        "python": platform.python_version(),
    }
    document = {"machine": machine, "limit_seconds": limit, "summaries": summaries, "trials": trials}
    output.write_bytes(msgspec.json.format(msgspec.json.encode(document)) + b"\n")
    click.echo(table(summaries))
    if not all(trial.check.ok for trial in trials):
        raise click.ClickException(f'a run placed tasks wrongly: see "check" in {output}')


if __name__ == "__main__":
    main()
