"""Bringing manifests into a cluster: applied on the server, so that what others have added to our objects stays.

What is there and the same is left alone; who installs twice changes nothing.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Container, Iterable, Iterator
from typing import Any

from pumice.install.kinds import DEFINITIONS, DEPLOYMENTS, called, path_of
from pumice.install.manifests import ONCE
from pumice.kube.client import Client
from pumice.kube.refusals import RefusedError

Object = dict[str, Any]

MANAGER = "pumice-install"
"""Who we are to the server: what we have applied is known by it."""
PAUSE, PATIENCE = 0.2, 30.0
"""Seconds: between two looks at a new definition, and until it must be served."""


class NotReadyError(Exception):
    """Something was installed but does not work in time."""


def apply(
    client: Client,
    wanted: Iterable[Object],
    *,
    once: Container[str] = ONCE,
    sleep: Callable[[float], None] = time.sleep,
) -> Iterator[str]:
    """Apply objects in order; says of each what became of it. Of kinds in ``once`` only what is missing is made."""
    for one in wanted:
        before = _there(client, one)
        if one["kind"] in once and before is not None:
            yield f"{called(one)} kept"
            continue
        after = _applied(client, one)
        if one["kind"] == DEFINITIONS.kind:
            _await_served(client, one, sleep)
        yield f"{called(one)} {_became(before, after)}"


def _applied(client: Client, wanted: Object) -> Object:
    try:
        return client.apply(path_of(wanted), wanted, MANAGER)
    except RefusedError as error:
        if error.absent:
            kind = f"{wanted['apiVersion']} {wanted['kind']}"
            raise NotReadyError(f"{called(wanted)}: {error}; is there a kind {kind} in this cluster?") from None
        raise RefusedError(error.code, error.reason, f"{called(wanted)}: {error}", details=error.details) from None


def _there(client: Client, wanted: Object) -> Object | None:
    try:
        return client.get(path_of(wanted))
    except RefusedError as error:
        if error.absent:
            return None
        raise


def _became(before: Object | None, after: Object) -> str:
    if before is None:
        return "created"
    same = before["metadata"].get("resourceVersion") == after["metadata"].get("resourceVersion")
    return "unchanged" if same else "configured"


def _await_served(client: Client, definition: Object, sleep: Callable[[float], None]) -> None:
    """Wait until objects of a new kind can be made."""
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        found = _there(client, definition) or {}
        conditions = (found.get("status") or {}).get("conditions") or []
        if any(one.get("type") == "Established" and one.get("status") == "True" for one in conditions):
            return
        sleep(PAUSE)
    raise NotReadyError(f"{called(definition)}: its kind is not served after {PATIENCE:.0f} s; look at its conditions")


def await_available(
    client: Client, wanted: Iterable[Object], seconds: float, sleep: Callable[[float], None] = time.sleep
) -> Iterator[str]:
    """Wait until all deployments among these objects have their replicas."""
    deadline = time.monotonic() + seconds
    for one in wanted:
        if one["kind"] != DEPLOYMENTS.kind:
            continue
        while True:
            status = (_there(client, one) or {}).get("status") or {}
            ready = int(status.get("availableReplicas") or 0)
            if ready >= one["spec"]["replicas"]:
                break
            if time.monotonic() > deadline:
                message = f"{ready} of {one['spec']['replicas']} replicas are available after {seconds:.0f} s"
                raise NotReadyError(f"{called(one)}: {message}; look at its pods")
            sleep(PAUSE)
        yield f"{called(one)} available"
