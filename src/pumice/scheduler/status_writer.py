"""Writing what objects say of themselves, until it is written.

For each object one write is under way at a time, and what comes meanwhile is put together for the next: so nothing is
overtaken by what is older. What does not arrive is sent again, unless it has been replaced by then, and so is what the
cluster refuses because of who asks, or when: nobody would say it again. Only what is wrong in itself is dropped, and
what was meant for an object that is gone: another one of its name must not say what that one had to.
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
"""Refusals that say nothing against the write."""
WRONG = frozenset({400, 405, 413, 415, 422})
"""Refusals of the write itself, whoever asks: the same would be refused again."""

PATIENCE = 5.0
"""Seconds for which others wait until something is written."""

Status = dict[str, Any]
Place = tuple[str, str]  # resource and key


class StatusWriter:
    """Keeps writing."""

    def __init__(self, api: Api) -> None:
        self._api = api
        self._waiting: dict[Place, tuple[str, Status]] = {}  # each with the uid of the object it is meant for
        self._writing: dict[Place, asyncio.Task[None]] = {}

    def write(self, resource: str, key: str, status: Status, uid: str = "") -> None:
        """Write parts of an object's status, with a uid only of this very one; later parts of the same name win."""
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
        """Wait until what an object has to say is written, but not for long."""
        if (writing := self._writing.get((resource, key))) is not None:
            await asyncio.wait({writing}, timeout=PATIENCE)

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
                    log.warning("%s %s: %s", *place, error)
                    warned = True
                if not (error.not_found or error.code in WRONG):
                    await self._again(place, waiting, backoff, error)
        del self._writing[place]  # in the same breath as the last look, so that nobody's status falls in between

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
        log.info("%s %s: %s; again in %.1f s", *place, error, pause)
        await asyncio.sleep(pause)
