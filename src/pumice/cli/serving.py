"""Commands that work on a cluster until somebody stops them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import click

from pumice.cli.terminal import echo

if TYPE_CHECKING:
    from pumice.kube.api import Api
    from pumice.kube.kubeconfig import Access

STOP_SECONDS = 10.0
"""How long what is under way may take to be finished."""

Command = TypeVar("Command", bound=Callable[..., Any])


class Worker(Protocol):
    """Something that works until it is cancelled, and then finishes what is under way."""

    async def run(self) -> None:
        """Work."""

    async def done(self) -> None:
        """Wait for what is under way."""


def cluster_options(command: Command) -> Command:
    """The options that say which cluster is meant."""
    file = click.Path(exists=True, dir_okay=False, path_type=Path)
    command = click.option("--context", default="", help="A context of it other than the current one.")(command)
    return click.option("--kubeconfig", type=file, help="How to reach the cluster. [default: as kubectl]")(command)


def reach(kubeconfig: Path | None, context: str) -> Access:
    """How to reach the cluster that the options name."""
    from pumice.kube.errors import FieldError
    from pumice.kube.kubeconfig import read_kubeconfig

    try:
        return read_kubeconfig(kubeconfig, context=context)
    except FieldError as error:
        raise click.UsageError(str(error)) from None


def serve(access: Access, make: Callable[[Api], Worker], doing: str) -> None:
    """Work on a cluster until SIGTERM or Ctrl-C."""
    import asyncio

    asyncio.run(_serve(access, make, doing))


async def _serve(access: Access, make: Callable[[Api], Worker], doing: str) -> None:
    import asyncio
    import signal

    from pumice.kube.api import Api
    from pumice.kube.session import Session

    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for sign in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(sign, stop.set)
    async with Session(access) as session:
        worker = make(Api(session))
        work = asyncio.create_task(worker.run())
        echo(f"{doing} {access.server}", err=True)
        ends: set[asyncio.Future[Any]] = {work, asyncio.ensure_future(stop.wait())}
        await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
        if work.done():
            work.result()
        work.cancel()
        await asyncio.gather(work, return_exceptions=True)
        try:
            async with asyncio.timeout(STOP_SECONDS):
                await worker.done()
        except TimeoutError:
            echo("what was under way could not be finished in time", err=True)
