"""The options of ``pumice up --shared``: several people on this machine, each known by the kernel."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from kubesim.server import ServerSettings

DATA_FOLDER = Path("/var/lib/pumice")
VIEWER_KUBECONFIG = "viewer.kubeconfig"  # in the data directory
Function = TypeVar("Function", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class SharedOptions:
    """What was asked for on the command line."""

    admins: str
    socket: Path


def shared_options(function: Function) -> Function:
    """The options."""
    function = click.option(
        "--socket",
        type=click.Path(dir_okay=False, path_type=Path),
        help="Path of the Unix socket; with --shared. [default: /run/pumice/api.sock]",
    )(function)
    function = click.option(
        "--admins",
        metavar="GROUP",
        help="Group of users who administer queues, nodes and the jobs of others; with --shared. [default: root alone]",
    )(function)
    return click.option(
        "--shared",
        is_flag=True,
        help="Let all users of this machine submit jobs, which run as them; with --here, as root.",
    )(function)


def parse_shared_options(*, shared: bool, admins: str | None, socket: Path | None, here: bool) -> SharedOptions | None:
    """Check the options together; None without ``--shared``."""
    if not shared:
        if admins is not None or socket is not None:
            raise click.UsageError("--admins and --socket need --shared")
        return None
    import grp

    from pumice.kube.client.shared_socket import DEFAULT_SOCKET

    if not here:
        raise click.UsageError("--shared needs --here: it is about real processes of this machine")
    if os.geteuid() != 0:
        raise click.UsageError("--shared needs root: only root may start processes as other users")
    source = click.get_current_context().get_parameter_source("token")
    if source is click.core.ParameterSource.COMMANDLINE:
        raise click.UsageError("--token cannot be given with --shared, because all users can see it; use PUMICE_TOKEN")
    if admins is not None:
        try:
            grp.getgrnam(admins)
        except KeyError:
            raise click.UsageError(f"--admins {admins}: there is no such group on this machine") from None
    return SharedOptions(admins or "", (socket or DEFAULT_SOCKET).absolute())


def share_machine(settings: ServerSettings, options: SharedOptions) -> tuple[ServerSettings, Path]:
    """The settings with the users of this machine, and the kubeconfig of the web page, which sees what they all may."""
    from kubesim.kubeconfig import write_kubeconfig
    from pumice.embedded.shared.login_tokens import LoginTokens, load_or_create_key
    from pumice.embedded.shared.people import People
    from pumice.embedded.shared.shared_access import SharedMachine
    from pumice.embedded.shared.shared_cluster import with_people

    assert settings.data is not None  # --here keeps its data
    machine = SharedMachine(People(options.admins), LoginTokens(load_or_create_key(settings.data)))
    viewer = settings.data / VIEWER_KUBECONFIG

    def announce(server: str, authority: bytes) -> None:
        machine.announce(server, authority)
        write_kubeconfig(viewer, server, name=settings.identity.name, token=machine.viewer_token, authority=authority)

    return replace(with_people(settings, machine), unix_socket=options.socket, announce=announce), viewer
