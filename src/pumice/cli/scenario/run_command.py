"""``pumice run``: run a scenario and show what came out."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from pumice.cli.terminal import echo, echo_values

if TYPE_CHECKING:
    from pumice.sim.simulation import Simulation


@click.command()
@click.argument("files", metavar="FILE...", nargs=-1, required=True)
@click.option(
    "-o",
    "--output",
    type=click.Choice(["table", "wide", "json", "yaml"]),
    default="table",
    show_default=True,
    help="Output format.",
)
@click.option(
    "--trace", is_flag=True, help="Print every decision and the comparison that led to it at each level of the tree."
)
def run(files: tuple[str, ...], output: str, trace: bool) -> None:
    """Run a scenario and print the resulting queue tree and jobs.

    All FILEs together are one scenario.
    """
    from pumice.sim.manifest_files import read_manifests
    from pumice.sim.run_report import run_report
    from pumice.sim.simulation import open_simulation

    simulation = open_simulation(read_manifests(files), files[0], tracing=trace)
    scenario = simulation.scenario
    for note in scenario.config.notes:
        echo(f"note: {scenario.config.source}: {note}", err=True)
    simulation.run()
    if output in ("json", "yaml"):
        echo_values(run_report(simulation), output)
        return

    from pumice.cli.scenario.decision_trace import trace_lines
    from pumice.cli.scenario.run_tables import bar_legend, job_lines, notice_lines, tree_lines
    from pumice.sim.run_overview import overview_of_run
    from pumice.sim.run_report import decisions_report

    if trace:
        for line in trace_lines(decisions_report(simulation), simulation.key_name):
            echo(line)
        echo()
    echo(f"{click.style(scenario.name, bold=True)}: {_summary(simulation)}")
    overview = overview_of_run(simulation)
    for line in tree_lines(overview, wide=output == "wide"):
        echo(line)
    if overview.targets and (parts := bar_legend(overview)):
        echo(parts)
    if overview.jobs:
        echo()
        for line in job_lines(overview, wide=output == "wide"):
            echo(line)
    notices = list(notice_lines(overview))
    notices += [f"{click.style('refused', fg='yellow')} {error.object}: {error.reason}" for error in simulation.errors]
    if notices:
        echo()
        for line in notices:
            echo(line)


def _summary(simulation: Simulation) -> str:
    """The length of the run."""
    cycles, spec = simulation.cluster.cycles, simulation.scenario.spec
    text = f"{cycles} cycle{'s' if cycles > 1 else ''}, {cycles * spec.cycle_seconds:g} s of cluster time"
    if spec.churn is not None:
        last = spec.churn.completions - spec.churn.completions // 2
        text += f"; figures are means over the last {last} of {spec.churn.completions} completions"
    return text
