"""Pumice and Slurm as schedulers of one machine: how soon a process starts, how many jobs a second, memory.

python -m benchmarks.slurm                20 starts of each, and 2,000 jobs of `true` on 2 cpus, in turns

Slurm comes from the distribution: `apt-get install slurmctld slurmd slurm-client munge`, with its services stopped. Run
as root, as slurmd needs it. Daemons of both run in a temporary folder on ports of their own. The time to start is from
before the submitting program is run until the job's process notes the time. Jobs of the throughput are submitted at
once, as an array of Slurm and as the pods of one Job. CPU time is that of all processes of a system, the jobs included.
"""

from __future__ import annotations

import json
import os
import resource
import statistics
import sys
import tempfile
import time
from pathlib import Path

import click

from benchmarks.machine_clusters import Cluster, PumiceHere, Slurm, missing_slurm

NOT_INSTALLED = 3  # exit status
RESULTS = Path(__file__).parent / "results" / "slurm.json"
START_SECONDS = 60.0


def time_to_start(cluster: Cluster, way: str, folder: Path) -> float:
    """Seconds from before the submission until the process runs."""
    note = folder / "started"
    note.unlink(missing_ok=True)
    submitted = time.time()
    cluster.submit(way, f"date +%s.%N > {note}.part && mv {note}.part {note}")
    while not note.exists():
        if time.time() - submitted > START_SECONDS:
            raise click.ClickException(f"{cluster.name}: no process {START_SECONDS:.0f} s after {way}")
        time.sleep(0.005)
    return float(note.read_text()) - submitted


def throughput(cluster: Cluster, jobs: int) -> tuple[float, dict[str, float]]:
    """Jobs a second, and CPU milliseconds of a job by process."""
    before, began = cpu_seconds(cluster), time.monotonic()
    cluster.run_many(jobs)
    seconds, after = time.monotonic() - began, cpu_seconds(cluster)
    return jobs / seconds, {part: 1000 * (spent - before.get(part, 0.0)) / jobs for part, spent in after.items()}


def cpu_seconds(cluster: Cluster) -> dict[str, float]:
    """By process, of all parts of a system."""
    seconds: dict[str, float] = {}
    for tree in cluster.trees:
        for part, spent in tree.cpu_seconds().items():
            seconds[part] = seconds.get(part, 0.0) + spent
    return seconds


def own_cpu_seconds() -> float:
    """Of the programs that submit, which have ended; daemons live on and do not count here."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def row(name: str, values: list[float], unit: str) -> str:
    """For example `Slurm, sbatch to start         0.19 s (0.18 to 0.23)`."""
    digits = ".3g" if statistics.median(values) < 100 else ",.0f"
    shown = f"{statistics.median(values):{digits}} {unit} ({min(values):{digits}} to {max(values):{digits}})"
    return f"{name.rpartition(', ')[0]:44}{shown}"


@click.command(help=str(__doc__).partition("\n")[0])
@click.option("--starts", default=20, show_default=True, type=click.IntRange(1), help="Starts of each, in turns.")
@click.option("--jobs", default=2000, show_default=True, type=click.IntRange(0), help="Jobs in each run; 0 for none.")
@click.option("--runs", default=1, show_default=True, type=click.IntRange(1), help="Runs of that many jobs.")
@click.option("--cpus", default=2, show_default=True, type=click.IntRange(1), help="That each system may give out.")
@click.option("--output", type=click.Path(path_type=Path), default=RESULTS, help="Where the figures go as JSON.")
def main(starts: int, jobs: int, runs: int, cpus: int, output: Path) -> None:
    """Start both, measure in turns."""
    if absent := missing_slurm():
        click.echo(f"Slurm is missing here ({', '.join(absent)}): see the head of benchmarks/slurm.py", err=True)
        sys.exit(NOT_INSTALLED)
    figures: dict[str, list[float]] = {}
    with tempfile.TemporaryDirectory(prefix="pumice-slurm-") as home:
        clusters: list[Cluster] = []
        try:
            for kind in (Slurm, PumiceHere):
                folder = Path(home) / kind.name
                folder.mkdir()
                clusters.append(kind(folder, cpus))
                click.echo(f"{kind.name} is up", err=True)
            measure(clusters, Path(home), starts, jobs, runs, figures)
        except RuntimeError as failure:
            raise click.ClickException(str(failure)) from None
        finally:
            for cluster in clusters:
                for tree in reversed(cluster.trees):
                    tree.stop()
    output.parent.mkdir(parents=True, exist_ok=True)
    machine = {"cores": os.cpu_count(), "load_after": os.getloadavg()[0], "cpus": cpus, "jobs": jobs}
    output.write_text(json.dumps({"machine": machine, "figures": figures}, indent=1))
    click.echo("\n".join(row(name, values, name.rpartition(", ")[2]) for name, values in figures.items()))


def measure(
    clusters: list[Cluster], home: Path, starts: int, jobs: int, runs: int, figures: dict[str, list[float]]
) -> None:
    """Fill in the figures, by their name and unit."""
    for _ in range(starts):
        for cluster in clusters:
            for way in cluster.ways():
                before = own_cpu_seconds()
                figures.setdefault(f"{cluster.name}, {way} to start, s", []).append(time_to_start(cluster, way, home))
                spent = 1000 * (own_cpu_seconds() - before)
                figures.setdefault(f"{cluster.name}, CPU of {way} itself, ms", []).append(spent)
    for cluster in clusters:  # by now every part has done all of its work once
        figures[f"{cluster.name} at rest, MiB"] = [sum(tree.memory_mib() for tree in cluster.trees)]
    for _ in range(runs if jobs else 0):
        for cluster in clusters:
            rate, parts = throughput(cluster, jobs)
            click.echo(f"{cluster.name}: {rate:.1f} jobs/s", err=True)
            figures.setdefault(f"{cluster.name}, jobs/s", []).append(rate)
            figures.setdefault(f"{cluster.name}, CPU of a job, ms", []).append(sum(parts.values()))
            for part, spent in parts.items():
                figures.setdefault(f"  {cluster.name}: {part}, ms", []).append(spent)
            figures.setdefault(f"{cluster.name} after the jobs, MiB", []).append(
                sum(tree.memory_mib() for tree in cluster.trees)
            )


if __name__ == "__main__":
    main()
