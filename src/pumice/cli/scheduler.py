"""``pumice scheduler`` and ``pumice controllers``: what makes a cluster schedule, until stopped."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from pumice.cli.serving import cluster_options, reach, serve
from pumice.cli.terminal import echo

if TYPE_CHECKING:
    from pumice.kube.api import Api
    from pumice.service.scheduler import Scheduler


@click.command()
@cluster_options
@click.option(
    "--config",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="A scheduler configuration, as Volcano has them.",
)
def scheduler(kubeconfig: Path | None, context: str, config: Path | None) -> None:
    """Schedule a cluster.

    Places the pods that name the scheduler pumice or volcano, by the queues, podgroups and quotas of the cluster,
    until stopped.
    """
    from pumice.scheduling.config import ConfigError
    from pumice.service.scheduler import Scheduler
    from pumice.sim.configuration import default_config, read_config

    access = reach(kubeconfig, context)
    try:
        chosen = read_config(config.read_text(encoding="utf-8"), str(config)) if config else default_config()
    except ConfigError as error:
        raise click.UsageError(str(error)) from None
    for note in chosen.notes:
        echo(f"note: {chosen.source}: {note}", err=True)

    def make(api: Api) -> Scheduler:
        return Scheduler(api, chosen)

    serve(access, make, "scheduling")


@click.command()
@cluster_options
def controllers(kubeconfig: Path | None, context: str) -> None:
    """Give podgroups to pods that have none.

    Without a group the scheduler does not know a pod. Pods of one owner, a batch Job say, share one. Works until
    stopped.
    """
    from pumice.controllers.everybody import EVERYBODY
    from pumice.controllers.together import Together

    serve(reach(kubeconfig, context), lambda api: Together(api, EVERYBODY), "controlling")
