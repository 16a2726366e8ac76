"""``pumice sim node``: lose simulated nodes, and get them back."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import click

from pumice.cli.terminal import echo

if TYPE_CHECKING:
    from pumice.kube.client.sync_client import Client

LOST_ANNOTATION = "pumice.dev/lost"


@click.group()
def sim() -> None:
    """Simulate failures in the cluster of pumice up."""


@sim.group()
def node() -> None:
    """Fail, restore, cordon and uncordon simulated nodes.

    Uses the cluster of the current kubectl context. A lost node stops its heartbeats: after 50 seconds it is NotReady,
    and its pods are evicted when their tolerations end. A restored node reports what happened to its pods meanwhile.
    """


def _node_options(command: Callable[..., None]) -> Callable[..., None]:
    command = click.argument("names", metavar="NODE...", nargs=-1, required=True)(command)
    command = click.option(
        "--context", default="", help="Context of the kubeconfig to use. [default: the current context]"
    )(command)
    path = click.Path(dir_okay=False, path_type=Path)
    return click.option("--kubeconfig", type=path, help="Path to the kubeconfig file. [default: as kubectl]")(command)


@node.command()
@_node_options
def lose(names: tuple[str, ...], kubeconfig: Path | None, context: str) -> None:
    """Make nodes fail: they stop their heartbeats and their pods."""
    _patch_nodes(names, kubeconfig, context, {"metadata": {"annotations": {LOST_ANNOTATION: "true"}}}, "lost")


@node.command()
@_node_options
def restore(names: tuple[str, ...], kubeconfig: Path | None, context: str) -> None:
    """Restore lost nodes."""
    _patch_nodes(names, kubeconfig, context, {"metadata": {"annotations": {LOST_ANNOTATION: None}}}, "restored")


@node.command()
@_node_options
def cordon(names: tuple[str, ...], kubeconfig: Path | None, context: str) -> None:
    """Mark nodes as unschedulable, as kubectl cordon does."""
    _patch_nodes(names, kubeconfig, context, {"spec": {"unschedulable": True}}, "cordoned")


@node.command()
@_node_options
def uncordon(names: tuple[str, ...], kubeconfig: Path | None, context: str) -> None:
    """Mark nodes as schedulable, as kubectl uncordon does."""
    _patch_nodes(names, kubeconfig, context, {"spec": {"unschedulable": None}}, "uncordoned")


def _patch_nodes(
    names: tuple[str, ...], kubeconfig: Path | None, context: str, patch: dict[str, Any], done: str
) -> None:
    from pumice.kube.client.api_errors import ApiError, CredentialError, UnreachableError

    client = _client(kubeconfig, context)
    try:
        for name in names:  # all or, if one of them does not exist, none
            client.get(f"/api/v1/nodes/{quote(name, safe='')}")
        for name in names:
            client.merge(f"/api/v1/nodes/{quote(name, safe='')}", patch)
            echo(f"node/{name} {done}")
    except ApiError as error:
        raise click.ClickException(str(error)) from None
    except CredentialError as error:
        raise click.ClickException(f"getting credentials: {error}") from None
    except UnreachableError as error:
        raise click.ClickException(
            f"the cluster is not reachable: {error}. Start a local cluster with pumice up."
        ) from None
    finally:
        client.close()


def _client(kubeconfig: Path | None, context: str) -> Client:
    from kubebase.field_error import FieldError
    from pumice.kube.client.kubeconfig import read_kubeconfig
    from pumice.kube.client.sync_client import Client

    try:
        return Client(read_kubeconfig(kubeconfig, context=context))
    except FieldError as error:
        raise click.ClickException(str(error)) from None
