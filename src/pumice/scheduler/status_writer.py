"""Writes the status of objects, retrying until it is written.

At most one write per object is in flight, and updates that arrive meanwhile are merged into the next one: so an older
status never overwrites a newer one. A write without an answer is retried, unless it has been superseded, and so is one
rejected because of credentials or load, because no other component would write it again. Only invalid writes are
dropped, and those for a deleted object: its successor of the same name must not get its status.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Any

from pumice.kube.client.api import Api
from pumice.kube.client.api_errors import ApiError, UnreachableError, retry_after_seconds
from pumice.kube.client.rate_limit import Backoff
from pumice.kube.resources import POD_GROUPS, QUEUES

log = logging.getLogger(__name__)

LATER = frozenset({408, 429, 500, 502, 503, 504})
"""Status codes that reject a write for reasons of time, not of content."""
WRONG = frozenset({400, 405, 413, 415, 422})
"""Status codes that reject the write itself: the same would be rejected again."""

WRITE_TIMEOUT = 5.0
"""Seconds for which ``wait_written`` waits."""

Status = dict[str, Any]
Place = tuple[str, str]  # resource and key


class StatusWriter:
    """Writes the status of podgroups and queues."""

    def __init__(self, api: Api) -> None:
        self._api = api
        self._waiting: dict[Place, tuple[str, Status]] = {}  # each with the uid of the object it is meant for
        self._writing: dict[Place, asyncio.Task[None]] = {}

    def write(self, resource: str, key: str, status: Status, uid: str = "") -> None:
        """Write fields of an object's status (with a uid: only of that object); later values of a field win."""
        place = (resource, key)
        meant, before = self._waiting.get(place, (uid, {}))
        self._waiting[place] = uid, {**before, **status} if meant == uid else status
        if place not in self._writing:
            self._writing[place] = asyncio.create_task(self._write(place))

    async def done(self) -> None:
        """Wait until everything is written."""
        while self._writing:
            await asyncio.wait(set(self._writing.values()))

    async def wait_written(self, resource: str, key: str) -> None:
        """Wait until the pending status of an object is written, for at most ``WRITE_TIMEOUT``."""
        if (writing := self._writing.get((resource, key))) is not None:
            await asyncio.wait({writing}, timeout=WRITE_TIMEOUT)

    async def _write(self, place: Place) -> None:
        backoff = Backoff()
        warned = False
        while waiting := self._waiting.pop(place, None):
            try:
                await self._patch(place, *waiting)
                backoff.reset()
            except UnreachableError as error:
                await self._again(place, waiting, backoff, error)
            except ApiError as error:
                if not (error.not_found or error.code in LATER or warned):
                    log.warning('The API rejected a status update: resource=%s object=%s error="%s"', *place, error)
                    warned = True
                if not (error.not_found or error.code in WRONG):
                    await self._again(place, waiting, backoff, error)
        del self._writing[place]  # with no await since the last check, so that no status is missed in between

    async def _patch(self, place: Place, uid: str, status: Status) -> None:
        resource, key = place
        if resource == QUEUES.name:
            await self._api.patch_status(QUEUES.raw, key, status)
        else:  # podgroups have no status subresource
            namespace, name = key.split("/")
            whose = {"metadata": {"uid": uid}} if uid else {}
            await self._api.patch(POD_GROUPS.raw, name, {**whose, "status": status}, namespace)

    async def _again(self, place: Place, failed: tuple[str, Status], backoff: Backoff, error: Exception) -> None:
        uid, status = failed
        meant, newer = self._waiting.get(place, (uid, {}))
        self._waiting[place] = meant, {**status, **newer} if meant == uid else newer
        pause = backoff.next(retry_after_seconds(error))
        log.info(
            'Status update failed, retrying: resource=%s object=%s error="%s" retryAfter=%.1fs', *place, error, pause
        )
        await asyncio.sleep(pause)
