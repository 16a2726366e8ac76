"""Names for the shell to complete: those that are there now. Quickly, or not at all; never a word about why not."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from pumice.kube.client.sync_client import Client
    from pumice.kube.resources import Resource

COMPLETION_TIMEOUT = 1.0
"""Seconds that a completion may take."""


def option_value(ctx: click.Context, name: str) -> Any:
    """The value of an option at any level of the command line: ``vcctl --context c queue list``."""
    here: click.Context | None = ctx
    while here is not None:
        if here.params.get(name):
            return here.params[name]
        here = here.parent
    return None


def context_names(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """The contexts of the kubeconfig."""
    from kubebase.field_error import FieldError
    from pumice.kube.client.kubeconfig import context_names

    try:
        found = context_names(option_value(ctx, "kubeconfig"))
    except FieldError:
        return []
    return [name for name in found if name.startswith(incomplete)]


def namespace_names(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """The namespaces of the cluster."""
    from pumice.kube.resources import NAMESPACES

    return _names(ctx, NAMESPACES, incomplete)


def queue_names(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """The queues of the cluster."""
    from pumice.kube.resources import QUEUES

    return _names(ctx, QUEUES, incomplete)


def job_names(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """The jobs of the namespace."""
    from pumice.kube.resources import JOBS

    return _names(ctx, JOBS, incomplete)


def object_names(load_resource: Callable[[], Resource[Any]]) -> Callable[..., list[str]]:
    """A completion with the objects of a resource, which is imported when it is needed."""

    def names(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
        return _names(ctx, load_resource(), incomplete)

    return names


def priority_class_names(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """The priorities of the cluster."""
    from pumice.kube.resources import PRIORITY_CLASSES

    return _names(ctx, PRIORITY_CLASSES, incomplete)


def _names(ctx: click.Context, resource: Resource[Any], incomplete: str) -> list[str]:
    from kubebase.field_error import FieldError
    from pumice.kube.client.api_errors import ApiError, UnreachableError

    try:
        with closing(_client(ctx)) as client:
            namespace = (option_value(ctx, "namespace") or client.access.namespace) if resource.namespaced else ""
            found = client.names(resource.path(namespace))
    except (FieldError, ApiError, UnreachableError):
        return []
    typed = {value for values in ctx.params.values() if isinstance(values, tuple) for value in values}
    return [name for _, name in found if name.startswith(incomplete) and name not in typed]


def _client(ctx: click.Context) -> Client:
    from pumice.kube.client.kubeconfig import read_kubeconfig
    from pumice.kube.client.sync_client import Client

    access = read_kubeconfig(option_value(ctx, "kubeconfig"), context=option_value(ctx, "context") or "")
    if access.exec_plugin is not None:
        access.exec_plugin.detach(COMPLETION_TIMEOUT)  # the terminal is the shell's
    return Client(access, timeout=COMPLETION_TIMEOUT)
