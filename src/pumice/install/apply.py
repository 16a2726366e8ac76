"""Apply manifests to a cluster by server-side apply, so that fields of other managers are kept.

Unchanged objects are left alone: a second installation changes nothing. Fields that another manager has changed are
kept unless they are forced. A server-side dry run comes first, so that a refusal is known before anything is changed.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Container, Iterable, Iterator
from typing import Any

from pumice.install.installed_kinds import DEFINITIONS, DEPLOYMENTS, QUEUES, display_name, path_of
from pumice.install.manifests import CREATE_ONLY_KINDS
from pumice.kube.client.api_errors import ApiError
from pumice.kube.client.sync_client import Client
from pumice.model.specs import ROOT

Object = dict[str, Any]

FIELD_MANAGER = "pumice-install"
"""The field manager of everything that is applied."""
BOOKKEEPING = ("managedFields", "resourceVersion")
"""Metadata that the server keeps for itself."""
POLL_SECONDS, ESTABLISH_TIMEOUT = 0.2, 30.0
"""Seconds between two reads of a new CRD, and until it must be Established."""


class NotReadyError(Exception):
    """Something was installed but does not work in time."""


class FieldConflictError(Exception):
    """Another field manager has set fields that would change; the message names the fields and the managers."""


def dry_run_apply(
    client: Client, wanted: Iterable[Object], *, once: Container[str] = CREATE_ONLY_KINDS, forced: Container[str] = ()
) -> None:
    """Send all objects to the server as a dry run; nothing is changed.

    Objects that the server can only validate after others exist are skipped: objects in a namespace that does not exist
    yet, and new role bindings.
    """
    objects = list(wanted)
    new = {
        one["metadata"]["name"] for one in objects if one["kind"] == "Namespace" and _get_existing(client, one) is None
    }
    taken: list[str] = []
    for one in objects:
        if one["kind"] in once or one["metadata"].get("namespace") in new:
            continue
        if one["kind"].endswith("RoleBinding") and _get_existing(client, one) is None:
            continue
        try:
            _apply_object(client, one, force=one["kind"] in forced, dry_run=True)
        except ApiError as error:
            if not error.conflict:
                raise
            taken += [f"{display_name(one)} {said}" for said in _conflicts(error)]
    if taken:
        raise FieldConflictError("\n  ".join(["conflict with other field managers:", *taken]))


def _conflicts(error: ApiError) -> list[str]:
    """The conflicting fields, each with its manager."""
    causes = [cause for cause in error.details.get("causes") or () if cause.get("field")]
    return [f"{cause['field']} ({cause.get('message', '')})" for cause in causes] or [str(error)]


def apply(
    client: Client,
    wanted: Iterable[Object],
    *,
    once: Container[str] = CREATE_ONLY_KINDS,
    forced: Container[str] = (),
    sleep: Callable[[float], None] = time.sleep,
) -> Iterator[str]:
    """Apply objects in order; yield a line about the result for each.

    Kinds in ``once`` are only created if missing. In kinds in ``forced``, fields of other managers are overwritten.
    """
    for one in wanted:
        before = _get_existing(client, one)
        if one["kind"] in once and before is not None:
            yield f"{display_name(one)} kept"
            continue
        after = _apply_object(client, one, force=one["kind"] in forced)
        if one["kind"] == DEFINITIONS.kind:
            _await_served(client, one, sleep)
        yield f"{display_name(one)} {_apply_result(before, after)}"


def _apply_object(client: Client, wanted: Object, *, force: bool, dry_run: bool = False) -> Object:
    try:
        return client.apply(path_of(wanted), wanted, FIELD_MANAGER, force=force, dry_run=dry_run)
    except ApiError as error:
        if error.not_found:
            kind = f"{wanted['apiVersion']} {wanted['kind']}"
            raise NotReadyError(f"{display_name(wanted)}: {error}; the cluster does not serve {kind}") from None
        raise ApiError(error.code, error.reason, f"{display_name(wanted)}: {error}", details=error.details) from None


def _get_existing(client: Client, wanted: Object) -> Object | None:
    try:
        return client.get(path_of(wanted))
    except ApiError as error:
        if error.not_found:
            return None
        raise


def _apply_result(before: Object | None, after: Object) -> str:
    if before is None:
        return "created"
    return "unchanged" if _content(before) == _content(after) else "configured"


def _content(found: Object) -> Object:
    """An object without the record of who set which field, which the server may write anew although nothing changes."""
    about = {name: value for name, value in found["metadata"].items() if name not in BOOKKEEPING}
    return {**found, "metadata": about}


def _await_served(client: Client, definition: Object, sleep: Callable[[float], None]) -> None:
    """Wait until the API serves the kind of a new CRD."""
    deadline = time.monotonic() + ESTABLISH_TIMEOUT
    while time.monotonic() < deadline:
        found = _get_existing(client, definition) or {}
        conditions = (found.get("status") or {}).get("conditions") or []
        if any(one.get("type") == "Established" and one.get("status") == "True" for one in conditions):
            return
        sleep(POLL_SECONDS)
    raise NotReadyError(
        f"{display_name(definition)}: not Established after {ESTABLISH_TIMEOUT:.0f} s; see its conditions"
    )


def await_available(
    client: Client, wanted: Iterable[Object], seconds: float, sleep: Callable[[float], None] = time.sleep
) -> Iterator[str]:
    """Wait until all deployments among these objects have their replicas, of the version that was just applied."""
    deadline = time.monotonic() + seconds
    for one in wanted:
        if one["kind"] != DEPLOYMENTS.kind:
            continue
        while pending := _pending_rollout(_get_existing(client, one) or {}):
            if time.monotonic() > deadline:
                raise NotReadyError(f"{display_name(one)}: {pending} after {seconds:.0f} s; see its pods")
            sleep(POLL_SECONDS)
        yield f"{display_name(one)} available"


def await_configuration(
    client: Client, config: Object, key: str, seconds: float, sleep: Callable[[float], None] = time.sleep
) -> Iterator[str]:
    """Wait until the scheduler reports that it runs with the configuration in its ConfigMap."""
    deadline = time.monotonic() + seconds
    while True:
        wanted = ((_get_existing(client, config) or {}).get("data") or {}).get(key)
        root = client.get(QUEUES.path(name=ROOT))
        if ((root.get("status") or {}).get("scheduler") or {}).get("configuration") == wanted:
            yield f"{display_name(config)} in force"
            return
        if time.monotonic() > deadline:
            raise NotReadyError(
                f"{display_name(config)}: not in force after {seconds:.0f} s; see the log of the scheduler"
            )
        sleep(POLL_SECONDS)


def _pending_rollout(deployment: Object) -> str:
    """What a rollout still lacks, by the rules of ``kubectl rollout status``; empty if it is complete.

    During an upgrade the old replicas count as available too, and the status may describe the previous generation.
    """
    metadata, status = deployment.get("metadata") or {}, deployment.get("status") or {}
    if int(status.get("observedGeneration") or 0) < int(metadata.get("generation") or 1):
        return "the spec update has not been observed"
    replicas = int((deployment.get("spec") or {}).get("replicas") or 0)
    updated, available = (int(status.get(f"{name}Replicas") or 0) for name in ("updated", "available"))
    if updated < replicas:
        return f"{updated} of {replicas} new replicas updated"
    if (old := int(status.get("replicas") or 0) - updated) > 0:
        return f"{old} old replicas pending termination"
    if available < replicas:
        return f"{available} of {replicas} updated replicas available"
    return ""
