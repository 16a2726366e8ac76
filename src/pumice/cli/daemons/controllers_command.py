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
    from pumice.observability.process_probes import Probes


@click.command()
@cluster_options
@schedulers_option
@click.option("--no-jobs", is_flag=True, help="Do not run the controller of Volcano Jobs.")
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
    """Reconcile queues, Volcano Jobs and podgroups.

    Creates the pods of Volcano Jobs and applies their lifecycle policies; creates the queues in spec.hierarchy,
    executes the Commands that open, close, pause and resume queues, and deletes the content of deleted queues; creates
    a podgroup for pods without one, shared by all pods of an owner. Runs until stopped.
    """
    from pumice.controllers.manager import ControllerManager
    from pumice.controllers.registry import all_controllers
    from pumice.kube.resources import QUEUES
    from pumice.observability.metrics.job_metrics import JobMetrics
    from pumice.observability.probes import controller_probes

    def probes(together: ControllerManager) -> Probes:
        metrics = JobMetrics(together.seen.informers.values)
        together.watchers.append(metrics.on_change)
        return controller_probes(together.seen.informers.values, metrics, together.seen.all(QUEUES))

    access = cluster_access(kubeconfig, context)
    makers = all_controllers(schedulers, jobs=not no_jobs)
    run_daemon(
        access, lambda api: ControllerManager(api, makers), "running controllers for", answering, probes, election
    )
