"""Lists that a user may not read: a command shows less and says so in a line, instead of failing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pumice.kube.client.api_errors import ApiError

if TYPE_CHECKING:
    from pumice.kube.client.sync_client import Client, Document


def list_if_allowed(client: Client, path: str) -> list[Document] | None:
    """The objects of a collection; None if the user may not list it."""
    try:
        return client.list(path).items
    except ApiError as error:
        if error.forbidden:
            return None
        raise
