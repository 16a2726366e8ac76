"""The namespace in which Pumice is installed. A cluster has one installation, whose accounts hold the cluster roles.

An installation into another namespace would take the cluster roles from the running accounts, and an uninstallation
from another namespace would leave the components running without permissions. So both commands check the namespace
first and change nothing if it differs.
"""

from __future__ import annotations

from pumice.install.install_options import INSTALL_NAME
from pumice.install.installed_kinds import CLUSTER_ROLE_BINDINGS
from pumice.install.rbac import SCHEDULER
from pumice.kube.client.api_errors import ApiError
from pumice.kube.client.sync_client import Client


class NoRbacError(Exception):
    """The API server does not serve RBAC, so that nothing can be installed there."""


class OtherNamespaceError(Exception):
    """Pumice is installed in another namespace; the message names it."""


def find_namespace(client: Client) -> str:
    """The namespace in which it is installed; empty if it is not."""
    try:
        binding = client.get(CLUSTER_ROLE_BINDINGS.path(name=f"{INSTALL_NAME}-{SCHEDULER}"))
    except ApiError as error:
        if error.not_found:
            return ""
        raise
    return next((str(one.get("namespace") or "") for one in binding.get("subjects") or ()), "")


def check_rbac(client: Client) -> None:
    """``NoRbacError`` if this is no cluster to install into, such as that of ``pumice up``."""
    try:
        client.names(CLUSTER_ROLE_BINDINGS.path())
    except ApiError as error:
        if error.not_found:
            raise NoRbacError(
                f"{client.access.server} does not serve {CLUSTER_ROLE_BINDINGS.api_version}, so Pumice cannot be "
                "installed there; a cluster of pumice up runs Pumice already"
            ) from None
        raise


def check_namespace(client: Client, namespace: str) -> None:
    """``OtherNamespaceError`` if it is installed in another namespace than this one."""
    found = find_namespace(client)
    if found not in ("", namespace):
        raise OtherNamespaceError(
            f"Pumice is already installed in namespace {found}, and a cluster can have only one installation; nothing "
            f"was changed. Use -n {found}; to move it to {namespace}, uninstall it from {found} first"
        )
