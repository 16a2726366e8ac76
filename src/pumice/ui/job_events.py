"""The Events of a job, read from the API when a viewer asks: the page keeps no Events of all jobs."""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from dataclasses import dataclass
from typing import Any

from pumice.kube.client.api import Api, ListOptions
from pumice.kube.client.api_errors import ApiError, UnreachableError
from pumice.kube.resources import EVENTS
from pumice.ui.job_documents import EVENTS_LISTED
from pumice.ui.picture import ClusterPicture
from pumice.ui.values import Document

FRESH_SECONDS = 2.0
"""Seconds for which all viewers of a job get the same Events."""
PODS_ASKED = 8
"""Pods of a job whose own Events are read: those that wait first."""
KEPT_JOBS = 64


@dataclass(frozen=True, slots=True)
class EventRows:
    """Events, newest first; the number differs whenever they were read again and differ."""

    rows: list[Document]
    number: int
    until: float


class JobEvents:
    """Reads the Events of jobs, at most once in a while for each job."""

    def __init__(self, api: Api) -> None:
        self._api = api
        self._known: OrderedDict[str, EventRows] = OrderedDict()
        self._reading: dict[str, asyncio.Task[EventRows]] = {}
        self._number = 0

    async def of(self, key: str, picture: ClusterPicture) -> EventRows:
        """The Events of a job, of its PodGroup, its owner and some of its pods."""
        known = self._known.get(key)
        if known is not None and time.monotonic() < known.until:
            return known
        task = self._reading.get(key)
        if task is None:
            task = self._reading[key] = asyncio.create_task(self._read(key, picture))
            task.add_done_callback(lambda _: self._reading.pop(key, None))
        return await asyncio.shield(task)

    async def _read(self, key: str, picture: ClusterPicture) -> EventRows:
        group = picture.groups[key]
        pods = sorted(picture.pods_of(key), key=lambda pod: (pod.state != "waiting", pod.name))[:PODS_ASKED]
        subjects = {("PodGroup", group.group), (group.kind, group.name), *(("Pod", pod.name) for pod in pods)}
        found = await asyncio.gather(*(self._list(group.namespace, *subject) for subject in sorted(subjects)))
        rows = [_row(event) for events in found for event in events]
        rows.sort(key=lambda row: (row["time"] or "", row["object"], row["message"]), reverse=True)
        rows = rows[:EVENTS_LISTED]
        known = self._known.pop(key, None)
        if known is None or known.rows != rows:
            self._number += 1
        number = known.number if known is not None and known.rows == rows else self._number
        self._known[key] = EventRows(rows, number, time.monotonic() + FRESH_SECONDS)
        while len(self._known) > KEPT_JOBS:
            self._known.popitem(last=False)
        return self._known[key]

    async def _list(self, namespace: str, kind: str, name: str) -> list[Document]:
        choice = ListOptions(namespace, fields=f"involvedObject.kind={kind},involvedObject.name={name}")
        try:
            return (await self._api.list(EVENTS, choice)).items
        except (ApiError, UnreachableError):  # without the right to read Events, or without the API, there are none
            return []


def _row(event: dict[str, Any]) -> Document:
    about, series = event.get("involvedObject") or {}, event.get("series") or {}
    time_seen = series.get("lastObservedTime") or event.get("lastTimestamp") or event.get("eventTime")
    return {
        "time": time_seen or (event.get("metadata") or {}).get("creationTimestamp"),
        "type": str(event.get("type") or "Normal"),
        "reason": str(event.get("reason") or ""),
        "message": str(event.get("message") or ""),
        "count": int(series.get("count") or event.get("count") or 1),
        "object": f"{about.get('kind')}/{about.get('name')}",
    }
