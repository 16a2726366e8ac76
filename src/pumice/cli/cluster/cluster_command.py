"""The base of commands on a cluster: options that select the cluster, error messages, and help with examples."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from pumice.cli.cluster.name_completion import context_names, namespace_names, option_value

if TYPE_CHECKING:
    from pumice.kube.client.api_errors import ApiError
    from pumice.kube.client.sync_client import Client

CONTEXT_SETTINGS: dict[str, Any] = {"help_option_names": ["-h", "--help"], "max_content_width": 100}

Function = TypeVar("Function", bound=Callable[..., Any])


class InvalidInput(click.ClickException):
    """Invalid input that is not a usage error of the command line."""

    exit_code = 2


class Cluster:
    """The cluster that a command line means. It is not called before it is needed."""

    def __init__(self, kubeconfig: Path | None, context: str, namespace: str, everywhere: bool) -> None:
        self._kubeconfig = kubeconfig
        self._context = context
        self.requested_namespace = namespace  # on the command line; empty if none was
        self.all_namespaces = everywhere

    @cached_property
    def client(self) -> Client:
        """The client of the cluster; in a pod without a kubeconfig, of the pod's own cluster, as with kubectl."""
        from kubebase.field_error import FieldError
        from pumice.kube.client.in_cluster import find_access
        from pumice.kube.client.sync_client import Client

        try:
            return Client(find_access(self._kubeconfig, self._context))
        except FieldError as error:
            raise InvalidInput(str(error)) from None

    def close(self) -> None:
        """Let go of it."""
        if "client" in self.__dict__:
            self.client.close()

    @property
    def namespace(self) -> str:
        """The requested namespace, or that of the context."""
        return self.requested_namespace or self.client.access.namespace

    @property
    def scope(self) -> str:
        """The namespace to list; empty for all namespaces."""
        return "" if self.all_namespaces else self.namespace


class ClusterCommand(click.Command):
    """A command that calls a cluster. Its examples are shown with the name under which it was called."""

    def __init__(self, *arguments: Any, examples: str = "", **settings: Any) -> None:
        super().__init__(*arguments, **{"context_settings": CONTEXT_SETTINGS, **settings})
        self._examples = examples

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command. An error of the API ends it with a message."""
        with api_errors_as_messages():
            return super().invoke(ctx)

    def format_help_text(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The help text, followed by examples, as kubectl prints them."""
        super().format_help_text(ctx, formatter)
        if self._examples:
            with formatter.section("Examples"):
                for line in self._examples.format(me=ctx.command_path).strip().splitlines():
                    shown = line.strip()
                    formatter.write(f"{' ' * formatter.current_indent}{shown}\n" if shown else "\n")


@contextmanager
def api_errors_as_messages() -> Iterator[None]:
    """Turn API errors and connection errors into messages."""
    from pumice.kube.client.api_errors import ApiError, CredentialError, UnreachableError

    try:
        yield
    except ApiError as error:
        raise click.ClickException(error_message(error)) from None
    except CredentialError as error:
        raise click.ClickException(f"getting credentials: {error}") from None
    except UnreachableError as error:
        raise click.ClickException(
            f"the cluster is not reachable: {error}. Start a local cluster with pumice up."
        ) from None


def error_message(error: ApiError) -> str:
    """The message of an API error, with each listed object on its own line."""
    if error.code == 401:
        return f"{error.message}: the server rejected the credentials of this context; check its user in the kubeconfig"
    causes = [cause for cause in error.details.get("causes") or () if isinstance(cause, dict)]
    denied = error.message.startswith("admission webhook ")
    if not denied or not causes:
        return error.message
    subject = "/".join(str(error.details[part]) for part in ("kind", "name") if error.details.get(part))
    told = [[subject, cause.get("field"), cause.get("message")] for cause in causes]
    return "\n".join(_one_object_per_line(": ".join(str(part) for part in parts if part)) for parts in told)


def _one_object_per_line(message: str) -> str:
    """A list within a sentence, one line each."""
    sentence, mark, rest = message.partition("; this would have gone: ")
    return f"{sentence}. Would be deleted:\n  " + "\n  ".join(rest.split(", ")) if mark else message


# ---- parameters ------------------------------------------------------------------------------------------------------


def on_cluster(*, namespaced: bool = False, everywhere: bool = False) -> Callable[[Function], Callable[..., Any]]:
    """Add the options that select a cluster, and pass the ``Cluster`` to the command as its first argument."""

    def decorate(function: Function) -> Callable[..., Any]:
        @functools.wraps(function)
        def call(**parameters: Any) -> Any:
            ctx = click.get_current_context()
            for name in ("kubeconfig", "context", "namespace", "everywhere"):
                parameters.pop(name, None)
            cluster = Cluster(
                option_value(ctx, "kubeconfig"),
                option_value(ctx, "context") or "",
                option_value(ctx, "namespace") or "",
                bool(option_value(ctx, "everywhere")),
            )
            with closing(cluster):
                return function(cluster, **parameters)

        decorated: Callable[..., Any] = cluster_options(call)
        if namespaced:
            decorated = namespace_option(decorated)
        if everywhere:
            decorated = click.option(
                "-A", "--all-namespaces", "everywhere", is_flag=True, help="List objects of all namespaces."
            )(decorated)
        return decorated

    return decorate


def cluster_options(function: Function) -> Function:
    """The options that select a cluster."""
    file = click.Path(exists=True, dir_okay=False, path_type=Path)
    function = click.option(
        "--context",
        default="",
        shell_complete=context_names,
        help="Context of the kubeconfig to use. [default: the current context]",
    )(function)
    return click.option("--kubeconfig", type=file, help="Path to the kubeconfig file. [default: as kubectl]")(function)


def namespace_option(function: Function) -> Function:
    """The option that selects a namespace."""
    return click.option(
        "-n",
        "--namespace",
        default="",
        shell_complete=namespace_names,
        help="Namespace of the objects. [default: that of the context]",
    )(function)
