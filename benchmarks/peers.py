"""Pumice and other schedulers on the same workloads, on the same machine, in the same run.

A peer is a Go program in peers/ that feeds a workload to the peer's own scheduling loop, taken unmodified
from the Go module registry, and prints one JSON line. Programs are built once per version of their sources,
into the user's cache. Every system gets one run of every workload before any gets its second, so that a
noisy neighbour disturbs all of them alike. What is compared is the median rate, from everything pending to
everything placed. A peer that reaches a limit is stopped and marked; its rate is that of the placements it
made until then, without the time its cycle took to open.

Pumice runs in both forms, as pure Python and with its engine compiled (tools/compile_engine.py).
"""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import msgspec

from benchmarks.peer_report import COMPILED, PURE, summarise, table
from benchmarks.peer_trials import (
    HERE,
    PEERS,
    Peer,
    Trial,
    UnavailableError,
    compiled_sources,
    peer_program,
    progress,
    read_workload,
    run_peer,
    run_pumice,
)

# Workloads that fit completely, so that all systems reach the same result.
WORKLOADS = ("A", "B", "C", "C-gang", "SchedulingBasic")
NO_PEER = 3  # exit status
PEER_NAMES = [peer.folder for peer in PEERS]
EXISTING = click.Path(exists=True, file_okay=False, path_type=Path)


def one_round(
    workload: dict[str, Any], forms: dict[str, Path], programs: dict[Peer, Path], limit: float, memory: int
) -> Iterator[Trial]:
    """One run of every system that supports the workload. Pumice runs first: if it fails, no time is lost."""
    for form, sources in forms.items():
        yield run_pumice(form, sources, workload)
    for peer, program in programs.items():
        if workload["minMember"] == 1 or peer.gangs:
            yield run_peer(peer, program, workload, limit, memory)


def describe(trial: Trial) -> str:
    """A line of progress."""
    rate, cpu = f"{trial.placements_per_second:,.0f}/s", f"{trial.cpu_seconds:,.2f} s CPU"
    memory = f"{trial.peak_rss_mib:,.0f} MiB"
    return f"{trial.workload:8} {trial.peer:20} {rate:>10} {cpu:>14} {memory:>10}  {trial.reason}".rstrip()


@click.command(help=str(__doc__).partition("\n")[0])
@click.option("--workload", "names", multiple=True, type=click.Choice(WORKLOADS), help="Only these.")
@click.option("--peer", "folders", multiple=True, type=click.Choice(PEER_NAMES), help="Only these, beside Pumice.")
@click.option("--runs", default=3, show_default=True, type=click.IntRange(1), help="Rounds over all systems.")
@click.option("--limit", default=60.0, show_default=True, help="Stop a peer after this many seconds.")
@click.option("--memory", default=8000, show_default=True, help="Stop a peer above this many MiB.")
@click.option("--only-peers", is_flag=True, help="Leave Pumice out.")
@click.option("--programs", type=EXISTING, help="Peers that were built elsewhere, named as the folders of peers/.")
@click.option("--compiled", type=EXISTING, help="The result of tools/compile_engine.py, instead of making it.")
@click.option("--output", type=click.Path(path_type=Path), default=HERE / "results" / "peers.json")
def main(
    names: tuple[str, ...],
    folders: tuple[str, ...],
    runs: int,
    limit: float,
    memory: int,
    only_peers: bool,
    programs: Path | None,
    compiled: Path | None,
    output: Path,
) -> None:
    """Build, run, compare."""
    left_out: dict[str, str] = {}
    built: dict[Peer, Path] = {}
    for peer in PEERS:
        if not folders or peer.folder in folders:
            try:
                built[peer] = peer_program(peer, programs)
            except UnavailableError as reason:
                left_out[peer.name] = str(reason)
                progress(f"without {peer.name}: {reason}")
    if not built:
        sys.exit(NO_PEER)
    forms: dict[str, Path] = {}
    if not only_peers:
        try:
            forms[COMPILED] = (compiled or compiled_sources()).resolve()
        except UnavailableError as reason:
            left_out[COMPILED] = str(reason)
            progress(f"without the compiled engine: {reason}")
        forms[PURE] = HERE.parent / "src"

    load, cores = os.getloadavg()[0], os.cpu_count() or 1
    if load > cores / 2:
        progress(f"the load is {load:.1f} on {cores} cores: these figures will not be worth publishing")
    workloads = [read_workload(name) for name in dict.fromkeys(names or WORKLOADS)]
    trials: list[Trial] = []
    for _ in range(runs):
        for workload in workloads:
            for trial in one_round(workload, forms, built, limit, memory):
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
    click.echo(table(summaries, left_out))
    if not all(trial.check.ok for trial in trials):
        raise click.ClickException(f'a run placed tasks wrongly: see "check" in {output}')


if __name__ == "__main__":
    main()
