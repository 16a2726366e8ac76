"""The process around a command that runs until it is stopped: options, signals, health endpoints, shutdown.

A supervised process (the variable ``SUPERVISED_VARIABLE`` is set) also stops when its standard input ends. Its standard
input is a pipe whose other end only the supervisor holds, so the process ends with the supervisor, even if the
supervisor is killed. A supervised process reports its health on standard output: a line for each change, ``ok`` or the
reason why it is not healthy.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import click

from pumice.cli.garbage_collection import collect_rarely
from pumice.cli.terminal import echo

if TYPE_CHECKING:
    import asyncio
    from contextlib import AsyncExitStack

    from pumice.cli.daemons.leader_election import Election
    from pumice.kube.client.api import Api
    from pumice.kube.client.kubeconfig import Access
    from pumice.observability.process_probes import Address, Probes

STOP_TIMEOUT = 10.0
"""Seconds to finish writes in progress after a stop."""
SUPERVISED_VARIABLE = "PUMICE_SUPERVISED"
"""The environment variable that is set for a supervised process."""
HEALTHY = "ok"
UNHEALTHY_POLL_SECONDS, HEALTHY_POLL_SECONDS, SMALL_POLL_SECONDS = 0.1, 1.0, 10.0
"""Seconds between two health checks of a supervised process: while it is not healthy, while it is, and while a small
one is, which should rest.
"""
LOG_LEVEL_VARIABLE = "PUMICE_LOG"
"""The environment variable with the log level."""
LOG_LEVELS = ("debug", "info", "warning", "error")

Command = TypeVar("Command", bound=Callable[..., Any])
AnyWorker = TypeVar("AnyWorker", bound="Worker")


class Worker(Protocol):
    """Something that works until it is cancelled, and then finishes what is under way."""

    async def run(self) -> None:
        """Work."""

    async def done(self) -> None:
        """Wait for what is under way."""


def cluster_options(command: Command) -> Command:
    """The options that select a cluster."""
    file = click.Path(exists=True, dir_okay=False, path_type=Path)
    command = click.option(
        "--context", default="", help="Context of the kubeconfig to use. [default: the current context]"
    )(command)
    return click.option("--kubeconfig", type=file, help="Path to the kubeconfig file. [default: as kubectl]")(command)


def schedulers_option(command: Command) -> Command:
    """The option that selects pods by their schedulerName."""
    return click.option(
        "--scheduler-name",
        "schedulers",
        multiple=True,
        metavar="NAME",
        callback=_scheduler_names,
        help="schedulerName of the pods to handle; may be repeated. [default: pumice and volcano]",
    )(command)


def _scheduler_names(context: click.Context, option: click.Parameter, value: tuple[str, ...]) -> frozenset[str]:
    from pumice.kube.decode.convert import SCHEDULERS

    return frozenset(value) or SCHEDULERS


@dataclass(frozen=True, slots=True)
class MetricsAddress:
    """The address of the health and metrics endpoints."""

    address: Address | None
    explicit: bool  # on the command line: then a failure to bind it is an error


def metrics_option(default: str) -> Callable[[Command], Command]:
    """The option for the address of the health and metrics endpoints."""
    return click.option(
        "--metrics-address",
        "answering",
        metavar="HOST:PORT",
        default=default,
        show_default=True,
        callback=_metrics_address,
        help="Address of /metrics, /healthz and /readyz; port 0 selects a free port, '' disables them.",
    )


def _metrics_address(context: click.Context, option: click.Parameter, value: str) -> MetricsAddress:
    from click.core import ParameterSource

    from pumice.observability.process_probes import AddressError, parse_address

    chosen = context.get_parameter_source("answering") is not ParameterSource.DEFAULT
    try:
        return MetricsAddress(parse_address(value) if value else None, chosen)
    except AddressError as error:
        raise click.BadParameter(str(error)) from None


def cluster_access(kubeconfig: Path | None, context: str) -> Access:
    """The access to the cluster of the options, else to that of kubectl; in a pod, to its own cluster."""
    from kubebase.field_error import FieldError
    from pumice.kube.client.in_cluster import find_access

    try:
        return find_access(kubeconfig, context)
    except FieldError as error:
        raise click.UsageError(str(error)) from None


def run_daemon(
    access: Access,
    make: Callable[[Api], AnyWorker],
    doing: str,
    answering: MetricsAddress,
    probes: Callable[[AnyWorker], Probes],
    election: Election | None = None,
    *,
    small: bool = False,
) -> None:
    """Run a worker on a cluster until SIGTERM or Ctrl-C, with health and metrics endpoints.

    ``small``: for a worker that should need next to nothing while nothing happens.
    """
    import asyncio

    from pumice.kube.leader_election import LostError

    _configure_logging()
    collect_rarely()
    try:
        asyncio.run(_run_until_stopped(access, make, doing, answering, probes, election, small=small))
    except LostError as error:
        raise click.ClickException(str(error)) from None


def _configure_logging() -> None:
    import logging

    level = os.environ.get(LOG_LEVEL_VARIABLE) or "warning"
    if level not in LOG_LEVELS:
        raise click.UsageError(f"{LOG_LEVEL_VARIABLE}: unknown level {level!r}; must be one of {', '.join(LOG_LEVELS)}")
    logging.basicConfig(level=level.upper(), format="%(message)s")


async def _run_until_stopped(
    access: Access,
    make: Callable[[Api], AnyWorker],
    doing: str,
    answering: MetricsAddress,
    probes: Callable[[AnyWorker], Probes],
    election: Election | None,
    *,
    small: bool,
) -> None:
    import asyncio
    import signal
    from contextlib import AsyncExitStack

    from pumice.cli.daemons.leader_election import join_election
    from pumice.kube.client.api import Api
    from pumice.kube.client.transport import Limits, Session

    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for sign in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(sign, stop.set)
    supervised = bool(os.environ.pop(SUPERVISED_VARIABLE, ""))  # child processes must not inherit it
    abandoned = _stop_on_end_of_input(stop) if supervised else asyncio.Event()
    async with AsyncExitStack() as stack:
        part = await stack.enter_async_context(join_election(access, election))
        session = await stack.enter_async_context(
            Session(access, part.limits(Limits()), may_write=lambda: part.is_leader)
        )
        worker = make(Api(session))
        asked = part.probes(probes(worker))
        if answering.address is not None:
            await _serve_endpoints(stack, answering, asked)
        work = asyncio.create_task(part.run_while_leading(worker.run))
        if supervised:
            reports = asyncio.create_task(_report_health(asked, small=small))
            stack.callback(reports.cancel)
        else:
            echo(f"{doing} {access.server}", err=True)
        ends: set[asyncio.Future[Any]] = {work, asyncio.ensure_future(stop.wait())}
        await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
        if work.done():
            work.result()
        work.cancel()
        await asyncio.gather(work, return_exceptions=True)
        if abandoned.is_set():  # the cluster has ended with the supervisor
            return
        try:
            async with asyncio.timeout(STOP_TIMEOUT):
                await worker.done()
        except TimeoutError:
            echo("stopped before all writes in progress were finished", err=True)
            return  # and may yet arrive: the lease is to run out first
        await part.release()


def _stop_on_end_of_input(stop: asyncio.Event) -> asyncio.Event:
    """Stop when standard input ends; gives what is set then."""
    import asyncio

    ended = asyncio.Event()
    loop = asyncio.get_running_loop()

    def read() -> None:
        if not os.read(sys.stdin.fileno(), 4096):
            loop.remove_reader(sys.stdin)
            ended.set()
            stop.set()

    loop.add_reader(sys.stdin, read)
    return ended


async def _report_health(probes: Probes, *, small: bool) -> None:
    """Print the health whenever it changes."""
    import asyncio

    said, resting = "", SMALL_POLL_SECONDS if small else HEALTHY_POLL_SECONDS
    while True:
        now = (probes.alive() or probes.ready() or HEALTHY).splitlines()[0]
        if now != said:
            echo(now)
            said = now
        await asyncio.sleep(resting if now == HEALTHY else UNHEALTHY_POLL_SECONDS)


async def _serve_endpoints(stack: AsyncExitStack, answering: MetricsAddress, probes: Probes) -> None:
    """Answer for as long as the stack lasts. A default address that is taken is no reason not to work."""
    from pumice.observability.endpoints import Endpoints

    assert answering.address is not None
    host, port = answering.address
    try:
        endpoints = await stack.enter_async_context(Endpoints(answering.address, probes))
    except OSError as error:
        trouble = f"--metrics-address {host}:{port}: {error.strerror or error}"
        if answering.explicit:
            raise click.ClickException(trouble) from None
        echo(f"note: {trouble}; continuing without /metrics, /healthz and /readyz", err=True)
    else:
        if port == 0:
            echo(f"metrics at {endpoints.url}/metrics", err=True)
