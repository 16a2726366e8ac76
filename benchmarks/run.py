"""Run the benchmarks: each measurement several times, each time in a new process; reports medians and spreads.

python -m benchmarks.run                     everything, as a table; JSON in benchmarks/results/
python -m benchmarks.run --workload C        one workload
python -m benchmarks.run --workload C --json -   as JSON on standard output (read by the comparison with peers)
"""

from __future__ import annotations

import json
import platform
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any

import click

from benchmarks import apiserver, binds, kubernetes, live, measures, simulated_workload, start
from benchmarks.workload import Workload
from benchmarks.workload_e import WorkloadE
from benchmarks.workload_n import WorkloadN
from pumice.engine.config.scheduler_config import DEFAULT_CONFIG

RESULTS = Path(__file__).parent / "results"

ROUNDING = ("first_ms", "task_ended_ms", "job_came_ms")

# name -> (description, the figures shown)
MEASURES: dict[str, tuple[str, tuple[str, ...]]] = {
    "A": ("allocate, 5,000 tasks on 500 nodes", ("placements_per_second", "peak_rss_mib")),
    "B": ("allocate, 10,000 tasks on 1,000 nodes", ("placements_per_second", "peak_rss_mib")),
    "C": ("allocate, 50,000 tasks on 5,000 nodes", ("placements_per_second", "peak_rss_mib")),
    "C-gang": ("the same in gangs of ten", ("placements_per_second", "peak_rss_mib")),
    "C-double": ("C with everything doubled", ("placements_per_second", "peak_rss_mib")),
    "C-flat": ("C with 500 queues under one parent", ("placements_per_second", "peak_rss_mib")),
    "E": (
        "2,000 shapes, constraints, gangs, 150 % demand",
        ("placements_per_second", "later_per_second", "peak_rss_mib"),
    ),
    "N": (
        "gangs of 8 to 512 on 5,000 nodes in three tiers",
        ("placements_per_second", "percent_of_anywhere", "waiting", "peak_rss_mib"),
    ),
    "F": ("a full cluster: nothing or little changes", ("nothing_percent", "small_change_percent")),
    "F-default": (
        "the same under the default configuration",
        ("nothing_percent", "small_change_percent", "placing_seconds"),
    ),
    "R": (
        "a full cluster: a queue takes its part back",
        ("evictions", "decisions_per_second", "percent_of_allocation", "cycle_seconds"),
    ),
    "simulate": (
        "pumice simulate: a mix of GPU jobs on 500 nodes",
        ("tasks_per_second", "engine_percent", "peak_rss_mib"),
    ),
    "simulate-long": (
        "the same, four times as many tasks",
        ("tasks_per_second", "engine_percent", "peak_rss_mib"),
    ),
    "simulate-million": (
        "a million tasks at 60 % load",
        ("tasks_per_second", "engine_percent", "peak_rss_mib"),
    ),
    "rounding-C": ("whole targets at C: all, a task less, a job more", ROUNDING),
    "rounding-E": ("the same at E", ROUNDING),
    "rounding-F": ("the same at F", ROUNDING),
    "rounding-singles": ("the same, 10,000 jobs of one task in a queue", ROUNDING),
    "tree-1000": ("share tree, 1,000 leaves", ("place_microseconds", "release_microseconds", "times_faster")),
    "tree-10000": (
        "share tree, 10,000 leaves",
        ("place_microseconds", "release_microseconds", "times_faster"),
    ),
    "tree-100000": (
        "share tree, 100,000 leaves",
        ("place_microseconds", "release_microseconds", "times_faster"),
    ),
    "api-writes": (
        "API: durable writes per second, 1, 16, 64 in flight",
        ("creates_1", "binds_1", "creates_16", "binds_16", "creates_64", "binds_64"),
    ),
    "api-watch": ("API: 100 watchers", ("events_per_second", "watches_ended", "latency_ms", "latency_p99_ms")),
    "api-list": ("API: a list of 10,000 pods, whole and in pages", ("whole_ms", "pages_ms")),
    "live": (
        "pods from created to bound, and CPU for each",
        ("pods_per_second", "latency_ms", "overhead_ms", "engine_ms", "server_ms", "running_server_ms"),
    ),
    "live-parts": (
        "where the CPU time of a pod goes, in percent",
        tuple(f"{process}_{part}" for process, known in live.SAMPLED.items() for part in known),
    ),
    "start": (
        "scheduler, 50,000 running pods: to its first decision",
        ("seconds", "cpu_seconds", "sync", "build", "cycle", "idle_percent", "rss_mib"),
    ),
    "takeover": (
        "the same, when the leader stops or is killed",
        ("stopped_seconds", "stopped_cpu_seconds", "killed_seconds", "killed_cpu_seconds"),
    ),
    "binds": (
        "binds on a real API, beside a bare client",
        ("percent_of_bare", "binds_per_second", "bare_binds_per_second", "client_ms", "bare_client_ms", "server_ms"),
    ),
    "api-memory": ("API: memory, empty and with 50,000 pods", ("empty_mib", "full_mib")),
}

# Two servers side by side, where K8S_BIN names the binaries of a real one; minutes, so not as often as the rest.
API = {
    "api-writes": apiserver.writes,
    "api-watch": apiserver.watching,
    "api-list": apiserver.listing,
    "api-memory": apiserver.memory,
}
LIVE = {
    "live": live.created_to_bound,
    "live-parts": live.parts,
    "start": start.started_scheduler,
    "takeover": start.takeover,
}
FEW_RUNS = 3


def measure(name: str) -> dict[str, float]:
    """One run of one measurement, in this process."""
    if name in API:
        return API[name]()
    if name in LIVE:
        return LIVE[name]()
    if name == "binds":
        return binds.bind_rate()
    if name.startswith("tree-"):
        return measures.tree_events(int(name.removeprefix("tree-")))
    if name.startswith("rounding-"):
        return measures.rounding_cost(name.removeprefix("rounding-"))
    if name == "E":
        return measures.churn_e(WorkloadE.load("E"))
    if name == "N":
        return measures.topology(WorkloadN.load())
    if name == "F":
        return measures.small_changes(Workload.load("F"))
    if name == "F-default":
        return measures.small_changes(Workload.load("F"), DEFAULT_CONFIG)
    if name == "simulate":
        return simulated_workload.simulation()
    if name == "simulate-long":
        return simulated_workload.simulation(4 * simulated_workload.TASKS)
    if name == "simulate-million":
        return simulated_workload.simulation(1_000_000, 0.6)
    if name == "R":
        return measures.reclaim(Workload.load("R"))
    if name == "C-double":
        return measures.allocate(Workload.load("C").scaled(2))
    if name == "C-flat":
        return measures.allocate(Workload.load("C").flat())
    return measures.allocate(Workload.load(name))


def repeat(name: str, runs: int) -> list[dict[str, float]]:
    """Several runs, each in a fresh process."""
    results = []
    if name in {*API, *LIVE, "binds", "simulate", "simulate-long"}:
        runs = min(runs, FEW_RUNS)
    for _ in range(1 if name == "simulate-million" else runs):
        command = [sys.executable, "-m", "benchmarks.run", "--once", name]
        done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=Path(__file__).parent.parent)
        if done.returncode:
            raise click.ClickException(f"{name} failed:\n{done.stderr}")
        results.append(json.loads(done.stdout))
    return results


def summarise(results: list[dict[str, float]]) -> dict[str, dict[str, float]]:
    """Median, least and most of every figure."""
    return {
        key: {
            "median": statistics.median(r[key] for r in results),
            "min": min(r[key] for r in results),
            "max": max(r[key] for r in results),
        }
        for key in results[0]
    }


def lines(name: str, figures: dict[str, dict[str, float]]) -> list[str]:
    """The figures of a workload: on one line, or on a line for each of two servers."""
    what, shown = MEASURES[name]
    if name not in API:
        return [f"{name:14}{what:50}" + "; ".join(text(key, figures[key]) for key in shown)]
    servers = [server for server in ("pumice", "kube-apiserver") if f"{server}_{shown[0]}" in figures]
    return [f"{name:14}{what}"] + [
        f"{'':14}{server:16}" + "; ".join(text(key, figures[f"{server}_{key}"]) for key in shown) for server in servers
    ]


def text(key: str, v: dict[str, float]) -> str:
    """One figure in words."""
    digits = ".4g" if v["median"] < 1000 else ".0f"
    return f"{key.replace('_', ' ')} {v['median']:,{digits}} ({v['min']:,{digits}} to {v['max']:,{digits}})"


def document(name: str, results: list[dict[str, float]]) -> dict[str, Any]:
    """The figures of one workload, for other programs."""
    summary = summarise(results)
    return {
        "workload": name,
        "placements": int(results[0].get("placements", 0)),
        "seconds": [r.get("seconds", 0.0) for r in results],
        "peak_rss_mib": summary.get("peak_rss_mib", {}).get("max", 0.0),
        **{key: value for key, value in summary.items() if key not in ("placements", "seconds", "peak_rss_mib")},
    }


@click.command()
@click.option("--workload", "names", multiple=True, type=click.Choice(list(MEASURES)), help="Only these.")
@click.option("--runs", default=5, show_default=True, help="Runs of each.")
@click.option("--json", "target", metavar="FILE", help="Where the figures go as JSON; - for standard output only.")
@click.option("--once", metavar="NAME", help="One run in this process, as JSON.", hidden=True)
def main(names: tuple[str, ...], runs: int, target: str | None, once: str | None) -> None:
    """Measure the engine."""
    if once is not None:
        click.echo(json.dumps(measure(once)))
        return
    documents = []
    quiet = target == "-"
    if not quiet:
        click.echo(f"{'':14}{'':50}median (least to most of {runs})")
    for name in names or MEASURES:
        if name == "binds" and (reason := kubernetes.unavailable()):
            click.echo(f"{name:14}skipped: {reason}", err=True)
            continue
        results = repeat(name, runs)
        documents.append(document(name, results))
        if not quiet:
            click.echo("\n".join(lines(name, summarise(results))))
    if quiet:
        click.echo(json.dumps(documents[0] if len(documents) == 1 else documents))
        return
    path = Path(target) if target else RESULTS / "bench.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    machine = {"python": platform.python_version(), "machine": platform.machine(), "runs": runs}
    path.write_text(json.dumps({**machine, "measures": documents}, indent=1, sort_keys=True))
    click.echo(f"written to {path}")


if __name__ == "__main__":
    main()
