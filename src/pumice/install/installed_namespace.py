"""Where Pumice is in a cluster: it is there once, in one namespace, to whose accounts the rights of the cluster go.

To install into another would take the rights from those who work; to uninstall from another would leave them running
without any. So both look first, and neither changes anything if it is elsewhere.
"""

from __future__ import annotations

from pumice.install.options import NAME
from pumice.install.rbac import SCHEDULER
from pumice.install.resources import BINDINGS
from pumice.kube.client.api_errors import RefusedError
from pumice.kube.client.sync_client import Client


class ElsewhereError(Exception):
    """Pumice is in another namespace; the message says in which."""


def found_in(client: Client) -> str:
    """The namespace in which it is installed; empty if it is not."""
    try:
        binding = client.get(BINDINGS.path(name=f"{NAME}-{SCHEDULER}"))
    except RefusedError as error:
        if error.absent:
            return ""
        raise
    return next((str(one.get("namespace") or "") for one in binding.get("subjects") or ()), "")


def check(client: Client, namespace: str) -> None:
    """``ElsewhereError`` if it is installed in another namespace than this one."""
    found = found_in(client)
    if found not in ("", namespace):
        raise ElsewhereError(
            f"Pumice is in the namespace {found} of this cluster, and can be there only once; nothing was changed. "
            f"Use -n {found}; to move it to {namespace}, uninstall it there first"
        )
