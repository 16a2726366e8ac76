"""``pumice why``: why a job waits, in numbers."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from pumice.cli.cluster.cluster_command import Cluster, ClusterCommand, on_cluster
from pumice.cli.cluster.name_completion import job_names, option_value
from pumice.cli.terminal import echo, echo_values, print_error

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pumice.engine.explain import WaitReport

NO_SUCH_JOB = 1


@click.command(
    cls=ClusterCommand,
    examples="""
        # Why does the job train wait? (a PodGroup, a Job of Volcano, a batch Job or a pod)
        {me} train

        # The same in another namespace, as JSON
        {me} train -n research -o json

        # The pod, if several objects have that name
        {me} pod/train

        # Several jobs, also of other namespaces, at the cost of one
        {me} train prod/podgroup/serve

        # Without a cluster: at the end of a scenario
        {me} train -f examples/gang.yaml
    """,
)
@on_cluster(namespaced=True)
@click.argument("jobs", metavar="JOB...", nargs=-1, required=True, shell_complete=job_names)
@click.option(
    "--config",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Scheduler configuration file. [default: the one that the running scheduler publishes]",
)
@click.option(
    "-f",
    "--file",
    "files",
    metavar="FILE",
    multiple=True,
    help="Explain the state at the end of a scenario, without a cluster; may be repeated.",
)
@click.option(
    "-o",
    "--output",
    type=click.Choice(["text", "json", "yaml"]),
    default="text",
    show_default=True,
    help="Output format.",
)
def why(cluster: Cluster, jobs: tuple[str, ...], config: Path | None, files: tuple[str, ...], output: str) -> int:
    """Explain why a job waits.

    Shows which jobs are served first at each level of the queue tree, which limits and nodes prevent a start, what
    changes with time, and what the job needs to start. The explanation follows the configuration that the running
    scheduler publishes in the status of queue root; without it, it uses the default configuration and says so. The
    command changes nothing. A user who may not list nodes, queues and the jobs of all namespaces gets the reason that
    the scheduler wrote into the PodGroup and its Events, and a note.

    JOB is [[NAMESPACE/]KIND/]NAME. With -o json, several jobs are a list, in which null stands for a job not found.

    \b
    Exit status: 0 explained, 1 job not found, 2 invalid usage or input.
    """
    names: Mapping[str, str] = {}
    if files:
        namespace = option_value(click.get_current_context(), "namespace") or "default"
        answers = [_explain_in_scenario(job, namespace, files, config) for job in jobs]
    else:
        from pumice.cli.why.cluster_answers import explain_in_cluster

        answers, names = explain_in_cluster(jobs, cluster, config)
    _print_answers(answers, output, names, virtual=bool(files))
    return NO_SUCH_JOB if None in answers else 0


def _print_answers(answers: list[WaitReport | None], output: str, names: Mapping[str, str], *, virtual: bool) -> None:
    import shutil
    import sys

    from pumice.cli.why.report_output import report_lines, report_values

    if output == "text":
        columns = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
        for number, answer in enumerate(one for one in answers if one is not None):
            if number:
                echo("")
            for line in report_lines(answer, virtual=virtual, columns=columns, names=names):
                echo(line)
        return
    values = [report_values(answer, virtual=virtual) if answer is not None else None for answer in answers]
    if len(values) > 1:
        echo_values(values, output)
    elif values[0] is not None:
        echo_values(values[0], output)


def _explain_in_scenario(job: str, namespace: str, files: tuple[str, ...], config: Path | None) -> WaitReport | None:
    from pumice.cli.why.scheduler_policy import read_config_file
    from pumice.engine.explain import explain
    from pumice.sim.manifest_files import read_manifests
    from pumice.sim.simulation import open_simulation

    simulation = open_simulation(read_manifests(files), files[0])
    simulation.run()
    if (given := read_config_file(config)) is not None:
        simulation.cluster.reconfigure(given)
    engine = simulation.cluster.engine
    name = job.rpartition("/")[2]
    key = f"{namespace}/{name}"
    task = engine.state.tasks.get(key)
    found = explain(engine, task.job.key if task is not None and task.job is not None else key, simulation.cluster.now)
    if found is None:
        known = ", ".join(sorted(engine.state.jobs)) or "none"
        print_error(f"job {key} not found at the end of {simulation.scenario.name}; existing jobs: {known}")
    return found
