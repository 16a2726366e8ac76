"""``pumice simulate``: run a workload through the engine in virtual time, under one policy or several."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from math import isnan
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from pumice.cli.duration_type import DurationType
from pumice.cli.terminal import echo, echo_values

if TYPE_CHECKING:
    from pumice.simulate.figures import RunFigures
    from pumice.simulate.parallel_runs import AnyPlan
    from pumice.simulate.policies import Policy
    from pumice.simulate.workload_file import WorkloadFile


class _Number(click.FloatRange):
    """A number within bounds. Every comparison with NaN is false, so ``FloatRange`` lets it pass."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        number: float = super().convert(value, param, ctx)
        if isnan(number):
            self.fail(f"{value!r} is not a number", param, ctx)
        return number


@click.command()
@click.argument("workload", metavar="[WORKLOAD]", type=click.Path(), required=False)
@click.option(
    "--log",
    type=click.Path(exists=True, path_type=Path),
    help="Simulate the history in a decision log (file or folder) instead of a workload.",
)
@click.option("--from-cluster", is_flag=True, help="Nodes and queues of the cluster of the kubeconfig.")
@click.option("-f", "--filename", "files", metavar="FILE", multiple=True, help="Manifests of nodes and queues.")
@click.option(
    "--nodes", metavar="GROUP", multiple=True, help="Nodes: 550:cpu=64,nvidia.com/gpu=8, or a CSV file of groups."
)
@click.option(
    "--policy",
    "policies",
    metavar="POLICY",
    multiple=True,
    help="steer (the default), paper, capacity, proportion, fcfs, or NAME=FILE[,FILE]: a scheduler configuration, "
    "and manifests that replace those of -f. Repeat it to compare.",
)
@click.option(
    "--format",
    "format_name",
    type=click.Choice(["auto", "csv", "swf", "trace"]),
    default="auto",
    show_default=True,
    help="Format of the workload.",
)
@click.option("--until", type=DurationType(), help="Stop at this time of the workload.")
@click.option("--speedup-arrivals", "speedup", type=_Number(0.001, 1000), default=1.0, show_default=True)
@click.option(
    "--grace", type=DurationType(), default="30s", show_default=True, help="How long evicted tasks terminate."
)
@click.option("--seed", type=int, default=0, show_default=True, help="Seed of what is random (--repeat).")
@click.option(
    "--repeat",
    "repeats",
    type=click.IntRange(1, 1000),
    default=1,
    show_default=True,
    help="Run so often, each time with run times and arrivals that vary by chance.",
)
@click.option("--jitter", type=_Number(0, 2), default=0.1, show_default=True, help="How much they vary.")
@click.option("--out", type=click.Path(path_type=Path), help="Write report.html, report.json and jobs.csv to a folder.")
@click.option("--parquet", is_flag=True, help="With --out: write jobs.parquet too; needs pyarrow.")
@click.option(
    "-o", "--output", type=click.Choice(["table", "json"]), default="table", show_default=True, help="Output format."
)
def simulate(
    workload: str | None,
    log: Path | None,
    from_cluster: bool,
    files: tuple[str, ...],
    nodes: tuple[str, ...],
    policies: tuple[str, ...],
    format_name: str,
    until: int | None,
    speedup: float,
    grace: int,
    seed: int,
    repeats: int,
    jitter: float,
    out: Path | None,
    parquet: bool,
    output: str,
) -> None:
    """Simulate a workload under one policy or several, and compare.

    WORKLOAD is a CSV file (id, submit, queue, user, tasks, request, gang, run_time, priority), a file in the Standard
    Workload Format, or a table of a GPU cluster trace; any of them may be packed with gzip. The engine decides as in
    production, in virtual time. Without manifests of queues, the paths that the workload names become queues of equal
    weight. With --log, jobs, nodes and queues are those of a decision log, and the policy recorded is its own
    configuration.
    """
    if log is not None:
        if workload is not None or files or nodes or from_cluster or repeats > 1 or speedup != 1.0:
            raise click.UsageError(
                "--log is a workload with its cluster: leave out WORKLOAD, -f, --nodes, --from-cluster, --repeat and "
                "--speedup-arrivals"
            )
        from pumice.cli.simulate.log_simulation import simulate_log

        simulate_log(log, policies, until=until, grace=grace, out=out, parquet=parquet, output=output)
        return
    if workload is None:
        raise click.UsageError("missing argument WORKLOAD, or --log FOLDER")
    file_names: dict[str, str] = {}
    if from_cluster:
        from pumice.cli.simulate.cluster_manifests import cluster_manifests

        manifests, cluster_name = click.get_current_context().with_resource(cluster_manifests())
        files, file_names = (*files, manifests), {manifests: cluster_name}
    from pumice.simulate.node_groups import read_node_groups
    from pumice.simulate.policies import DEFAULT_POLICY, read_policy
    from pumice.simulate.report.report_files import report_folder
    from pumice.simulate.report.values import report_values
    from pumice.simulate.run_plans import inputs_of, plan_runs
    from pumice.simulate.workload_file import scan

    chosen = [read_policy(policy) for policy in policies or (DEFAULT_POLICY,)]
    refuse_same_names(chosen)
    found = scan(workload, format_name)
    groups = tuple(group for i, text in enumerate(nodes) for group in read_node_groups(text, i))
    options = {
        "speedupArrivals": speedup,
        "seed": seed,
        "repeat": repeats,
        "jitter": jitter if repeats > 1 else 0,
        "graceSeconds": grace / 1e6,
        "untilSeconds": None if until is None else until / 1e6,
        "nodes": [text for text in nodes if not Path(text).is_file()],
    }
    _print_notes(found, chosen)
    with report_folder(out, parquet=parquet) as folder:
        plans = plan_runs(
            found,
            chosen,
            files,
            groups,
            repeats=repeats,
            seed=seed,
            jitter=jitter if repeats > 1 else 0.0,
            speedup=speedup,
            until=until,
            grace=grace,
            jobs_folder=folder.jobs_folder,
        )
        runs = run_plans(plans, found.jobs)
        values = report_values(runs, inputs_of(found, chosen, files, nodes, file_names), options)
        folder.write(values, runs, plans)
    print_report(values, output, out, folder.names)


def print_report(values: dict[str, Any], output: str, out: Path | None, names: Sequence[str]) -> None:
    """Print the figures, and where the report was written."""
    if output == "json":
        echo_values(values, output)
        return

    from pumice.cli.simulate.simulate_table import table_lines

    for line in table_lines(values):
        echo(line)
    if out is not None:
        echo()
        echo(f"{', '.join([str(out / names[0]), *names[1:-1]])} and {names[-1]} written")


def run_plans(plans: Sequence[AnyPlan], jobs: int) -> list[RunFigures]:
    """Run all plans, and show the progress."""
    from pumice.simulate.parallel_runs import FailedRunError, run_all

    with _progress(jobs * len(plans)) as report:
        try:
            return run_all(plans, report)
        except FailedRunError as error:
            raise click.ClickException(str(error)) from None


def refuse_same_names(policies: list[Policy]) -> None:
    """Refuse two policies of one name."""
    names = [policy.name for policy in policies]
    for name in names:
        if names.count(name) > 1:
            raise click.UsageError(f"--policy: the name '{name}' is there twice; write NAME=FILE with another name")


def _print_notes(workload: WorkloadFile, policies: list[Policy]) -> None:
    for reason, count in sorted(workload.skipped.items()):
        echo(f"note: {workload.path}: {count} {'job' if count == 1 else 'jobs'} skipped, {reason}", err=True)
    if workload.unended:
        echo(f"note: {workload.path}: the last line has no line end: was the file cut off?", err=True)
    for policy in policies:
        for note in policy.config.notes:
            echo(f"note: {policy.config_source}: {note}", err=True)


@contextmanager
def _progress(jobs: int) -> Iterator[Callable[[int], None]]:
    """Show a line with rate and time left, on a terminal."""
    if not sys.stderr.isatty():
        yield lambda ended: None
        return
    from time import monotonic

    begun, seen = monotonic(), 0
    with click.progressbar(
        length=jobs,
        label="jobs",
        file=sys.stderr,
        show_pos=True,
        show_eta=True,
        item_show_func=lambda rate: rate,
    ) as bar:

        def report(ended: int) -> None:
            nonlocal seen
            rate = ended / max(0.001, monotonic() - begun)
            bar.update(max(0, ended - seen), f"{rate:,.0f} jobs/s")
            seen = max(seen, ended)

        yield report
