"""What ``pumice up`` prints: where it is, and, on a terminal, how it is doing."""

from __future__ import annotations

import asyncio
import shlex
from typing import TYPE_CHECKING

import click

from pumice.apiserver.tally import Figures, Tally
from pumice.cli.terminal import echo, width

if TYPE_CHECKING:
    from pumice.apiserver.up import Cluster, Settings

STATUS_SECONDS = 1.0


def announce(settings: Settings, running: Cluster, asked: int | None) -> None:
    """Say where it is and how to use it. The export line alone goes to standard output, for scripts."""
    kept = settings.data or "memory only"
    kubeconfig = settings.kubeconfig.absolute()
    count = running.api.store.count("nodes/")
    bold = click.style(running.server, bold=True)
    echo(f"Kubernetes API at {bold}, {count:,} simulated node{'' if count == 1 else 's'}, data in {kept}", err=True)
    if running.outside:
        echo(f"reachable from other machines as {running.outside}; the token is in {kubeconfig}", err=True)
    if asked is not None and asked < count:
        echo(f"{asked:,} nodes asked for, {count:,} are there; kubectl delete node removes some", err=True)
    echo("no scheduler runs here yet: start one with pumice scheduler, or bind pods yourself", err=True)
    echo(f"export KUBECONFIG={shlex.quote(str(kubeconfig))}")


async def keep_status_line(running: Cluster) -> None:
    """Keep one line up to date, until cancelled."""
    tally = Tally(running.api)
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(tally.follow_pods())
        tasks.create_task(tally.follow_nodes())
        before = running.api.store.revision
        while True:
            await asyncio.sleep(STATUS_SECONDS)
            now = tally.figures()
            rate = (now.revision - before) / STATUS_SECONDS
            before = now.revision
            text = status_text(now, rate, running.server)[: width() - 1]  # a line that wraps cannot be taken back
            click.echo(f"\r\x1b[K{text}", nl=False, err=True)


def status_text(now: Figures, rate: float, server: str) -> str:
    """One line that says how the cluster is doing; what matters least comes last."""
    nodes = f"{now.ready:,} of {now.nodes:,} nodes ready" if now.ready != now.nodes else f"{now.nodes:,} nodes ready"
    pods = ", ".join(f"{n:,} {phase.lower()}" for phase, n in now.phases.items()) or "none"
    return f"{nodes} | pods: {pods} | {rate:,.0f} writes/s | {server}"
