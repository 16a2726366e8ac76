"""Actions on named objects of a namespace: an error with one object does not stop the others."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import click

from pumice.cli.cluster.cluster_command import Cluster, error_message
from pumice.cli.cluster.command_objects import wait_until_gone
from pumice.cli.cluster.object_printer import not_found_message, object_name
from pumice.cli.terminal import echo, print_error

if TYPE_CHECKING:
    from pumice.kube.client.sync_client import Document
    from pumice.kube.resources import Resource

ObjectAction = Callable[["Document", str, str], None]
"""Takes an object, its path and its name for messages; raises a ``ClickException`` if it fails."""


def for_each_object(
    cluster: Cluster, resource: Resource[Any], names: Iterable[tuple[str, str]], act: ObjectAction
) -> int:
    """Run an action on each object, given by namespace and name; returns the exit status."""
    from pumice.kube.client.api_errors import ApiError

    status = 0
    for namespace, name in names:
        path = resource.path(namespace, name)
        try:
            found = cluster.client.get(path)
            act(found, path, object_name(found, resource))
        except ApiError as error:
            if error.not_found:
                known = [known for _, known in cluster.client.names(resource.path(namespace))]
                print_error(f"{not_found_message(resource, name, known)} (namespace {namespace})")
            else:
                print_error(error_message(error))
            status = 1
        except click.ClickException as error:
            print_error(error.format_message())
            status = 1
    return status


def delete_objects(cluster: Cluster, resource: Resource[Any], names: Iterable[tuple[str, str]], wait: float) -> int:
    """Delete objects and, in the background, what belongs to them; returns the exit status."""

    def delete(found: Document, path: str, subject: str) -> None:
        uid = str(found["metadata"].get("uid") or "")
        cluster.client.delete(path, uid=uid, propagation="Background")
        if wait and not wait_until_gone(cluster.client, path, uid, wait):
            raise click.ClickException(f"timed out after {wait:g} s waiting for {subject} to be deleted")
        echo(f"{subject} deleted")

    return for_each_object(cluster, resource, names, delete)
