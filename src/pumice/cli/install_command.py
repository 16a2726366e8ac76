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
    "--namespace", "-n", default=DEFAULT_NAMESPACE, show_default=True, help="Namespace of the installation."
)


@click.command()
@cluster_options
@namespace_option
@click.option("--image", help="Container image. [default: pumice with the tag of this version]")
@click.option("--replicas", type=click.IntRange(1, 9), default=2, show_default=True, help="Replicas of each component.")
@click.option(
    "--config",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Scheduler configuration file. [default: the installed one, else the built-in one]",
)
@click.option(
    "--pod-settings",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="YAML file with resources, placement, labels and pull secrets of the pods, as in the values of the chart.",
)
@click.option("--no-webhooks", is_flag=True, help="Do not install the admission webhooks: no defaults, no validation.")
@click.option("--webhook-url", default="", metavar="URL", help="URL of webhooks that run outside the cluster.")
@click.option("--no-ui", is_flag=True, help="Do not install the web page.")
@click.option(
    "--data-claim",
    default="",
    metavar="NAME",
    help="PersistentVolumeClaim in the namespace for the history of the web page, with one replica of the scheduler. "
    "[default: the history lives as long as the pod]",
)
@click.option(
    "--decision-log", is_flag=True, help="Record decisions in the claim, for evictions with numbers and the page Then."
)
@click.option("--service-monitor", is_flag=True, help="Create a ServiceMonitor for the Prometheus operator.")
@click.option("--take-over", is_flag=True, help="Stop an installed Volcano and schedule its pods and jobs.")
@click.option("--accept-losses", is_flag=True, help="Take over although 'pumice migrate --check' reports losses.")
@click.option("--force", is_flag=True, help="Overwrite fields that other managers have changed.")
@click.option(
    "--wait",
    "seconds",
    type=click.FloatRange(0),
    metavar="SECONDS",
    help="Wait until all deployments are available and the scheduler runs with its configuration, at most this long.",
)
@click.option("--dry-run", is_flag=True, help="Print the manifests without applying them.")
def install(
    kubeconfig: Path | None,
    context: str,
    namespace: str,
    image: str | None,
    replicas: int,
    config: Path | None,
    pod_settings: Path | None,
    no_webhooks: bool,
    webhook_url: str,
    no_ui: bool,
    data_claim: str,
    decision_log: bool,
    service_monitor: bool,
    take_over: bool,
    accept_losses: bool,
    force: bool,
    seconds: float | None,
    dry_run: bool,
) -> None:
    """Install Pumice into a cluster, or update the installation.

    If Volcano is installed, it keeps running: Pumice then places only pods with schedulerName pumice and leaves
    Volcano's jobs, CRDs and webhooks alone. --take-over stops Volcano, takes over its work, and makes default the queue
    of jobs that name none, as in Volcano, unless a configuration names another one or is given with --config. It
    refuses while 'pumice migrate --check' reports something that would be lost.

    Fields that you have changed in installed objects are not overwritten: the command lists conflicting fields and
    changes nothing. --force overwrites them.
    """
    from pumice.install.install_options import InstallOptions
    from pumice.install.installed_namespace import check_rbac
    from pumice.install.pod_settings import read_pod_settings

    _check_webhook_url(webhook_url)
    if decision_log and not data_claim:
        raise click.UsageError(
            "--decision-log needs --data-claim: the scheduler writes the log there, the page reads it"
        )
    text = _read_valid_config(config) if config else None
    given: dict[str, Any] = {"image": image} if image else {}
    given |= {"configuration": text} if text is not None else {}
    given |= {"pods": read_pod_settings(pod_settings.read_text(), str(pod_settings))} if pod_settings else {}
    choices = InstallOptions(
        namespace=namespace,
        replicas=replicas,
        webhooks=not no_webhooks,
        webhook_url=webhook_url,
        ui=not no_ui,
        data_claim=data_claim,
        decision_log=decision_log,
        service_monitor=service_monitor,
        **given,
    )
    if dry_run:
        _print_manifests(choices, kubeconfig, context, take_over=take_over, configured=config is not None)
        return
    with _cluster_client(kubeconfig, context) as client:
        check_rbac(client)
        if take_over and not accept_losses:
            _refuse_losses(client, configured=config is not None)
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
    if take_over and not configured:
        choices, configured = _options_of_takeover(client, choices)
    wanted = all_manifests(choices)
    once = CREATE_ONLY_KINDS - {"ConfigMap"} if configured else CREATE_ONLY_KINDS
    meant = {"ConfigMap": configured, "CustomResourceDefinition": take_over}  # requested explicitly
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


def _refuse_losses(client: Client, *, configured: bool) -> None:
    """Refuse a takeover that would lose something."""
    from pumice.install.volcano_takeover import find_volcano
    from pumice.migrate.source_objects import objects_from_cluster
    from pumice.migrate.volcano_check import check_volcano

    lost = check_volcano(objects_from_cluster(client), configured=configured).lost if find_volcano(client) else []
    if lost:
        listed = "\n".join(f"  {finding}" for finding in lost)
        raise click.ClickException(
            f"--take-over would lose:\n{listed}\n"
            "nothing was changed; see 'pumice migrate --check', or use --accept-losses to take over nevertheless"
        )


def _wait_available(client: Client, choices: InstallOptions, seconds: float) -> None:
    import time

    from pumice.install.apply import await_available, await_configuration
    from pumice.install.manifests import all_manifests
    from pumice.install.workloads import SETTINGS_FILE, config_map

    deadline = time.monotonic() + seconds
    for line in await_available(client, all_manifests(choices), seconds):
        echo(line)
    left = max(1.0, deadline - time.monotonic())
    for line in await_configuration(client, config_map(choices), SETTINGS_FILE, left):
        echo(line)


def _options_beside_volcano(
    choices: InstallOptions, volcano: VolcanoInstallation, *, take_over: bool
) -> InstallOptions:
    """The options if Volcano is installed; prints a note."""
    from dataclasses import replace

    if not volcano or take_over:
        return choices
    note = (
        "it keeps running, and Pumice places only pods with schedulerName pumice (use --take-over to replace Volcano)"
    )
    echo(f"note: Volcano is installed ({volcano}): {note}", err=True)
    return replace(choices, beside_volcano=True)


def _options_of_takeover(client: Client, choices: InstallOptions) -> tuple[InstallOptions, bool]:
    """The options after a takeover, and whether they change the scheduler's configuration; prints a note if so."""
    from dataclasses import replace

    from pumice.install.volcano_takeover import installed_configuration, with_default_queue

    present = installed_configuration(client, choices)
    text = with_default_queue(choices.configuration if present is None else present)
    if text is None:
        return choices, False
    note = "jobs that name no queue go to queue default, as in Volcano (defaultQueue in the scheduler's configuration)"
    echo(f"note: {note}; remove the line to use the least used leaf queue", err=True)
    return replace(choices, configuration=text), True


def _print_manifests(
    choices: InstallOptions, kubeconfig: Path | None, context: str, *, take_over: bool, configured: bool
) -> None:
    """Print what would be applied: as for this cluster, if there is one."""
    import yaml

    from pumice.install import installed_namespace
    from pumice.install.manifests import all_manifests
    from pumice.install.volcano_takeover import find_volcano
    from pumice.kube.client.api_errors import ApiError, UnreachableError

    try:
        with _cluster_client(kubeconfig, context) as client:
            choices = _options_beside_volcano(choices, find_volcano(client), take_over=take_over)
            if take_over and not configured:
                choices, _ = _options_of_takeover(client, choices)
            found = installed_namespace.find_namespace(client)
        if found not in ("", choices.namespace):
            echo(
                f"note: Pumice is already installed in namespace {found}: another installation would fail",
                err=True,
            )
    except (click.ClickException, ApiError, UnreachableError) as error:
        said = error.format_message() if isinstance(error, click.ClickException) else error
        echo(f"note: could not reach a cluster to look for Volcano: {said}", err=True)
    echo(yaml.safe_dump_all(all_manifests(choices), sort_keys=False, width=120).rstrip())


@click.command()
@cluster_options
@namespace_option
def uninstall(kubeconfig: Path | None, context: str, namespace: str) -> None:
    """Uninstall Pumice from a cluster.

    Keeps the CRDs with all queues, jobs and podgroups, and the namespace with the scheduler's configuration.
    """
    from pumice.install import installed_namespace
    from pumice.install.install_options import InstallOptions
    from pumice.install.uninstall import remove_all

    with _cluster_client(kubeconfig, context) as client:
        installed_namespace.check_rbac(client)
        installed_namespace.check_namespace(client, namespace)
        for line in remove_all(client, InstallOptions(namespace=namespace)):
            echo(line)
    echo(f"kept: CRDs, queues, jobs, podgroups, and the namespace {namespace} with the scheduler configuration")


@contextmanager
def _cluster_client(kubeconfig: Path | None, context: str) -> Iterator[Client]:
    """A client of the cluster; API errors end the command with a message."""
    from pumice.install.apply import FieldConflictError, NotReadyError
    from pumice.install.installed_namespace import NoRbacError, OtherNamespaceError
    from pumice.kube.client.api_errors import ApiError, UnreachableError
    from pumice.kube.client.sync_client import Client

    client = Client(cluster_access(kubeconfig, context))
    try:
        yield client
    except FieldConflictError as error:
        said = "nothing was changed; use the same values, or --force to overwrite these fields"
        raise click.ClickException(f"{error}\n{said}") from None
    except (ApiError, UnreachableError, NoRbacError, NotReadyError, OtherNamespaceError) as error:
        raise click.ClickException(str(error)) from None
    finally:
        client.close()


def _check_webhook_url(url: str) -> None:
    if url and not url.startswith("https://"):
        raise click.UsageError(f"--webhook-url {url}: must be an https:// URL, for example https://HOST:PORT")


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
