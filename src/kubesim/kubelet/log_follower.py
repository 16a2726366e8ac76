"""``kubectl logs --follow`` of a simulated container: its lines as they are written, until it ends.

Like on a real node, a follower sees one run of the container: if the container is started again, the stream has ended.
"""

from __future__ import annotations

import dataclasses
from collections.abc import AsyncIterator

from kubesim.api.client import InProcessClient
from kubesim.kubelet.logs import LogOptions, container_entry, pod_log, run_of
from kubesim.registry.registry import Object

PATIENCE_SECONDS = 60.0


def first_excerpt(pod: Object, options: LogOptions) -> tuple[str, str]:
    """The lines that are there when the follower comes, and when the run that it follows started; empty: no run."""
    text = pod_log(pod, options)
    entry = container_entry(pod, options.container)
    return text, str(run_of(entry).get("startedAt", "")) if entry and not options.previous else ""


async def follow_log(api: InProcessClient, pod: Object, options: LogOptions) -> AsyncIterator[bytes]:
    """The log of a container, then the rest of it as it is written. ``pod_log`` must have accepted the options."""
    about, prefix = pod["metadata"], f"pods/{pod['metadata']['namespace']}/"
    text, started = first_excerpt(pod, options)
    left = None if options.limit_bytes is None else options.limit_bytes - len(text.encode())
    yield text.encode()
    whole = dataclasses.replace(options, tail_lines=None, since=None, limit_bytes=None)
    known = pod_log(pod, whole)
    while started:
        revision = api.store.revision
        newest = api.read("pods", about["namespace"], about["name"])
        if newest is None or newest["metadata"]["uid"] != about["uid"]:
            return
        now = pod_log(newest, dataclasses.replace(whole, previous=_is_over(newest, options.container, started)))
        more = now.removeprefix(known).encode()
        if left is not None:
            more = more[: max(0, left)]
            left -= len(more)
        if more:
            yield more
        if _has_ended(newest, options.container, started):
            return
        known = now
        await api.store.wait(prefix, revision, PATIENCE_SECONDS)


def _has_ended(pod: Object, container: str, started: str) -> bool:
    """Whether the run of a container that started then has ended."""
    entry = container_entry(pod, container)
    return entry is None or "running" not in (entry.get("state") or {}) or run_of(entry).get("startedAt") != started


def _is_over(pod: Object, container: str, started: str) -> bool:
    """Whether the run that started then is the one before the present one."""
    last = (container_entry(pod, container) or {}).get("lastState") or {}
    return bool((last.get("terminated") or {}).get("startedAt") == started)
