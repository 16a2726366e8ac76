"""Remove Pumice from a cluster: the components are deleted, the objects of users are kept.

CRDs, queues, jobs and podgroups are kept, as are the configuration of the scheduler and the namespace. The finalizer
of the queue controller is removed from all queues, because without the controller they could never be deleted.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Any

from pumice.admission.request import QUEUE_FINALIZER
from pumice.install.install_options import INSTALL_NAME, InstallOptions, labels
from pumice.install.installed_kinds import LEASES, PODS, QUEUES, SECRETS, display_name, path_of
from pumice.install.manifests import CREATE_ONLY_KINDS, all_manifests
from pumice.install.rbac import CERTIFICATE_SECRET, CONTROLLERS, SCHEDULER
from pumice.kube.client.api_errors import ApiError
from pumice.kube.client.sync_client import Client

Object = dict[str, Any]

KEPT_KINDS = CREATE_ONLY_KINDS | {"Namespace", "CustomResourceDefinition"}
POLL_SECONDS, STOP_TIMEOUT = 0.5, 60.0
"""Seconds between two reads of the pods of the controllers, and until the uninstallation continues without waiting."""
MAX_ATTEMPTS = 20
"""How often a queue is read again after a conflicting write."""


def delete_obsolete(client: Client, choices: InstallOptions, wanted: Iterable[Object] = ()) -> Iterator[str]:
    """Delete installed objects that are not in ``wanted``, in reverse order; yield a line for each deleted object."""
    kept = {path_of(one) for one in wanted}
    for one in reversed(all_manifests(replace(choices, webhooks=True, ui=True, service_monitor=True))):
        path = path_of(one)
        if one["kind"] not in KEPT_KINDS and path not in kept and _delete_if_present(client, path):
            yield f"{display_name(one)} deleted"


def remove_all(client: Client, choices: InstallOptions, sleep: Callable[[float], None] = time.sleep) -> Iterator[str]:
    """Delete the whole installation; yield a line for each deleted object."""
    yield from delete_obsolete(client, choices)
    home = choices.namespace
    left = {f"secret/{CERTIFICATE_SECRET}": SECRETS.path(home, CERTIFICATE_SECRET)}
    left |= {
        f"lease/{INSTALL_NAME}-{one}": LEASES.path(home, f"{INSTALL_NAME}-{one}") for one in (SCHEDULER, CONTROLLERS)
    }
    for name, path in left.items():
        if _delete_if_present(client, path):
            yield f"{name} deleted"
    _wait_for_controllers(client, choices, sleep)
    yield from _remove_finalizers(client)


def _delete_if_present(client: Client, path: str) -> bool:
    try:
        client.delete(path, propagation="Background")
    except ApiError as error:
        if error.not_found:
            return False
        raise
    return True


def _wait_for_controllers(client: Client, choices: InstallOptions, sleep: Callable[[float], None]) -> None:
    """Wait until the controllers have ended: they would add the finalizers again."""
    chosen = ",".join(f"{name}={value}" for name, value in labels(CONTROLLERS).items())
    deadline = time.monotonic() + STOP_TIMEOUT
    while client.list(PODS.path(choices.namespace), {"labelSelector": chosen}).items and time.monotonic() < deadline:
        sleep(POLL_SECONDS)


def _remove_finalizers(client: Client) -> Iterator[str]:
    try:
        queues = client.list(QUEUES.path()).items
    except ApiError as error:
        if error.not_found:
            return
        raise
    for queue in queues:
        if _remove_finalizer(client, queue):
            yield f"queue/{queue['metadata']['name']}: finalizer removed"


def _remove_finalizer(client: Client, queue: Object) -> bool:
    """Remove the finalizer from a queue, and retry after conflicts; False if the queue does not have it."""
    path = QUEUES.path(name=queue["metadata"]["name"])
    for attempt in range(MAX_ATTEMPTS):
        try:
            about = queue["metadata"] if attempt == 0 else client.get(path)["metadata"]
            before = about.get("finalizers") or []
            kept = [name for name in before if name != QUEUE_FINALIZER]
            if kept == before:
                return False
            known = {"uid": about["uid"], "resourceVersion": about["resourceVersion"]}
            client.merge(path, {"metadata": {**known, "finalizers": kept}})
        except ApiError as error:
            if error.not_found:
                return False
            if not error.conflict or attempt == MAX_ATTEMPTS - 1:
                raise
        else:
            return True
    return False
