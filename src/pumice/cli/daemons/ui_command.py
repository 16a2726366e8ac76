"""``pumice ui``: the cluster on a web page, until stopped."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import click

from pumice.cli.daemons.daemon import SUPERVISED_VARIABLE, MetricsAddress, cluster_access, cluster_options, run_daemon
from pumice.cli.terminal import echo

if TYPE_CHECKING:
    import ssl

    from pumice.kube.client.api import Api
    from pumice.ui.access import Authenticator

FILE = click.Path(exists=True, dir_okay=False, path_type=Path)
DEFAULT_LISTEN = "127.0.0.1:6441"
NO_METRICS = MetricsAddress(None, explicit=False)


@click.command()
@cluster_options
@click.option(
    "--listen",
    metavar="HOST:PORT",
    default=DEFAULT_LISTEN,
    show_default=True,
    help="Address of the page; port 0 selects a free port. Other than loopback, with TLS and authentication.",
)
@click.option(
    "--token",
    envvar="PUMICE_UI_TOKEN",
    help="Bearer token that viewers must have, over TLS; also read from PUMICE_UI_TOKEN.",
)
@click.option("--tls-cert", type=FILE, help="TLS certificate file.")
@click.option("--tls-key", type=FILE, help="Private key file of --tls-cert.")
@click.option(
    "--decision-log",
    metavar="DIR",
    type=click.Path(file_okay=False, path_type=Path),
    help="Directory of the scheduler's decision log, for decisions with their numbers and the tree as it was.",
)
@click.option(
    "--history",
    metavar="FILE|URL",
    default="",
    help="History of queues: the file of pumice scheduler --history, or the address of its endpoint /history.",
)
def ui(
    kubeconfig: Path | None,
    context: str,
    listen: str,
    token: str | None,
    tls_cert: Path | None,
    tls_key: Path | None,
    decision_log: Path | None,
    history: str,
) -> None:
    """Show the cluster on a web page.

    Serves a page with the tree of queues, jobs, nodes and decisions, which follows the cluster while it is open. The
    command only reads.
    """
    if bool(tls_cert) != bool(tls_key):
        raise click.UsageError("--tls-cert and --tls-key must be given together")

    from pumice.kube.client.sockets import bound
    from pumice.observability.endpoints import AddressError, parse_address
    from pumice.ui.access import EverybodyAllowed, SharedToken
    from pumice.ui.process import UiProcess, UiSettings
    from pumice.ui.request_guard import LOOPBACK_NAMES, RequestGuard, is_loopback

    try:
        host, port = parse_address(listen)
    except AddressError as error:
        raise click.BadParameter(str(error), param_hint="--listen") from None
    local = is_loopback(host)
    if not local and not (tls_cert and token):
        raise click.UsageError(f"--listen {listen} is reachable from other machines: --tls-cert and --token are needed")
    access = cluster_access(kubeconfig, context)
    try:
        at = bound(host, port)
    except OSError as error:
        raise click.ClickException(f"--listen {listen}: {error.strerror or error}") from None

    def authenticator(api: Api) -> Authenticator:
        return SharedToken(token) if token else EverybodyAllowed()

    settings = UiSettings(
        at,
        access.server,
        RequestGuard(LOOPBACK_NAMES if local else None),
        authenticator,
        _tls_context(tls_cert, tls_key) if tls_cert and tls_key else None,
        decision_log,
        history,
        (*(("--kubeconfig", str(kubeconfig)) if kubeconfig else ()), *(("--context", context) if context else ())),
    )
    if SUPERVISED_VARIABLE not in os.environ:
        scheme, (name, number) = "https" if tls_cert else "http", at.getsockname()[:2]
        echo(f"web page at {scheme}://{f'[{name}]' if ':' in name else name}:{number}", err=True)
    run_daemon(access, lambda api: UiProcess(api, settings), "showing", NO_METRICS, lambda process: process.probes())


def _tls_context(certificate: Path, key: Path) -> ssl.SSLContext:
    import ssl

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        context.load_cert_chain(certificate, key)
    except (OSError, ssl.SSLError) as error:
        raise click.UsageError(f"--tls-cert {certificate}: {error}") from None
    return context
