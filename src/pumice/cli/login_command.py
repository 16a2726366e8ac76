"""``pumice login`` and ``pumice token``: access to a shared machine for programs that cannot use its Unix socket."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import click

from pumice.cli.terminal import echo

EXEC_VERSION = "client.authentication.k8s.io/v1"
NAME = "pumice"


def _socket_option(function: Any) -> Any:
    return click.option(
        "--socket",
        type=click.Path(path_type=Path),
        help="Path of the socket of pumice up --shared. [default: $PUMICE_SOCKET or /run/pumice/api.sock]",
    )(function)


@click.command()
@_socket_option
@click.option(
    "--kubeconfig",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Path to write the kubeconfig to. [default: ~/.kube/config]",
)
def login(socket: Path | None, kubeconfig: Path | None) -> None:
    """Write a kubeconfig for kubectl on a machine that several people share.

    The machine runs pumice up --shared, which knows you by the account you are logged in with. The kubeconfig holds no
    secret: for each command kubectl has pumice token get a token that is valid for an hour. vsub, vjobs, vcctl and
    pumice need no kubeconfig on such a machine.
    """
    from kubebase.field_error import FieldError
    from kubesim.kubeconfig import require_own_kubeconfig
    from kubesim.private_file import write_private

    answer, path = _ask(socket), kubeconfig or Path.home() / ".kube" / "config"
    try:
        require_own_kubeconfig(path, NAME)
        write_private(path, _kubeconfig(answer, socket).encode())
    except FieldError as error:
        raise click.UsageError(str(error)) from None
    except OSError as error:
        raise click.ClickException(f"{error.filename}: {error.strerror}") from None
    echo(f"you are {answer['user']}, in namespace {answer['namespace']}; kubeconfig written to {path}", err=True)
    if kubeconfig:
        import shlex

        echo(f"export KUBECONFIG={shlex.quote(str(path.absolute()))}")


@click.command()
@_socket_option
def token(socket: Path | None) -> None:
    """Print a token for a machine that several people share.

    The token is for the user who asks and valid for an hour, in the form that kubectl expects of a credential plugin.
    """
    answer = _ask(socket)
    status = {"token": answer["token"], "expirationTimestamp": answer["expirationTimestamp"]}
    echo(json.dumps({"apiVersion": EXEC_VERSION, "kind": "ExecCredential", "status": status}))


def _ask(socket: Path | None) -> dict[str, Any]:
    """A token of the server, and its address."""
    from pumice.kube.client.api_errors import ApiError, UnreachableError
    from pumice.kube.client.kubeconfig import UNIX_SCHEME, Access
    from pumice.kube.client.shared_socket import DEFAULT_SOCKET, LOGIN_PATH, find_socket
    from pumice.kube.client.sync_client import Client

    path = socket or find_socket() or DEFAULT_SOCKET
    client = Client(Access(server=f"{UNIX_SCHEME}{path.absolute()}"))
    try:
        return client.create(LOGIN_PATH, {})
    except UnreachableError as error:
        raise click.ClickException(f"nobody answers at {path}: {error}; is pumice up --shared running?") from None
    except ApiError as error:
        raise click.ClickException(error.message) from None
    finally:
        client.close()


def _kubeconfig(answer: dict[str, Any], socket: Path | None) -> str:
    call = [*_program(), "token"] + (["--socket", str(socket.absolute())] if socket else [])
    plugin = {"apiVersion": EXEC_VERSION, "command": call[0], "args": call[1:], "interactiveMode": "Never"}
    cluster = {"server": answer["server"], "certificate-authority-data": answer["certificateAuthorityData"]}
    context = {"cluster": NAME, "user": NAME, "namespace": answer["namespace"]}
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": NAME, "cluster": cluster}],
        "users": [{"name": NAME, "user": {"exec": plugin}}],
        "contexts": [{"name": NAME, "context": context}],
        "current-context": NAME,
    }
    return json.dumps(document, indent=2) + "\n"  # a JSON text is one in YAML


def _program() -> list[str]:
    """How kubectl calls this program again, whatever its PATH is."""
    called = Path(sys.argv[0]).absolute()
    return [str(called)] if os.access(called, os.X_OK) and called.is_file() else [sys.executable, "-P", "-m", NAME]
