"""The output of ``pumice up``: its address, the lines of its processes and, on a terminal, a status line."""

from __future__ import annotations

import asyncio
import logging
import shlex
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from kubesim.controllers.nodes.node_lifecycle import is_simulated
from kubesim.stats import ClusterFigures, ClusterStats
from pumice.cli.daemons.daemon import HEALTHY
from pumice.cli.terminal import echo, terminal_width

if TYPE_CHECKING:
    from kubesim.server import RunningCluster, ServerSettings
    from pumice.cli.up.supervisor import SupervisedProcess

STATUS_SECONDS = 1.0
ERASE_LINE = "\r\x1b[K"
QUEUES_PREFIX = "queues.scheduling.volcano.sh/"  # where the store keeps them

SCHEDULER, CONTROLLERS, UI, AGENT = "scheduler", "controllers", "ui", "agent"
COMPONENT_MESSAGES = {
    (SCHEDULER, CONTROLLERS): (
        "scheduler and controllers are running: pods with schedulerName pumice or volcano are placed"
    ),
    (SCHEDULER,): "the scheduler is running without controllers: Volcano Jobs get no pods, and pods no podgroups",
    (CONTROLLERS,): "the controllers are running without a scheduler: bind pods yourself, or start pumice scheduler",
    (): "only the API and the simulated nodes are running: no scheduler, no controllers",
}


class StatusLineLog(logging.Handler):
    """Standard error: lines that stay and, on a terminal, below them one that is kept up to date."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self._status = ""

    def print_line(self, text: str) -> None:
        """A line that stays."""
        if self._status:
            click.echo(ERASE_LINE, nl=False, err=True, color=True)  # a control sequence, not a color
        echo(text, err=True)
        if self._status:
            click.echo(self._status, nl=False, err=True)

    def set_status(self, text: str) -> None:
        """Replace the status line."""
        self._status = text[: terminal_width() - 1]  # one that wraps cannot be taken back
        click.echo(f"{ERASE_LINE}{self._status}", nl=False, err=True, color=True)

    def end(self) -> None:
        """Stop the status line; its last text stays."""
        if self._status:
            click.echo(err=True)
        self._status = ""

    def emit(self, record: logging.LogRecord) -> None:
        """Print a log record of the server."""
        self.print_line(self.format(record))


def print_endpoint(
    settings: ServerSettings,
    running: RunningCluster,
    companions: Sequence[SupervisedProcess],
    asked: int | None,
    *,
    default_scheduler: bool = False,
    page: str = "",
) -> None:
    """Print the address and how to use it. Only the export line goes to standard output, for scripts."""
    kept = settings.data or "memory only"
    kubeconfig = settings.kubeconfig.absolute()
    names = [each.name for each in companions]
    count = running.api.store.count("nodes/")
    if AGENT in names:
        count = sum(is_simulated(node, running.api.identity) for node in running.api.list("nodes"))
    bold = click.style(running.server, bold=True)
    echo(f"Kubernetes API at {bold}, {count:,} simulated node{'' if count == 1 else 's'}, data in {kept}", err=True)
    if running.outside:
        echo(f"reachable from other machines as {running.outside}; the token is in {kubeconfig}", err=True)
    if asked is not None and asked < count:
        echo(
            f"{asked:,} nodes requested, but the data directory has {count:,}; remove some with kubectl delete node",
            err=True,
        )
    echo(COMPONENT_MESSAGES[tuple(name for name in names if name not in {UI, AGENT})], err=True)
    if AGENT in names:
        echo("pods run as processes of this machine; they go on when this command stops", err=True)
    if settings.unix_socket:
        echo(f"all users of this machine may submit, over {settings.unix_socket}; for kubectl: pumice login", err=True)
    if default_scheduler:
        echo("pods that name no scheduler are placed too", err=True)
    if page:
        echo(f"web page at {click.style(page, bold=True)}", err=True)
    echo(f"export KUBECONFIG={shlex.quote(str(kubeconfig))}")
    sys.stdout.flush()


async def refresh_status_line(
    running: RunningCluster, companions: Sequence[SupervisedProcess], lines: StatusLineLog
) -> None:
    """Keep one line up to date, until cancelled."""
    tally = ClusterStats(running.api)
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(tally.follow_pods())
        tasks.create_task(tally.follow_nodes())
        while True:
            await asyncio.sleep(STATUS_SECONDS)
            states = {companion.name: companion.state for companion in companions}
            queues = running.api.store.count(QUEUES_PREFIX)
            lines.set_status(status_text(tally.figures(), queues, states, running.server))


def status_text(now: ClusterFigures, count: int, states: dict[str, str], server: str) -> str:
    """The status line of the cluster; less important parts come last, where a narrow terminal cuts them."""
    nodes = f"{now.ready:,} of {now.nodes:,} nodes ready" if now.ready != now.nodes else f"{now.nodes:,} nodes ready"
    pods = ", ".join(f"{n:,} {phase.lower()}" for phase, n in now.phases.items()) or "none"
    wrong = {name: state for name, state in states.items() if state != HEALTHY}
    who = ", ".join(f"{name} {state}" for name, state in (wrong or dict([*states.items()][:1])).items())
    queues = f"{count:,} queue{'' if count == 1 else 's'}"
    return " | ".join([nodes, f"pods: {pods}", *([who] if who else []), queues, f"revision {now.revision:,}", server])
