"""Bringing manifests into a cluster: applied on the server, so that what others have added to our objects stays.

What is there and the same is left alone; who installs twice changes nothing. What somebody else has changed since is
not changed back unless that is asked for. All of it is rehearsed first: what the server would refuse is known before
anything has changed.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Container, Iterable, Iterator
from typing import Any

from pumice.install.manifests import ONCE
from pumice.install.resources import DEFINITIONS, DEPLOYMENTS, display_name, path_of
from pumice.kube.client.api_errors import ApiError
from pumice.kube.client.sync_client import Client

Object = dict[str, Any]

MANAGER = "pumice-install"
"""Who we are to the server: what we have applied is known by it."""
PAUSE, PATIENCE = 0.2, 30.0
"""Seconds: between two looks at a new definition, and until it must be served."""


class NotReadyError(Exception):
    """Something was installed but does not work in time."""


class FieldConflictError(Exception):
    """Others have set what would be changed; the message says what, and who."""


def dry_run_apply(
    client: Client, wanted: Iterable[Object], *, once: Container[str] = ONCE, forced: Container[str] = ()
) -> None:
    """Have the server judge what would be applied, and change nothing.

    Left out is what would only be judged in a cluster where the rest is there already: everything in a namespace that
    is yet to be made, and new bindings of roles.
    """
    objects = list(wanted)
    new = {one["metadata"]["name"] for one in objects if one["kind"] == "Namespace" and _there(client, one) is None}
    taken: list[str] = []
    for one in objects:
        if one["kind"] in once or one["metadata"].get("namespace") in new:
            continue
        if one["kind"].endswith("RoleBinding") and _there(client, one) is None:
            continue
        try:
            _applied(client, one, force=one["kind"] in forced, dry_run=True)
        except ApiError as error:
            if not error.conflict:
                raise
            taken += [f"{display_name(one)} {said}" for said in _conflicts(error)]
    if taken:
        raise FieldConflictError("\n  ".join(["set by somebody else:", *taken]))


def _conflicts(error: ApiError) -> list[str]:
    """What others have set, field by field."""
    causes = [cause for cause in error.details.get("causes") or () if cause.get("field")]
    return [f"{cause['field']} ({cause.get('message', '')})" for cause in causes] or [str(error)]


def apply(
    client: Client,
    wanted: Iterable[Object],
    *,
    once: Container[str] = ONCE,
    forced: Container[str] = (),
    sleep: Callable[[float], None] = time.sleep,
) -> Iterator[str]:
    """Apply objects in order; says of each what became of it.

    Of kinds in ``once`` only what is missing is made. In kinds in ``forced`` what others have set gives way.
    """
    for one in wanted:
        before = _there(client, one)
        if one["kind"] in once and before is not None:
            yield f"{display_name(one)} kept"
            continue
        after = _applied(client, one, force=one["kind"] in forced)
        if one["kind"] == DEFINITIONS.kind:
            _await_served(client, one, sleep)
        yield f"{display_name(one)} {_became(before, after)}"


def _applied(client: Client, wanted: Object, *, force: bool, dry_run: bool = False) -> Object:
    try:
        return client.apply(path_of(wanted), wanted, MANAGER, force=force, dry_run=dry_run)
    except ApiError as error:
        if error.not_found:
            kind = f"{wanted['apiVersion']} {wanted['kind']}"
            raise NotReadyError(f"{display_name(wanted)}: {error}; is there a kind {kind} in this cluster?") from None
        raise ApiError(error.code, error.reason, f"{display_name(wanted)}: {error}", details=error.details) from None


def _there(client: Client, wanted: Object) -> Object | None:
    try:
        return client.get(path_of(wanted))
    except ApiError as error:
        if error.not_found:
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
    raise NotReadyError(
        f"{display_name(definition)}: its kind is not served after {PATIENCE:.0f} s; look at its conditions"
    )


def await_available(
    client: Client, wanted: Iterable[Object], seconds: float, sleep: Callable[[float], None] = time.sleep
) -> Iterator[str]:
    """Wait until all deployments among these objects have their replicas, of the version that was just applied."""
    deadline = time.monotonic() + seconds
    for one in wanted:
        if one["kind"] != DEPLOYMENTS.kind:
            continue
        while lacking := _unavailable(_there(client, one) or {}):
            if time.monotonic() > deadline:
                raise NotReadyError(f"{display_name(one)}: {lacking} after {seconds:.0f} s; look at its pods")
            sleep(PAUSE)
        yield f"{display_name(one)} available"


def _unavailable(deployment: Object) -> str:
    """What a deployment still has to do, as ``kubectl rollout status`` sees it; empty if nothing.

    During an upgrade the replicas of before are available too, and the status may be that of the time before.
    """
    about, status = deployment.get("metadata") or {}, deployment.get("status") or {}
    if int(status.get("observedGeneration") or 0) < int(about.get("generation") or 1):
        return "its controller has not seen the change"
    replicas = int((deployment.get("spec") or {}).get("replicas") or 0)
    count = {name: int(status.get(f"{name}Replicas") or 0) for name in ("updated", "available")}
    if count["updated"] < replicas:
        return f"{count['updated']} of {replicas} replicas are updated"
    if (old := int(status.get("replicas") or 0) - count["updated"]) > 0:
        return f"{old} old replicas still run"
    if count["available"] < replicas:
        return f"{count['available']} of {replicas} replicas are available"
    return ""
