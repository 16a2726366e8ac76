"""``pumice up``: a whole cluster on this machine: API, simulated nodes, scheduler, controllers, and the web page."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from pumice.cli.garbage_collection import collect_rarely
from pumice.cli.terminal import echo
from pumice.cli.up.data_folder import (
    check_token,
    default_data_folder,
    kubeconfig_path,
    private_token,
    repair_folder,
)
from pumice.cli.up.shared_machine import DATA_FOLDER, parse_shared_options, share_machine, shared_options

if TYPE_CHECKING:
    import asyncio
    import socket
    from contextlib import AsyncExitStack

    from kubesim.server import RunningCluster, ServerSettings
    from pumice.cli.up.supervisor import SupervisedProcess
    from pumice.cli.up.up_output import StatusLineLog

DEFAULT_NODES = 3
MAX_NODES = 65_536  # as many as the addresses of pods allow
DEFAULT_PORT = 6440
UI_HOST = "127.0.0.1"
DEFAULT_UI_PORT = 6441
LOCAL_SOCKET_FILE = "api.sock"  # in the data directory
DECISION_LOG_FOLDER = "decisions"  # in the data directory
THREAD_SWITCH_SECONDS = 0.0005
DEFAULT_CAPACITY = "cpu=32,memory=256Gi,nvidia.com/gpu=8"


@click.command()
@click.option(
    "--nodes", type=click.IntRange(0, MAX_NODES), help="Number of simulated nodes. [default: 3 in a new data directory]"
)
@click.option(
    "--node-capacity",
    metavar="RESOURCES",
    help=f"Capacity of each new node; existing nodes keep theirs. [default: {DEFAULT_CAPACITY}]",
)
@click.option(
    "--nodes-file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="YAML file with the Node objects to simulate, instead of --nodes.",
)
@click.option(
    "--here",
    is_flag=True,
    help="Run pods as processes of this machine, which becomes a node; without simulated nodes unless --nodes.",
)
@click.option(
    "--here-capacity",
    metavar="RESOURCES",
    help="Capacity of this machine instead of what it has, for example cpu=8,nvidia.com/gpu=2; with --here.",
)
@click.option(
    "--here-reserve",
    metavar="RESOURCES",
    help="Resources of this machine that are kept for the system; with --here. [default: a twentieth of the memory]",
)
@shared_options
@click.option(
    "--data",
    type=click.Path(file_okay=False, path_type=Path),
    help="Data directory. [default: pumice in $XDG_DATA_HOME or ~/.local/share; with --shared /var/lib/pumice]",
)
@click.option(
    "--repair",
    is_flag=True,
    help="Before the start, if the data are damaged, go on with what can be read of them; the damaged files are kept.",
)
@click.option("--memory", is_flag=True, help="Keep all data in memory; it is lost when the command stops.")
@click.option(
    "--host",
    default="127.0.0.1",
    show_default=True,
    help="Address to listen on; other than loopback, with TLS and a token.",
)
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=DEFAULT_PORT,
    show_default=True,
    help="Port to listen on; 0 selects a free port.",
)
@click.option(
    "--token", envvar="PUMICE_TOKEN", help="Bearer token that clients must send, over TLS; also read from PUMICE_TOKEN."
)
@click.option(
    "--tls-cert",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="TLS certificate file, instead of a generated certificate.",
)
@click.option(
    "--tls-key", type=click.Path(exists=True, dir_okay=False, path_type=Path), help="Private key file of --tls-cert."
)
@click.option(
    "--speed",
    type=click.FloatRange(min=0, min_open=True, max=1_000_000),
    default=1.0,
    show_default=True,
    help="Speed of simulated containers: seconds of run time per second. The scheduler uses the wall clock.",
)
@click.option(
    "--kubeconfig",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Path to write the kubeconfig to. [default: in the data directory]",
)
@click.option("--max-queue-depth", type=click.IntRange(1), help="Maximum depth of the queue tree. [default: 200]")
@click.option(
    "--no-scheduler", is_flag=True, help="Do not start the scheduler; bind pods yourself or run another scheduler."
)
@click.option(
    "--default-scheduler",
    is_flag=True,
    help="Also place pods that name no scheduler, as kube-scheduler would (schedulerName default-scheduler).",
)
@click.option(
    "--no-controllers", is_flag=True, help="Do not start the controllers of queues, Volcano Jobs and podgroups."
)
@click.option(
    "--config",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Scheduler configuration file in Volcano's format.",
)
@click.option(
    "--decision-log",
    metavar="DIR",
    type=click.Path(file_okay=False, path_type=Path),
    help="Directory of the decision log, for pumice replay. [default: decisions in the data directory]",
)
@click.option(
    "--ui/--no-ui",
    default=True,
    envvar="PUMICE_UI",
    help="Start the web page of the cluster, on loopback, or do not.",
)
@click.option(
    "--ui-port",
    type=click.IntRange(0, 65535),
    help=f"Port of the web page; 0 selects a free port. [default: {DEFAULT_UI_PORT}, or a free port if it is in use]",
)
@click.option(
    "--metrics-address",
    metavar="HOST:PORT",
    help="Address on which the scheduler serves /metrics, /healthz and /readyz. [default: none]",
)
@click.option(
    "--verbose", "-v", is_flag=True, help="Print info messages of scheduler and controllers too, not only warnings."
)
def up(
    nodes: int | None,
    node_capacity: str | None,
    nodes_file: Path | None,
    here: bool,
    here_capacity: str | None,
    here_reserve: str | None,
    shared: bool,
    admins: str | None,
    socket: Path | None,
    data: Path | None,
    repair: bool,
    memory: bool,
    host: str,
    port: int,
    token: str | None,
    tls_cert: Path | None,
    tls_key: Path | None,
    speed: float,
    kubeconfig: Path | None,
    max_queue_depth: int | None,
    no_scheduler: bool,
    default_scheduler: bool,
    no_controllers: bool,
    config: Path | None,
    decision_log: Path | None,
    ui: bool,
    ui_port: int | None,
    metrics_address: str | None,
    verbose: bool,
) -> None:
    """Run a local cluster with simulated nodes.

    Starts a Kubernetes API, simulated nodes, the scheduler, the controllers and the web page of the cluster.

    \b
    pumice up --nodes 100 --node-capacity cpu=32,memory=256Gi,nvidia.com/gpu=8
    export KUBECONFIG=...          (the printed line)
    kubectl get nodes

    Acknowledged writes are on disk and available after a restart. The scheduler places pods with schedulerName pumice
    or volcano, including the pods of Volcano Jobs; with --default-scheduler, also pods that name no scheduler. An
    annotation of a pod sets how long it runs:

    \b
    pumice.dev/run-seconds: "30"
    """
    if memory and repair:
        raise click.UsageError("--memory and --repair are mutually exclusive")
    if memory and data:
        raise click.UsageError("--memory and --data are mutually exclusive")
    if nodes_file and (nodes is not None or node_capacity):
        raise click.UsageError(
            "--nodes-file defines the nodes and their capacity: it cannot be combined with --nodes or --node-capacity"
        )
    if here and memory:
        raise click.UsageError("--here and --memory are mutually exclusive: processes outlive the command")
    if (here_capacity or here_reserve) and not here:
        raise click.UsageError("--here-capacity and --here-reserve need --here")
    if bool(tls_cert) != bool(tls_key):
        raise click.UsageError("--tls-cert and --tls-key must be given together")
    if no_scheduler and (config or decision_log or metrics_address):
        raise click.UsageError("--config, --decision-log and --metrics-address cannot be combined with --no-scheduler")
    if no_scheduler and default_scheduler:
        raise click.UsageError("--default-scheduler and --no-scheduler are mutually exclusive")
    if not ui and ui_port is not None:
        raise click.UsageError("--ui-port and --no-ui are mutually exclusive")
    check_token(token)
    shared_options_given = parse_shared_options(shared=shared, admins=admins, socket=socket, here=here)

    from kubesim.http.auth import needs_tls

    _forbid_writing_by_others()
    usual_folder = DATA_FOLDER if shared_options_given else default_data_folder()
    folder = None if memory else (data or usual_folder).absolute()
    if here and folder:
        token = token or private_token(folder)
    if not tls_cert and not needs_tls(host, token or ""):
        from kubesim.asyncio_without_ssl import load_asyncio

        load_asyncio()  # before any other import of asyncio
    import asyncio

    from kubebase.field_error import FieldError
    from kubesim.kubelet.node_template import make_nodes, parse_capacity, read_nodes
    from kubesim.server import ServerSettings
    from pumice.admission.request import DEEPEST
    from pumice.cli.up.process_arguments import (
        agent_arguments,
        controllers_arguments,
        scheduler_arguments,
        ui_arguments,
    )
    from pumice.embedded.embedded_cluster import served_schedulers, with_pumice
    from pumice.embedded.identity import PUMICE

    try:
        capacity = parse_capacity(node_capacity) if node_capacity is not None else None
        if nodes_file:
            wanted = read_nodes(nodes_file)
        elif nodes is None and folder and (folder / PUMICE.database).exists():
            wanted = []  # those that are there go on
            if capacity:
                echo("--node-capacity is ignored without --nodes: existing nodes keep their capacity", err=True)
        else:
            usual = 0 if here else DEFAULT_NODES
            wanted = make_nodes(usual if nodes is None else nodes, capacity)
    except FieldError as error:
        raise click.UsageError(str(error)) from None
    if repair and folder:
        repair_folder(folder)
    # The writer's thread wants the interpreter for moments only; by default it waits up to 5 ms for each of them.
    sys.setswitchinterval(THREAD_SWITCH_SECONDS)
    collect_rarely()
    with kubeconfig_path(kubeconfig, folder) as place:
        settings = ServerSettings(
            data=folder,
            kubeconfig=place,
            nodes=wanted,
            host=host,
            port=port,
            token=token or "",
            local_socket=folder / LOCAL_SOCKET_FILE if here and folder else None,
            own_certificate=(tls_cert, tls_key) if tls_cert and tls_key else None,
            speed=speed,
        )
        viewer = None
        served = with_pumice(
            settings,
            max_queue_depth=DEEPEST if max_queue_depth is None else max_queue_depth,
            scheduler=not no_scheduler,
            controllers=not no_controllers,
            default_scheduler=default_scheduler,
        )
        if shared_options_given:
            served, viewer = share_machine(served, shared_options_given)
        recorded = decision_log or (settings.data / DECISION_LOG_FOLDER if settings.data else None)
        beside = [] if no_scheduler else [scheduler_arguments(settings, config, metrics_address, recorded)]
        beside += [] if no_controllers else [controllers_arguments(settings)]
        if default_scheduler:
            names = sorted(served_schedulers(default_scheduler=True))
            beside = [command + [f"--scheduler-name={name}" for name in names] for command in beside]
        with _ui_socket(ui_port, any_port=port == 0) if ui else nullcontext() as page:
            if page is not None:
                beside.append(ui_arguments(settings, page, None if no_scheduler else recorded, viewer))
            if here:
                beside.append(agent_arguments(settings, here_capacity, here_reserve, shared=shared))
            cluster = _LocalCluster(served, nodes, beside, default_scheduler=default_scheduler, verbose=verbose)
            cluster.page = page_url(page) if page is not None else ""
            asyncio.run(cluster.run())


def _forbid_writing_by_others() -> None:
    """Whatever the umask was, nobody else may write to the files of this process and of those that it starts."""
    import os

    os.umask(os.umask(0o077) | 0o022)


def page_url(page: socket.socket) -> str:
    """The address of the web page."""
    host, port = page.getsockname()
    return f"http://{host}:{port}"


@contextmanager
def _ui_socket(port: int | None, *, any_port: bool) -> Iterator[socket.socket]:
    """A bound socket that keeps a port for the web page, which listens there in a process of its own.

    The process may end and start again: nobody else can bind the port as long as this socket exists.
    """
    from pumice.kube.client.sockets import bound

    try:
        page = bound(UI_HOST, port if port is not None else 0 if any_port else DEFAULT_UI_PORT)
    except OSError as error:
        if port is not None:
            raise click.ClickException(f"--ui-port {port}: {error.strerror}; use 0 for any free port") from None
        page = bound(UI_HOST, 0)
    with page:
        yield page


class _InvalidInput(click.ClickException):
    """Invalid input that a child process has already reported."""

    exit_code = click.UsageError.exit_code


class _LocalCluster:
    """The embedded server with its supervised processes, from start to stop."""

    def __init__(
        self,
        settings: ServerSettings,
        asked: int | None,
        beside: list[list[str]],
        *,
        default_scheduler: bool,
        verbose: bool,
    ) -> None:
        self._settings = settings
        self._requested_nodes = asked
        self._commands = beside
        self._default_scheduler = default_scheduler
        self._verbose = verbose
        self._processes: list[SupervisedProcess] = []
        self.page = ""
        """The address of the web page; empty: there is none."""

    async def run(self) -> None:
        """Run until SIGTERM or SIGINT; a second signal kills the processes at once."""
        import asyncio
        import logging
        import signal
        from contextlib import AsyncExitStack

        from kubesim.storage import StorageFailed
        from pumice.cli.up.supervisor import CannotStartError
        from pumice.cli.up.up_output import StatusLineLog

        lines, stop, ourselves = StatusLineLog(), asyncio.Event(), asyncio.current_task()
        logging.getLogger().addHandler(lines)

        def hear() -> None:
            if stop.is_set() and ourselves:
                for companion in self._processes:
                    companion.kill()
                ourselves.cancel()
            stop.set()

        for sign in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(sign, hear)
        try:
            async with AsyncExitStack() as stack:
                running = await _start_server(stack, self._settings)
                await self._supervise(running, stop, lines)
        except StorageFailed as error:
            raise click.ClickException(str(error)) from None
        except CannotStartError as error:
            raise _InvalidInput(str(error)) from None
        except asyncio.CancelledError:
            raise click.Abort from None

    async def _supervise(self, running: RunningCluster, stop: asyncio.Event, lines: StatusLineLog) -> None:
        """Run the processes, print their state, and stop them before the server, which they need until their end."""
        import asyncio

        from pumice.cli.up.supervisor import SupervisedProcess
        from pumice.cli.up.up_output import print_endpoint, refresh_status_line

        self._processes += [
            SupervisedProcess(each[0], each, lines.print_line, verbose=self._verbose) for each in self._commands
        ]
        lives = [asyncio.create_task(companion.run()) for companion in self._processes]
        ends: set[asyncio.Future[Any]] = {asyncio.ensure_future(stop.wait()), running.broken, *lives}
        print_endpoint(
            self._settings,
            running,
            self._processes,
            self._requested_nodes,
            default_scheduler=self._default_scheduler,
            page=self.page,
        )
        line = (
            asyncio.create_task(refresh_status_line(running, self._processes, lines)) if sys.stderr.isatty() else None
        )
        try:
            await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
        finally:
            if line:
                line.cancel()
            lines.end()
        try:
            echo("stopping: waiting for writes in progress", err=True)
            await asyncio.gather(*(companion.stop() for companion in self._processes))
        finally:
            for life in lives:
                life.cancel()
            ended = await asyncio.gather(*lives, return_exceptions=True)
        if running.broken.done():
            running.broken.result()
        for error in ended:
            if isinstance(error, Exception):
                raise error


async def _start_server(stack: AsyncExitStack, settings: ServerSettings) -> RunningCluster:
    """Start the server, or raise an error that says why it cannot start."""
    import errno
    import socket

    from kubebase.field_error import FieldError
    from kubesim.server import running_cluster
    from kubesim.storage import DataDamaged, DataInUse

    try:
        return await stack.enter_async_context(running_cluster(settings))
    except FieldError as error:
        raise click.UsageError(str(error)) from None
    except (DataInUse, DataDamaged) as error:
        raise click.ClickException(str(error)) from None
    except socket.gaierror as error:
        raise click.UsageError(f"--host {settings.host}: {error.strerror}") from None
    except OSError as error:
        if error.errno == errno.EADDRNOTAVAIL:
            raise click.UsageError(f"--host {settings.host} is not an address of this machine") from None
        if error.errno == errno.EADDRINUSE:
            raise click.ClickException(_port_in_use(settings.port)) from None
        where = f"{error.filename}: " if error.filename else ""
        raise click.ClickException(f"{where}{error.strerror or error}") from None


def _port_in_use(port: int) -> str:
    from kubesim.storage.directory_lock import holder_of

    usual = holder_of(default_data_folder())  # most often by another pumice up
    by = f" by {usual}" if usual.endswith(f":{port}") else ""
    return f"port {port} is already in use{by}; use --port to select another, --port 0 for any free port"
