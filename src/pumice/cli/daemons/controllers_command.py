"""``pumice controllers``: reconciles the queues, Volcano Jobs and podgroups of a cluster until stopped."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from pumice.cli.daemons.daemon import (
    MetricsAddress,
    cluster_access,
    cluster_options,
    metrics_option,
    run_daemon,
    schedulers_option,
)
from pumice.cli.daemons.leader_election import Election, election_option

if TYPE_CHECKING:
    from pumice.controllers.manager import ControllerManager
    from pumice.observability.endpoints import Probes


@click.command()
@cluster_options
@schedulers_option
@click.option("--no-jobs", is_flag=True, help="Leave Volcano Jobs to somebody else.")
@election_option("pumice-controllers")
@metrics_option("127.0.0.1:8081")
def controllers(
    kubeconfig: Path | None,
    context: str,
    schedulers: frozenset[str],
    no_jobs: bool,
    election: Election | None,
    answering: MetricsAddress,
) -> None:
    """Keep queues, jobs and podgroups true.

    Makes the pods of Volcano Jobs and follows their policies; makes the queues that a hierarchy names, carries out the
    commands that open, close, pause and resume queues, and empties those that are deleted; gives a podgroup to pods
    that have none, one for all pods of an owner. Works until stopped.
    """
    from pumice.controllers.manager import ControllerManager
    from pumice.controllers.registry import all_controllers
    from pumice.observability.metrics.job_metrics import JobMetrics
    from pumice.observability.probes import controller_probes

    def probes(together: ControllerManager) -> Probes:
        metrics = JobMetrics(together.seen.informers.values)
        together.watchers.append(metrics.on_change)
        return controller_probes(together.seen.informers.values, metrics)

    access = cluster_access(kubeconfig, context)
    makers = all_controllers(schedulers, jobs=not no_jobs)
    run_daemon(access, lambda api: ControllerManager(api, makers), "controlling", answering, probes, election)
