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

        # The same in another namespace, as JSON
        {me} train -n research -o json

        # The pod, if several objects have that name
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
def why(cluster: Cluster, job: str, config: Path | None, files: tuple[str, ...], output: str) -> int:
    """Explain why a job waits.

    Shows which jobs are served first at each level of the queue tree, which limits and nodes prevent a start, what
    changes with time, and what the job needs to start. The explanation follows the configuration that the running
    scheduler publishes in the status of queue root; without it, it uses the default configuration and says so. The
    command changes nothing. A user who may not list nodes, queues and the jobs of all namespaces gets the reason that
    the scheduler wrote into the PodGroup and its Events, and a note.

    \b
    Exit status: 0 explained, 1 job not found, 2 invalid usage or input.
    """
    if files:
        answer = _explain_in_scenario(
            job, option_value(click.get_current_context(), "namespace") or "default", files, config
        )
    else:
        answer = _explain_in_cluster(job, cluster, config)
    if answer is None:
        return NO_SUCH_JOB
    import shutil
    import sys

    from pumice.cli.why.report_output import report_lines, report_values

    if output == "text":
        columns = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
        for line in report_lines(answer, virtual=bool(files), columns=columns):
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
        print_error(f"job {key} not found at the end of {simulation.scenario.name}; existing jobs: {known}")
    return found


def _explain_in_cluster(job: str, cluster: Cluster, config: Path | None) -> WaitReport | None:
    from pumice.cli.why.cluster_snapshot import ClusterSnapshot, NoSuchJobError
    from pumice.cli.why.scheduler_policy import policy_in_force, read_config_file

    chosen = read_config_file(config)
    snapshot = ClusterSnapshot(cluster.client, cluster.namespace)
    try:
        found = snapshot.find(job, cluster.namespace)
    except NoSuchJobError as error:
        print_error("; ".join([str(error), *snapshot.denied_notes(cluster.namespace)]))
        return None
    answer = _explain_found(snapshot, found, policy_in_force(snapshot.scheduler, chosen), cluster)
    answer.notes += snapshot.denied_notes(cluster.namespace)
    return answer


def _explain_found(snapshot: ClusterSnapshot, found: JobLookup, rules: SchedulerPolicy, cluster: Cluster) -> WaitReport:
    import time

    from pumice.cli.why.status_report import status_report
    from pumice.engine.explain import WaitReport, explain

    now = int(time.time() * SECOND)
    if not found.key:
        return WaitReport("", "no group", verdict=found.verdict, now=now, needs=list(found.notes))
    if not snapshot.can_explain:
        return _named(status_report(snapshot, cluster.client, found.key, now), found)
    explained = explain(snapshot.engine(rules.config, now), found.key, now)
    assert explained is not None, f"{found.key} is among the objects"
    answer = _named(explained, found)
    answer.rules = rules.origin
    _add_containers(snapshot, found.key, answer)
    _add_gates(snapshot, found.key, answer)
    if answer.cause == "pods":
        answer.notes += snapshot.exhausted_quotas(found.key.partition("/")[0])
    if answer.cause == "next" and now - max(answer.created, answer.last_start) > 30 * SECOND:
        answer.notes.append("nothing has prevented a start for a while: is a scheduler running?")
    answer.notes += [f"ignored, because it cannot be decoded: {what}" for what in snapshot.unreadable]
    answer.notes += rules.notes
    return answer


def _named(answer: WaitReport, found: JobLookup) -> WaitReport:
    """The report under the name of the request, with what the lookup found."""
    answer.notes += found.notes
    if found.requested_name:
        answer.called = found.requested_name
        answer.verdict = answer.verdict.replace(found.key, found.requested_name, 1)
    return answer


def _add_containers(snapshot: ClusterSnapshot, key: str, answer: WaitReport) -> None:
    """Add the containers that cannot start. To the scheduler their pods run, so the verdict has to say it."""
    from pumice.kube.decode.container_states import blocked_summary

    blocked, running = snapshot.blocked_containers(key)
    if not blocked:
        return
    answer.containers = [each.text() for each in blocked]
    summary = f"{blocked_summary(blocked, running)}: {answer.containers[0]}"
    if answer.cause == "running":
        answer.verdict = f"{answer.called or answer.job} has nodes, but {summary}"
    else:
        answer.verdict = f"{answer.verdict.rstrip('.')}. Also, {summary}"
    answer.needs.append(
        "correct the image, command or configuration of these containers: kubectl describe pod says more"
    )


def _add_gates(snapshot: ClusterSnapshot, key: str, answer: WaitReport) -> None:
    """Add the pods with scheduling gates. To the scheduler they do not exist, so the job may seem to lack pods."""
    gated = snapshot.gated_pods(key)
    if not gated:
        return
    number = "1 pod has" if len(gated) == 1 else f"{len(gated)} pods have"
    pod, gates = gated[0]
    summary = f"{number} scheduling gates and cannot be placed until they are removed: pod {pod}: {', '.join(gates)}"
    if answer.cause == "pods":
        answer.verdict = f"{answer.verdict.rstrip('.')}; {summary}"
        answer.needs = ["wait until the scheduling gates are removed by the controllers that added them"]
    else:
        answer.notes.append(summary)
