"""``pumice webhooks``: admission for a real Kubernetes API, until stopped."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from pumice.cli.daemons.daemon import (
    MetricsAddress,
    cluster_access,
    cluster_options,
    metrics_option,
    run_daemon,
    schedulers_option,
)

if TYPE_CHECKING:
    from pumice.admission.webhooks.certificate_source import CertificateSource
    from pumice.admission.webhooks.server import Webhooks
    from pumice.kube.client.api import Api

FILE = click.Path(exists=True, dir_okay=False, path_type=Path)


@click.command()
@cluster_options
@click.option(
    "--listen",
    metavar="HOST:PORT",
    default=":9443",
    show_default=True,
    help="Address on which the API server reaches the webhooks.",
)
@click.option("--namespace", default="", help="Namespace of the Secret and the Service. [default: that of the context]")
@click.option("--service", default="pumice-webhooks", show_default=True, help="Service in front of the webhooks.")
@click.option(
    "--host", "hosts", multiple=True, help="Additional host name or address in the certificate; may be repeated."
)
@click.option(
    "--secret", default="pumice-webhooks", show_default=True, help="Secret that stores the generated certificate."
)
@click.option(
    "--tls-cert", type=FILE, help="TLS certificate file, instead of a generated certificate; reloaded when it changes."
)
@click.option("--tls-key", type=FILE, help="Private key file of --tls-cert.")
@click.option(
    "--tls-ca", type=FILE, help="CA file to write into the webhook configurations; without it they are not changed."
)
@click.option(
    "--configuration", default="pumice", show_default=True, help="Name of the webhook configurations to update."
)
@schedulers_option
@click.option(
    "--acts-for-others",
    "controllers",
    metavar="USER",
    multiple=True,
    help="User that creates objects for other users; a prefix if it ends in ':'. May be repeated.",
)
@click.option("--max-queue-depth", type=click.IntRange(1), help="Maximum depth of the queue tree. [default: 200]")
@metrics_option("127.0.0.1:8082")
def webhooks(
    kubeconfig: Path | None,
    context: str,
    listen: str,
    namespace: str,
    service: str,
    hosts: tuple[str, ...],
    secret: str,
    tls_cert: Path | None,
    tls_key: Path | None,
    tls_ca: Path | None,
    configuration: str,
    schedulers: frozenset[str],
    controllers: tuple[str, ...],
    max_queue_depth: int | None,
    answering: MetricsAddress,
) -> None:
    """Serve the admission webhooks.

    Answers the webhooks for queues, jobs, podgroups and pods that pumice install registers, over TLS. The command
    generates and renews the certificate, shares it between replicas in a Secret, and writes the CA into the webhook
    configurations.
    """
    if bool(tls_cert) != bool(tls_key) or (tls_ca and not tls_cert):
        raise click.UsageError("--tls-cert and --tls-key must be given together, and --tls-ca only with them")

    from pumice.admission import QUEUE_FINALIZER, Settings
    from pumice.admission.request import DEEPEST
    from pumice.admission.webhooks.certificate_source import FileCertificate, SecretCertificate
    from pumice.admission.webhooks.server import Webhooks
    from pumice.kube.client.sockets import bound
    from pumice.observability.probes import webhook_probes
    from pumice.observability.process_probes import AddressError, parse_address

    access = cluster_access(kubeconfig, context)
    place = namespace or access.namespace
    usual = Settings()
    settings = Settings(
        max_queue_depth=DEEPEST if max_queue_depth is None else max_queue_depth,
        schedulers=schedulers,
        controllers=(*usual.controllers, f"system:serviceaccount:{place}:", *controllers),
        queue_finalizer=QUEUE_FINALIZER,
    )
    try:
        at = bound(*parse_address(listen))
    except AddressError as error:
        raise click.BadParameter(str(error), param_hint="--listen") from None
    except OSError as error:
        raise click.ClickException(f"--listen {listen}: {error.strerror or error}") from None

    def make(api: Api) -> Webhooks:
        source: CertificateSource
        if tls_cert and tls_key:
            source = FileCertificate(tls_cert, tls_key, tls_ca)
        else:
            names = [f"{service}.{place}.svc", f"{service}.{place}.svc.cluster.local", *hosts]
            source = SecretCertificate(api, place, secret, names)
        return Webhooks(api, settings, at, source, configuration)

    run_daemon(access, make, "serving webhooks for", answering, webhook_probes)
