"""``pumice ui``: the cluster on a web page, until stopped."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import click

from pumice.cli.daemons.daemon import (
    SUPERVISED_VARIABLE,
    MetricsAddress,
    cluster_access,
    cluster_options,
    metrics_option,
    run_daemon,
)
from pumice.cli.terminal import echo

if TYPE_CHECKING:
    import ssl

    from pumice.kube.client.api import Api
    from pumice.ui.access import Authenticator
    from pumice.ui.picture import ClusterPicture

FILE = click.Path(exists=True, dir_okay=False, path_type=Path)
DEFAULT_LISTEN = "127.0.0.1:6441"


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
@click.option(
    "--cluster-auth",
    is_flag=True,
    help="Viewers show a token of the cluster, over TLS, and see what its user may read.",
)
@click.option("--tls-cert", type=FILE, help="TLS certificate file.")
@click.option("--tls-key", type=FILE, help="Private key file of --tls-cert.")
@click.option(
    "--self-signed", is_flag=True, help="Serve a certificate that is generated at the start, instead of --tls-cert."
)
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
@metrics_option("")
def ui(
    kubeconfig: Path | None,
    context: str,
    listen: str,
    token: str | None,
    cluster_auth: bool,
    tls_cert: Path | None,
    tls_key: Path | None,
    self_signed: bool,
    decision_log: Path | None,
    history: str,
    answering: MetricsAddress,
) -> None:
    """Show the cluster on a web page.

    Serves a page with the tree of queues, jobs, nodes and decisions, which follows the cluster while it is open. The
    command only reads. On loopback everybody on this machine may see the page; on other addresses it needs TLS, and
    viewers a token: one for all (--token), or their own of the cluster (--cluster-auth).
    """
    from pumice.kube.client.sockets import bound
    from pumice.observability.process_probes import AddressError, parse_address
    from pumice.ui.process import UiProcess, UiSettings
    from pumice.ui.request_guard import LOOPBACK_NAMES, RequestGuard, is_loopback

    try:
        host, port = parse_address(listen)
    except AddressError as error:
        raise click.BadParameter(str(error), param_hint="--listen") from None
    if bool(tls_cert) != bool(tls_key):
        raise click.UsageError("--tls-cert and --tls-key must be given together")
    if self_signed and tls_cert:
        raise click.UsageError("--self-signed and --tls-cert are mutually exclusive")
    if token is not None and cluster_auth:
        raise click.UsageError("--token and --cluster-auth are mutually exclusive")
    if token is not None and not token.strip():
        raise click.UsageError("--token (or PUMICE_UI_TOKEN) must not be empty")
    guarded, local = bool(token or cluster_auth), is_loopback(host)
    if not local and not ((tls_cert or self_signed) and guarded):
        raise click.UsageError(
            f"--listen {listen} is reachable from other machines: it needs --tls-cert or --self-signed, and --token or "
            "--cluster-auth"
        )
    access = cluster_access(kubeconfig, context)
    tls = _tls_context(tls_cert, tls_key, host) if tls_cert or self_signed else None
    try:
        at = bound(host, port)
    except OSError as error:
        raise click.ClickException(f"--listen {listen}: {error.strerror or error}") from None
    settings = UiSettings(
        at,
        access.server,
        RequestGuard(None if guarded and tls else LOOPBACK_NAMES),
        lambda api, picture: _authenticator(token, cluster_auth, api, picture),
        tls,
        decision_log,
        history,
        (*(("--kubeconfig", str(kubeconfig)) if kubeconfig else ()), *(("--context", context) if context else ())),
    )
    if SUPERVISED_VARIABLE not in os.environ:
        scheme, (name, number) = "https" if tls else "http", at.getsockname()[:2]
        echo(f"web page at {scheme}://{f'[{name}]' if ':' in name else name}:{number}", err=True)
    run_daemon(access, lambda api: UiProcess(api, settings), "showing", answering, lambda process: process.probes())


def _authenticator(token: str | None, cluster_auth: bool, api: Api, picture: ClusterPicture) -> Authenticator:
    from pumice.ui.access import EverybodyAllowed, SharedToken
    from pumice.ui.cluster_tokens import ClusterTokens

    if cluster_auth:
        return ClusterTokens(api, lambda: picture.namespaces)
    return SharedToken(token) if token else EverybodyAllowed()


def _tls_context(certificate: Path | None, key: Path | None, host: str) -> ssl.SSLContext:
    """The TLS settings of the server, with the certificate of the files, or else a new one."""
    import ssl
    from tempfile import TemporaryDirectory

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        if certificate is not None:
            context.load_cert_chain(certificate, key)
            return context
    except (OSError, ssl.SSLError) as error:
        raise click.UsageError(f"--tls-cert {certificate}: {error}") from None
    from socket import gethostname

    from kubebase.certificates import issue

    made = issue(dict.fromkeys(filter(None, (host, gethostname(), "localhost"))), common_name="pumice-ui")
    with TemporaryDirectory(prefix="pumice-tls-") as folder:  # OpenSSL reads files only
        path = Path(folder) / "server.pem"
        path.touch(mode=0o600)
        path.write_bytes(made.certificate + b"\n" + made.key)
        context.load_cert_chain(path)
    return context
