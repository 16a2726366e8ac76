"""``pumice up``: a Kubernetes API with simulated nodes, on this machine."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from pumice.cli.terminal import echo

if TYPE_CHECKING:
    from pumice.apiserver.tally import Figures
    from pumice.apiserver.up import Cluster, Settings

DEFAULT_NODES = 3
DEFAULT_PORT = 6440
STATUS_SECONDS = 1.0
SWITCH_SECONDS = 0.0005
DEFAULT_CAPACITY = "cpu=32,memory=256Gi,nvidia.com/gpu=8"


@click.command()
@click.option("--nodes", type=click.IntRange(0, 100_000), help="How many simulated nodes. [default: 3 on new data]")
@click.option(
    "--node-capacity",
    metavar="RESOURCES",
    default=DEFAULT_CAPACITY,
    show_default=True,
    help="What each of them has.",
)
@click.option(
    "--nodes-file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Node objects to simulate instead (YAML).",
)
@click.option(
    "--data",
    type=click.Path(file_okay=False, path_type=Path),
    help="Where to keep everything. [default: a folder in your data directory]",
)
@click.option("--memory", is_flag=True, help="Keep nothing: everything is gone when it stops.")
@click.option(
    "--host", default="127.0.0.1", show_default=True, help="Where to listen; beyond loopback with TLS and a token."
)
@click.option(
    "--port", type=click.IntRange(0, 65535), default=DEFAULT_PORT, show_default=True, help="0 takes any free port."
)
@click.option("--token", envvar="PUMICE_TOKEN", help="What clients must present; also taken from PUMICE_TOKEN.")
@click.option(
    "--tls-cert", type=click.Path(exists=True, dir_okay=False, path_type=Path), help="A certificate of yours."
)
@click.option(
    "--tls-key", type=click.Path(exists=True, dir_okay=False, path_type=Path), help="The key that belongs to it."
)
@click.option(
    "--speed",
    type=click.FloatRange(min=0, min_open=True, max=1_000_000),
    default=1.0,
    show_default=True,
    help="How many seconds of simulated run time pass in one second.",
)
@click.option(
    "--kubeconfig",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Where to write the kubeconfig. [default: beside the data]",
)
def up(
    nodes: int | None,
    node_capacity: str,
    nodes_file: Path | None,
    data: Path | None,
    memory: bool,
    host: str,
    port: int,
    token: str | None,
    tls_cert: Path | None,
    tls_key: Path | None,
    speed: float,
    kubeconfig: Path | None,
) -> None:
    """Serve a Kubernetes-compatible API with simulated nodes, until stopped.

    \b
    pumice up --nodes 100 --node-capacity cpu=32,memory=256Gi,nvidia.com/gpu=8
    export KUBECONFIG=...          (the line it prints)
    kubectl get nodes

    Everything acknowledged is on disk and there again at the next start. Pods bound to simulated nodes run for
    as long as their annotation pumice.dev/run-seconds says.
    """
    if memory and data:
        raise click.UsageError("--memory keeps nothing, so --data has no meaning beside it; leave one of them out")
    if nodes_file and nodes is not None:
        raise click.UsageError("--nodes-file says which nodes there are, so --nodes has no meaning beside it")
    if bool(tls_cert) != bool(tls_key):
        raise click.UsageError("--tls-cert and --tls-key belong together; give both or neither")

    import asyncio

    from pumice.apiserver.nodes.description import nodes as make_nodes
    from pumice.apiserver.nodes.description import parse_capacity, read_nodes
    from pumice.apiserver.up import Settings
    from pumice.kube.errors import FieldError

    folder = None if memory else data or data_folder()
    beside = folder or runtime_folder()
    try:
        if nodes_file:
            wanted = read_nodes(nodes_file)
        elif nodes is None and folder is not None and (folder / "pumice.db").exists():
            wanted = []  # those that are there go on
        else:
            wanted = make_nodes(DEFAULT_NODES if nodes is None else nodes, parse_capacity(node_capacity))
    except FieldError as error:
        raise click.UsageError(str(error)) from None
    settings = Settings(
        data=folder,
        kubeconfig=kubeconfig or beside / "kubeconfig",
        certificates=beside / "tls",
        nodes=wanted,
        host=host,
        port=port,
        token=token or "",
        own_certificate=(tls_cert, tls_key) if tls_cert and tls_key else None,
        speed=speed,
    )
    # The writer's thread wants the interpreter for moments only; by default it waits up to 5 ms for each of them.
    sys.setswitchinterval(SWITCH_SECONDS)
    asyncio.run(_serve(settings))


def data_folder() -> Path:
    """Where a user's data goes, by the conventions of the system."""
    import os

    home = os.environ.get("XDG_DATA_HOME")
    return (Path(home) if home else Path.home() / ".local" / "share") / "pumice"


def runtime_folder() -> Path:
    """Where files go that need not outlive the process."""
    import os
    import tempfile

    folder = os.environ.get("XDG_RUNTIME_DIR")
    return Path(folder) / f"pumice-{os.getpid()}" if folder else Path(tempfile.mkdtemp(prefix="pumice-"))


async def _serve(settings: Settings) -> None:
    """Be up until somebody says stop."""
    import asyncio
    import signal

    from pumice.apiserver.storage import Damaged, DataHeld, StorageFailed
    from pumice.apiserver.up import cluster

    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for sign in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(sign, stop.set)
    try:
        async with cluster(settings) as running:
            _announce(settings, running)
            ends: set[asyncio.Future[Any]] = {asyncio.ensure_future(stop.wait()), running.broken}
            line = asyncio.create_task(_status_line(running)) if sys.stderr.isatty() else None
            await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
            if line:
                line.cancel()
                click.echo(err=True)
            if running.broken.done():
                running.broken.result()
            echo("stopping: finishing what is under way", err=True)
    except (DataHeld, Damaged, StorageFailed) as error:
        raise click.ClickException(str(error)) from None
    except OSError as error:
        raise click.ClickException(_explained(error, settings)) from None


def _explained(error: OSError, settings: Settings) -> str:
    import errno

    if error.errno == errno.EADDRINUSE:
        return f"port {settings.port} is taken; choose another with --port, or --port 0 for any that is free"
    where = f"{error.filename}: " if error.filename else ""
    return f"{where}{error.strerror or error}"


def _announce(settings: Settings, running: Cluster) -> None:
    """Say where it is and how to use it. The export line alone goes to standard output, for scripts."""
    import shlex

    kept = settings.data or "memory only"
    count = running.api.store.count("nodes/")
    bold = click.style(running.server, bold=True)
    echo(f"Kubernetes API at {bold}, {count:,} simulated node{'' if count == 1 else 's'}, data in {kept}", err=True)
    echo(f"export KUBECONFIG={shlex.quote(str(settings.kubeconfig.absolute()))}")


async def _status_line(running: Cluster) -> None:
    """Keep one line up to date: nodes, pods, and how much is written."""
    import asyncio

    from pumice.apiserver.tally import Tally

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
            click.echo(f"\r\x1b[K{status_text(now, rate)}", nl=False, err=True)


def status_text(now: Figures, rate: float) -> str:
    """One line that says how the cluster is doing."""
    nodes = f"{now.ready:,} of {now.nodes:,} nodes ready" if now.ready != now.nodes else f"{now.nodes:,} nodes ready"
    pods = ", ".join(f"{n:,} {phase.lower()}" for phase, n in now.phases.items()) or "none"
    return f"{nodes} | pods: {pods} | {rate:,.0f} writes/s | revision {now.revision:,}"
