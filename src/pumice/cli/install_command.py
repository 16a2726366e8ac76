"""``pumice install`` and ``pumice uninstall``: into a Kubernetes cluster, and out of it."""

from __future__ import annotations

from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from pumice.cli.daemons.daemon import cluster_access, cluster_options
from pumice.cli.terminal import echo

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pumice.install.install_options import InstallOptions
    from pumice.install.volcano_takeover import VolcanoInstallation
    from pumice.kube.client.sync_client import Client

DEFAULT_NAMESPACE = "pumice-system"
namespace_option = click.option(
    "--namespace", "-n", default=DEFAULT_NAMESPACE, show_default=True, help="Where it runs."
)


@click.command()
@cluster_options
@namespace_option
@click.option("--image", help="The image that is run. [default: pumice, with this version]")
@click.option("--replicas", type=click.IntRange(1, 9), default=2, show_default=True, help="Of each component.")
@click.option(
    "--config",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="The scheduler's configuration. [default: the one that is there, else the built-in]",
)
@click.option("--no-webhooks", is_flag=True, help="Without rules of admission: nothing is filled in, nothing refused.")
@click.option("--webhook-url", default="", metavar="URL", help="Where webhooks run, if that is not in the cluster.")
@click.option("--service-monitor", is_flag=True, help="Tell the Prometheus operator of the metrics.")
@click.option("--take-over", is_flag=True, help="Stop a Volcano that is there, and do all of its work.")
@click.option("--force", is_flag=True, help="Set back what others have changed in what was installed.")
@click.option("--wait", "seconds", type=click.FloatRange(0), metavar="SECONDS", help="Until everything works.")
@click.option("--dry-run", is_flag=True, help="Print the manifests, change nothing.")
def install(
    kubeconfig: Path | None,
    context: str,
    namespace: str,
    image: str | None,
    replicas: int,
    config: Path | None,
    no_webhooks: bool,
    webhook_url: str,
    service_monitor: bool,
    take_over: bool,
    force: bool,
    seconds: float | None,
    dry_run: bool,
) -> None:
    """Install into a cluster, or bring what is there up to date.

    If Volcano is there it is left alone: then only pods that name the scheduler pumice are placed, and Volcano's jobs,
    definitions and webhooks stay its own. --take-over stops it and takes all of that over.

    What you have changed since in what was installed is not set back: if it would have to be, nothing is done and the
    fields are named. --force sets them back.
    """
    from pumice.install.install_options import InstallOptions

    _check_webhook_url(webhook_url)
    text = _read_valid_config(config) if config else None
    given: dict[str, Any] = {"image": image} if image else {}
    given |= {"configuration": text} if text is not None else {}
    choices = InstallOptions(
        namespace=namespace,
        replicas=replicas,
        webhooks=not no_webhooks,
        webhook_url=webhook_url,
        service_monitor=service_monitor,
        **given,
    )
    if dry_run:
        _print_manifests(choices, kubeconfig, context, take_over=take_over)
        return
    with _cluster_client(kubeconfig, context) as client:
        _install(client, choices, take_over=take_over, configured=config is not None, force=force)
        if seconds:
            _wait_available(client, choices, seconds)


def _install(client: Client, choices: InstallOptions, *, take_over: bool, configured: bool, force: bool) -> None:
    from pumice.install import installed_namespace
    from pumice.install.apply import apply, dry_run_apply
    from pumice.install.installed_kinds import KINDS
    from pumice.install.manifests import ACTIVE_KINDS, CREATE_ONLY_KINDS, all_manifests
    from pumice.install.uninstall import delete_obsolete
    from pumice.install.volcano_takeover import find_volcano, stop_volcano

    installed_namespace.check_namespace(client, choices.namespace)
    volcano = find_volcano(client)
    choices = _options_beside_volcano(choices, volcano, take_over=take_over)
    wanted = all_manifests(choices)
    once = CREATE_ONLY_KINDS - {"ConfigMap"} if configured else CREATE_ONLY_KINDS
    meant = {"ConfigMap": configured, "CustomResourceDefinition": take_over}  # asked for by name, so no surprise
    forced = {kind for kind in KINDS if force or meant.get(kind)}
    dry_run_apply(client, wanted, once=once, forced=forced)
    for line in apply(client, (one for one in wanted if one["kind"] not in ACTIVE_KINDS), once=once, forced=forced):
        echo(line)
    if volcano and take_over:
        for line in stop_volcano(client, volcano):
            echo(line)
    for line in apply(client, (one for one in wanted if one["kind"] in ACTIVE_KINDS), once=once, forced=forced):
        echo(line)
    for line in delete_obsolete(client, choices, wanted):
        echo(line)


def _wait_available(client: Client, choices: InstallOptions, seconds: float) -> None:
    from pumice.install.apply import await_available
    from pumice.install.manifests import all_manifests

    for line in await_available(client, all_manifests(choices), seconds):
        echo(line)


def _options_beside_volcano(
    choices: InstallOptions, volcano: VolcanoInstallation, *, take_over: bool
) -> InstallOptions:
    """What is chosen where Volcano is; says so."""
    from dataclasses import replace

    if not volcano or take_over:
        return choices
    note = "left alone; only pods with schedulerName pumice are ours (--take-over does all of its work)"
    echo(f"note: Volcano is here ({volcano}): {note}", err=True)
    return replace(choices, beside_volcano=True)


def _print_manifests(choices: InstallOptions, kubeconfig: Path | None, context: str, *, take_over: bool) -> None:
    """Print what would be applied: as for this cluster, if there is one."""
    import yaml

    from pumice.install import installed_namespace
    from pumice.install.manifests import all_manifests
    from pumice.install.volcano_takeover import find_volcano
    from pumice.kube.client.api_errors import ApiError, UnreachableError

    try:
        with _cluster_client(kubeconfig, context) as client:
            choices = _options_beside_volcano(choices, find_volcano(client), take_over=take_over)
            found = installed_namespace.find_namespace(client)
        if found not in ("", choices.namespace):
            echo(f"note: Pumice is in the namespace {found} of this cluster: it would not be installed twice", err=True)
    except (click.ClickException, ApiError, UnreachableError) as error:
        said = error.format_message() if isinstance(error, click.ClickException) else error
        echo(f"note: no cluster was looked at, so nobody knows whether Volcano is there: {said}", err=True)
    echo(yaml.safe_dump_all(all_manifests(choices), sort_keys=False, width=120).rstrip())


@click.command()
@cluster_options
@namespace_option
def uninstall(kubeconfig: Path | None, context: str, namespace: str) -> None:
    """Take everything out of a cluster that works there.

    Definitions stay, and with them all queues, jobs and podgroups; so does the namespace, with the scheduler's
    configuration.
    """
    from pumice.install import installed_namespace
    from pumice.install.install_options import InstallOptions
    from pumice.install.uninstall import remove_all

    with _cluster_client(kubeconfig, context) as client:
        installed_namespace.check_namespace(client, namespace)
        for line in remove_all(client, InstallOptions(namespace=namespace)):
            echo(line)
    echo(f"definitions, queues, jobs and podgroups stay, and so does the namespace {namespace} with the configuration")


@contextmanager
def _cluster_client(kubeconfig: Path | None, context: str) -> Iterator[Client]:
    """The cluster, for as long as it is needed; what it says no to is the end, in a line."""
    from pumice.install.apply import FieldConflictError, NotReadyError
    from pumice.install.installed_namespace import OtherNamespaceError
    from pumice.kube.client.api_errors import ApiError, UnreachableError
    from pumice.kube.client.sync_client import Client

    client = Client(cluster_access(kubeconfig, context))
    try:
        yield client
    except FieldConflictError as error:
        said = "nothing was changed; ask for the same as they have set, or use --force to set it back"
        raise click.ClickException(f"{error}\n{said}") from None
    except (ApiError, UnreachableError, NotReadyError, OtherNamespaceError) as error:
        raise click.ClickException(str(error)) from None
    finally:
        client.close()


def _check_webhook_url(url: str) -> None:
    if url and not url.startswith("https://"):
        raise click.UsageError(f"--webhook-url {url}: an API server asks over TLS only; write https://HOST:PORT")


def _read_valid_config(config: Path) -> str:
    """A configuration that can be used."""
    from pumice.config.load import read_config
    from pumice.engine.config.scheduler_config import ConfigError

    text = config.read_text()
    try:
        read_config(text, str(config))
    except ConfigError as error:
        raise click.UsageError(str(error)) from None
    return text
