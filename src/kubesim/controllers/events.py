"""The event recorder of controllers and kubelets, and the expiry of events.

A repeated event raises the count of the first. Events are kept for an hour.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import OrderedDict

from kubesim.api.client import InProcessClient
from kubesim.api.status import ApiError
from kubesim.clock import Clock, parse_time, stamp
from kubesim.registry.registry import Object

EVENT_TTL_SECONDS = 3600.0
SWEEP_SECONDS = 60.0
MAX_REMEMBERED = 1000
AT_ONCE = 200


class EventRecorder:
    """Writes events in the name of one component, on one host if it is a kubelet."""

    def __init__(self, api: InProcessClient, component: str, clock: Clock) -> None:
        self._api = api
        self._component = component
        self._clock = clock
        self._recent: OrderedDict[tuple[str, str, str], tuple[str, str]] = OrderedDict()
        self._number = 0

    async def record_normal(self, about: Object, reason: str, message: str, *, host: str = "") -> None:
        """Something happened as it should."""
        await self._write(about, "Normal", reason, message, host)

    async def record_warning(self, about: Object, reason: str, message: str, *, host: str = "") -> None:
        """Something happened that should not."""
        await self._write(about, "Warning", reason, message, host)

    async def _write(self, about: Object, kind: str, reason: str, message: str, host: str) -> None:
        now = self._clock.now()
        key = (about["metadata"]["uid"], reason, message)
        try:
            if key in self._recent and await self._count_again(key, stamp(now)):
                return
            event = self._new(about, kind, reason, message, host, now)
            self._recent[key] = (event["metadata"]["namespace"], event["metadata"]["name"])
            if len(self._recent) > MAX_REMEMBERED:
                self._recent.popitem(last=False)
            await self._api.create("events", event["metadata"]["namespace"], event)
        except ApiError:
            self._recent.pop(key, None)  # a namespace that is being deleted accepts no events

    async def _count_again(self, key: tuple[str, str, str], now: str) -> bool:
        def edit(event: Object) -> None:
            event["count"] = event.get("count", 1) + 1
            event["lastTimestamp"] = now

        self._recent.move_to_end(key)
        return await self._api.modify("events", *self._recent[key], edit) is not None

    def _new(self, about: Object, kind: str, reason: str, message: str, host: str, now: float) -> Object:
        metadata = about["metadata"]
        self._number += 1
        suffix = f"{int(now * 1e6):x}{self._number % 4096:03x}"
        subject = {"apiVersion": about["apiVersion"], "kind": about["kind"], "name": metadata["name"]}
        subject |= {key: metadata[key] for key in ("namespace", "uid", "resourceVersion") if metadata.get(key)}
        source = {"component": self._component} | ({"host": host} if host else {})
        return {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {
                "name": f"{metadata['name'][:200]}.{suffix}",
                "namespace": metadata.get("namespace") or "default",
            },
            "involvedObject": subject,
            "reason": reason,
            "message": message[:1024],
            "source": source,
            "firstTimestamp": stamp(now),
            "lastTimestamp": stamp(now),
            "count": 1,
            "type": kind,
            "reportingComponent": self._component,
            "reportingInstance": host,
        }


def is_expired(event: Object, now: float) -> bool:
    """Whether an event was written and last happened more than an hour ago; an invalid time does not count."""
    newest = parse_time(event["metadata"]["creationTimestamp"])
    with contextlib.suppress(ValueError, OverflowError):
        newest = max(newest, parse_time(event.get("lastTimestamp") or event.get("eventTime") or ""))
    return newest + EVENT_TTL_SECONDS < now


async def run(api: InProcessClient, clock: Clock) -> None:
    """Sweep old events away until cancelled."""
    while True:
        now = clock.now()
        stale = [event["metadata"] for event in api.list("events") if is_expired(event, now)]
        for start in range(0, len(stale), AT_ONCE):
            batch = stale[start : start + AT_ONCE]
            # The next sweep retries failed deletions.
            work = (api.delete("events", about["namespace"], about["name"]) for about in batch)
            await asyncio.gather(*work, return_exceptions=True)
        await asyncio.sleep(SWEEP_SECONDS)
