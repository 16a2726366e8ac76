"""``pumice agent``: this machine as a node of a cluster, on which containers are processes."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import click

from pumice.cli.cluster.resource_quantities import parse_quantities
from pumice.cli.daemons.daemon import (
    MetricsAddress,
    cluster_access,
    cluster_options,
    metrics_option,
    run_daemon,
)
from pumice.cli.terminal import echo

if TYPE_CHECKING:
    from pumice.agent.node_agent import NodeAgent
    from pumice.kube.client.kubeconfig import Access
    from pumice.observability.process_probes import Probes


@click.command()
@cluster_options
@click.option("--name", default="", help="Name of the node. [default: the host name]")
@click.option(
    "--capacity",
    metavar="RESOURCES",
    callback=parse_quantities,
    help="Capacity instead of what the machine has, for example cpu=8,nvidia.com/gpu=2.",
)
@click.option(
    "--reserve",
    metavar="RESOURCES",
    callback=parse_quantities,
    help="Resources kept for the system. [default: a twentieth of the memory]",
)
@click.option(
    "--data",
    type=click.Path(file_okay=False, path_type=Path),
    help="Folder of the pods: plans, logs, volumes. [default: pumice/agent in $XDG_DATA_HOME or ~/.local/share]",
)
@click.option("--address", default="", help="Address of the node. [default: the one that reaches the API]")
@click.option(
    "--shared",
    is_flag=True,
    help="Run each pod as the user whose namespace it is in, as pumice up --shared does; needs root.",
)
@click.option("--no-cgroups", is_flag=True, help="Do not use cgroups, even where they can be written.")
@metrics_option("")
def agent(
    kubeconfig: Path | None,
    context: str,
    name: str,
    capacity: dict[str, str],
    reserve: dict[str, str],
    data: Path | None,
    address: str,
    shared: bool,
    no_cgroups: bool,
    answering: MetricsAddress,
) -> None:
    """Run pods as processes of this machine.

    Registers the machine as a node with its cpus, memory and GPUs, and runs the pods that are bound to it: their
    containers are processes of the user who runs the agent, on the machine's own files and network. Images are not
    pulled. Pods go on while the agent is stopped or killed, and are taken over when it is started again.
    """
    if shared and os.geteuid() != 0:
        raise click.UsageError("--shared needs root: only root may start processes as other users")
    access = cluster_access(kubeconfig, context)
    if not _has_credentials(access):
        raise click.UsageError(
            f"{access.server} lets anybody in, so every user of its machine, and every web page, could run commands "
            "here; start it with pumice up --here, or with --token"
        )

    folder = (data or _default_folder()).absolute()

    from pumice.agent.machine import address_towards, find_log_socket, find_machine, node_name

    log_socket = find_log_socket(folder) if access.local_socket else None
    if log_socket is not None:
        from kubesim.asyncio_without_ssl import load_asyncio

        load_asyncio()  # nothing is encrypted: neither what the agent asks nor the logs that it serves

    from kubebase.field_error import FieldError
    from pumice.agent.node_agent import AgentSettings, FolderInUseError, NodeAgent, choose_cgroups, hold_folder
    from pumice.observability.process_probes import Probes

    chosen = name or node_name()
    try:
        hold_folder(folder)  # until the process ends
        machine = find_machine(folder, capacity, reserve)
    except FolderInUseError as error:
        raise click.ClickException(str(error)) from None
    except FieldError as error:
        raise click.UsageError(str(error)) from None
    except OSError as error:
        raise click.ClickException(f"{error.filename}: {error.strerror}") from None
    cgroups = None if no_cgroups else choose_cgroups(chosen, folder)
    echo(f"node {chosen}: {_offers(machine.allocatable)}", err=True)
    if cgroups is not None:
        echo(f"limits of pods hold by {cgroups}", err=True)
    else:
        echo(
            "limits of pods: cgroups cannot be written, so memory is limited per process, cpu is not limited, and "
            "processes are ended by their process groups",
            err=True,
        )
    place = address or address_towards(access.server)
    settings = AgentSettings(chosen, machine, folder, place, cgroups, shared, log_socket)

    def probes(worker: NodeAgent) -> Probes:
        return Probes(alive=lambda: "", ready=lambda: worker.unready_reason)

    try:
        run_daemon(access, lambda api: NodeAgent(api, settings), "running pods of", answering, probes, small=True)
    except FieldError as error:
        raise click.UsageError(str(error)) from None
    finally:
        if cgroups is not None:
            cgroups.remove()


def _has_credentials(access: Access) -> bool:
    """Whether the API server asks who somebody is: without credentials an agent could not do anything there."""
    from pumice.kube.client.kubeconfig import UNIX_SCHEME

    named = access.token or access.token_file or access.exec_plugin or access.client_certificate
    return bool(named or access.endpoint.startswith(UNIX_SCHEME))


def _offers(allocatable: dict[str, str]) -> str:
    from pumice.cli.cluster.resource_quantities import format_quantities

    return format_quantities({key: value for key, value in allocatable.items() if key != "ephemeral-storage"})


def _default_folder() -> Path:
    home = os.environ.get("XDG_DATA_HOME")
    return (Path(home) if home else Path.home() / ".local" / "share") / "pumice" / "agent"
