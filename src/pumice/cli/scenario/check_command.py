"""``pumice check``: run scenarios and compare what came out with what they expect."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from pumice.cli.terminal import echo, print_error

if TYPE_CHECKING:
    from pumice.input_errors import BadInput
    from pumice.sim.expectations import Difference
    from pumice.sim.manifest_files import Manifest


@click.command()
@click.argument("files", metavar="FILE...", nargs=-1, required=True)
@click.pass_context
def check(context: click.Context, files: tuple[str, ...]) -> None:
    """Run scenarios and check their expectations.

    Each FILE is one scenario. A folder is one scenario too, with all its files together, unless several of them
    contain a Scenario object: then each file is a scenario.
    """
    from pumice.sim.manifest_files import read_scenarios

    results = [_check_scenario(name, manifests) for path in files for name, manifests in read_scenarios(path)]
    echo(f"{results.count(0)} passed, {len(results) - results.count(0)} failed")
    context.exit(max(results))


def _check_scenario(path: str, manifests: list[Manifest] | BadInput) -> int:
    """Run one scenario and print the result; returns its exit status."""
    from pumice.input_errors import BadInput

    try:
        if isinstance(manifests, BadInput):
            raise manifests
        name, differences = _run_and_compare(path, manifests)
    except BadInput as error:
        echo(f"{click.style('FAIL', fg='red')} {path} (invalid input, not run)")
        for problem in error.problems:
            print_error(str(problem))
        return 2
    if not differences:
        echo(f"{click.style('PASS', fg='green')} {name}")
        return 0
    echo(f"{click.style('FAIL', fg='red')} {name} ({path})")
    for difference in differences:
        echo(click.style(f"  - {difference.where}: {difference.expected}", fg="red"))
        echo(click.style(f"  + {difference.where}: {difference.actual}", fg="green"))
    return 1


def _run_and_compare(path: str, manifests: list[Manifest]) -> tuple[str, list[Difference]]:
    """The name of a scenario and what differs in it."""
    from pumice.sim.expectations import find_differences
    from pumice.sim.simulation import open_simulation

    simulation = open_simulation(manifests, path)
    simulation.run()
    nothing = " (expects nothing)" if simulation.scenario.spec.expect is None else ""
    return simulation.scenario.name + nothing, find_differences(simulation)
