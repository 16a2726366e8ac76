"""``pumice scheduler``: schedule the cluster of a kubeconfig, until stopped."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from pumice.cli.terminal import echo

if TYPE_CHECKING:
    from pumice.kube.kubeconfig import Access
    from pumice.scheduling.config import SchedulerConfig

STOP_SECONDS = 10.0


@click.command()
@click.option(
    "--kubeconfig",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="How to reach the cluster. [default: as kubectl]",
)
@click.option("--context", default="", help="A context of it other than the current one.")
@click.option(
    "--config",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="A scheduler configuration, as Volcano has them.",
)
def scheduler(kubeconfig: Path | None, context: str, config: Path | None) -> None:
    """Schedule a cluster, until stopped.

    Places the pods that name the scheduler pumice or volcano, by the queues, podgroups and quotas of the cluster.
    """
    import asyncio

    from pumice.kube.errors import FieldError
    from pumice.kube.kubeconfig import read_kubeconfig
    from pumice.scheduling.config import ConfigError
    from pumice.sim.configuration import default_config, read_config

    try:
        access = read_kubeconfig(kubeconfig, context=context)
        chosen = read_config(config.read_text(encoding="utf-8"), str(config)) if config else default_config()
    except (FieldError, ConfigError) as error:
        raise click.UsageError(str(error)) from None
    for note in chosen.notes:
        echo(f"note: {chosen.source}: {note}", err=True)
    asyncio.run(_serve(access, chosen))


async def _serve(access: Access, config: SchedulerConfig) -> None:
    """Schedule until somebody says stop."""
    import asyncio
    import signal

    from pumice.kube.api import Api
    from pumice.kube.session import Limits, Session
    from pumice.service.scheduler import Scheduler

    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for sign in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(sign, stop.set)
    async with Session(access, Limits()) as session:
        running = Scheduler(Api(session), config)
        work = asyncio.create_task(running.run())
        echo(f"scheduling {access.server}", err=True)
        await asyncio.wait({work, asyncio.ensure_future(stop.wait())}, return_when=asyncio.FIRST_COMPLETED)
        if work.done():
            work.result()
        work.cancel()
        await asyncio.gather(work, return_exceptions=True)
        await asyncio.wait_for(running.hands.done(), STOP_SECONDS)
