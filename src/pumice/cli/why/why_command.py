"""``pumice why``: why a job waits, in numbers."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from pumice.cli.cluster.cluster_command import Cluster, ClusterCommand, on_cluster
from pumice.cli.cluster.name_completion import job_names, option_value
from pumice.cli.terminal import echo, echo_values, print_error

if TYPE_CHECKING:
    from pumice.cli.why.cluster_snapshot import ClusterSnapshot, JobLookup
    from pumice.cli.why.scheduler_policy import SchedulerPolicy
    from pumice.engine.explain import WaitReport

NO_SUCH_JOB = 1
SECOND = 1_000_000


@click.command(
    cls=ClusterCommand,
    examples="""
        # Why does the job train wait? (a PodGroup, a Job of Volcano, a batch Job or a pod)
        {me} train

        # The same in another namespace, and all of it for a program
        {me} train -n research -o json

        # Of two things of that name the pod
        {me} pod/train

        # Without a cluster: at the end of a scenario
        {me} train -f examples/gang.yaml
    """,
)
@on_cluster(namespaced=True)
@click.argument("job", shell_complete=job_names)
@click.option(
    "--config",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Go by this configuration. [default: that of the scheduler at work, as it says]",
)
@click.option(
    "-f", "--file", "files", metavar="FILE", multiple=True, help="Ask about the end of a scenario, not a cluster."
)
@click.option(
    "-o",
    "--output",
    type=click.Choice(["text", "json", "yaml"]),
    default="text",
    show_default=True,
    help="How to print the answer.",
)
def why(cluster: Cluster, job: str, config: Path | None, files: tuple[str, ...], output: str) -> int:
    """Say why a job waits, in numbers.

    Who is served before it at which level of the queues, which limits and which nodes are in its way, what time alone
    will change, and what would have to happen. The rules are those of the scheduler at work, which writes them into
    the status of the queue root; where it does not, the answer says that they are guessed. Nothing is changed.

    \b
    Exit status: 0 explained, 1 there is no such job, 2 bad input.
    """
    if files:
        answer = _explain_in_scenario(
            job, option_value(click.get_current_context(), "namespace") or "default", files, config
        )
    else:
        answer = _explain_in_cluster(job, cluster, config)
    if answer is None:
        return NO_SUCH_JOB
    from pumice.cli.why.report_output import report_lines, report_values

    if output == "text":
        for line in report_lines(answer, virtual=bool(files)):
            echo(line)
    else:
        echo_values(report_values(answer, virtual=bool(files)), output)
    return 0


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
        print_error(f"there is no job {key} at the end of {simulation.scenario.name}; there are: {known}")
    return found


def _explain_in_cluster(job: str, cluster: Cluster, config: Path | None) -> WaitReport | None:
    from pumice.cli.why.cluster_snapshot import ClusterSnapshot, NoSuchJobError
    from pumice.cli.why.scheduler_policy import policy_in_force, read_config_file

    chosen = read_config_file(config)
    snapshot = ClusterSnapshot(cluster.client)
    try:
        found = snapshot.find(job, cluster.namespace)
    except NoSuchJobError as error:
        print_error(str(error))
        return None
    return _explain_found(snapshot, found, policy_in_force(snapshot.scheduler, chosen))


def _explain_found(snapshot: ClusterSnapshot, found: JobLookup, rules: SchedulerPolicy) -> WaitReport:
    import time

    from pumice.engine.explain import WaitReport, explain

    now = int(time.time() * SECOND)
    if not found.key:
        return WaitReport("", "no group", verdict=found.verdict, now=now, needs=list(found.notes))
    answer = explain(snapshot.engine(rules.config, now), found.key, now)
    assert answer is not None, f"{found.key} is among the objects"
    answer.rules = rules.origin
    answer.notes += found.notes
    if found.requested_name:
        answer.called = found.requested_name
        answer.verdict = answer.verdict.replace(found.key, found.requested_name, 1)
    if answer.cause == "pods":
        answer.notes += snapshot.exhausted_quotas(found.key.partition("/")[0])
    if answer.cause == "next" and now - max(answer.created, answer.last_start) > 30 * SECOND:
        answer.notes.append("nothing has been in its way for a while, as far as objects tell: is a scheduler running?")
    answer.notes += [f"left out, because it cannot be read: {what}" for what in snapshot.unreadable]
    answer.notes += rules.notes
    return answer
