"""Subresources with verbs of their own: a pod's binding, eviction and log, a namespace's finalizers."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

from kubesim.api import status
from kubesim.api.client import InProcessClient
from kubesim.api.field_errors import FieldProblem, forbidden, invalid
from kubesim.api.request_context import RequestContext
from kubesim.api.requests import Target, WriteOptions, parse_bool, parse_delete_options, parse_int
from kubesim.api.write_steps import check_preconditions
from kubesim.api.writes import Edit
from kubesim.clock import parse_time
from kubesim.controllers.disruption import BUDGETS, status_after_eviction
from kubesim.kinds.pods.binding import bind, set_condition
from kubesim.kubelet.logs import LogOptions
from kubesim.registry.registry import Object


async def create_binding(
    api: InProcessClient, target: Target, body: Any, options: WriteOptions, call: RequestContext
) -> Object:
    """Put a pod on a node. The pod itself changes, so this is an update of it."""

    def bound(old: Object) -> Object:
        return bind(old, body, call.now)

    await api.writes.update(target, bound, options, call, well_formed=True)
    return status.success(code=201)


async def create_eviction(
    api: InProcessClient, target: Target, body: Any, options: WriteOptions, call: RequestContext
) -> Object:
    """Delete a pod, if its disruption budgets allow it."""
    if not isinstance(body, dict) or not isinstance(body.get("metadata", {}), dict):
        raise status.bad_request("the body of an eviction must be an Eviction object")
    if body.get("metadata", {}).get("name", target.name) != target.name:
        raise status.bad_request("name in URL does not match name in Eviction object")
    how = parse_delete_options({"dryRun": "All"} if options.dry_run else {}, body.get("deleteOptions"))
    pod = call.find("pods", target.namespace, target.name)
    if pod:
        check_preconditions(target, how, pod["metadata"])
    budgets = call.list(BUDGETS, target.namespace) if pod else ()
    for budget, take in status_after_eviction(budgets, pod, call.now) if pod else ():
        if not how.dry_run:
            where = budget["metadata"]
            await api.modify(BUDGETS, where["namespace"], where["name"], take, subresource="status")
    if pod and not how.dry_run:
        # From here on by uid: another pod may take the name while the write waits for the disk.
        uid = pod["metadata"]["uid"]
        how = dataclasses.replace(how, uid=uid)
        mark = partial(_mark_evicted, now=call.now)
        await api.modify("pods", target.namespace, target.name, mark, subresource="status", uid=uid)
    await api.writes.delete(Target(target.resource, target.namespace, target.name), how, call)
    return status.success(code=201)


def _mark_evicted(pod: Object, now: str) -> None:
    set_condition(
        pod.setdefault("status", {}),
        {
            "type": "DisruptionTarget",
            "status": "True",
            "reason": "EvictionByEvictionAPI",
            "message": "Eviction API: evicting",
        },
        now,
    )


def read_log(api: InProcessClient, target: Target, query: Mapping[str, str]) -> tuple[Object, LogOptions]:
    """The pod whose log is asked for, and which part of it."""
    pod = api.read("pods", target.namespace, target.name)
    if pod is None:
        raise status.not_found("pods", "", target.name)
    problems = list(_log_problems(query))
    if problems:
        raise status.invalid("PodLogOptions", "", target.name, problems)
    return pod, LogOptions(
        container=query.get("container", ""),
        previous=parse_bool(query, "previous"),
        timestamps=parse_bool(query, "timestamps"),
        tail_lines=parse_int(query, "tailLines"),
        since=_since(query),
        limit_bytes=parse_int(query, "limitBytes"),
    )


def _log_problems(query: Mapping[str, str]) -> Iterator[FieldProblem]:
    for name, least, words in (
        ("tailLines", 0, "must be greater than or equal to 0"),
        ("limitBytes", 1, "must be greater than 0"),
        ("sinceSeconds", 1, "must be greater than 0"),
    ):
        asked = parse_int(query, name)
        if asked is not None and asked < least:
            yield invalid(name, asked, words)
    if query.get("sinceSeconds") and query.get("sinceTime"):
        yield forbidden("[]", "at most one of `sinceTime` or `sinceSeconds` may be specified")


def _since(query: Mapping[str, str]) -> float | None:
    seconds, text = parse_int(query, "sinceSeconds"), query.get("sinceTime", "")
    if seconds is not None:
        return time.time() - seconds
    try:
        return parse_time(text) if text else None
    except ValueError:
        raise status.bad_request(f"sinceTime {text!r} is not a time such as 2024-05-01T12:00:00Z") from None


def finalized(body: Any) -> Edit:
    """The edit of a namespace's finalize: it takes over ``spec.finalizers`` and nothing else."""

    def edit(old: Object) -> Object:
        spec = body.get("spec") or {} if isinstance(body, dict) else None
        finalizers = spec.get("finalizers") or [] if isinstance(spec, dict) else None
        if not isinstance(finalizers, list) or not all(isinstance(one, str) for one in finalizers):
            raise status.bad_request("spec.finalizers of the body must be a list of strings")
        return {**old, "metadata": {**old["metadata"]}, "spec": {**old.get("spec", {}), "finalizers": finalizers}}

    return edit
