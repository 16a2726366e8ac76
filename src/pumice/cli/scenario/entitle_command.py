"""``pumice entitle``: prints the static fair allocation, without scheduling."""

from __future__ import annotations

import click

from pumice.cli.terminal import echo, echo_values


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
def entitle(files: tuple[str, ...], output: str) -> None:
    """Print the entitlement of every queue and job.

    Computes the static fair allocation (hierarchical DRF) of the cluster that FILE describes. Targets are divisible;
    nothing is scheduled, and no event of the scenario is run. All FILEs together are one scenario.
    """
    from pumice.sim.manifest_files import read_manifests
    from pumice.sim.run_report import entitle_report
    from pumice.sim.simulation import open_simulation

    simulation = open_simulation(read_manifests(files), files[0])
    engine = simulation.cluster.engine
    report = entitle_report(engine)
    if output in ("json", "yaml"):
        echo_values(report, output)
        return

    from pumice.cli.scenario.run_tables import job_lines, tree_lines
    from pumice.sim.run_overview import overview_of_targets

    overview = overview_of_targets(engine)
    echo(
        f"{click.style(simulation.scenario.name, bold=True)}: entitlement of every queue and job; nothing is scheduled"
    )
    for line in tree_lines(overview, wide=output == "wide", runs=False):
        echo(line)
    if overview.jobs:
        echo()
        for line in job_lines(overview, wide=output == "wide", runs=False):
            echo(line)
