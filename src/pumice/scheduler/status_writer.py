"""Writes the status of objects, retrying until it is written.

At most one write per object is in flight, and updates that arrive meanwhile are merged into the next one: so an older
status never overwrites a newer one. A write without an answer is retried, unless it has been superseded, and so is one
rejected because of credentials or load, because no other component would write it again. Only invalid writes are
dropped, and those for a deleted object: its successor of the same name must not get its status.

Counts of podgroups are written twice a second at most, however fast pods end; a changed phase is written at once.
An urgent status is one that somebody waits for, as the controllers do for the phase Inqueue. The others are held behind
the bindings that were decided before (``binding_queue``), and merged meanwhile.

Conditions of pods are different: each is meant for one revision of its pod. If the API rejects one, it is dropped: the
pod has changed, perhaps it is bound by now, and the watch shows what became of it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from math import inf
from typing import Any, NamedTuple

from pumice.kube.client.api import Api, Patch
from pumice.kube.client.api_errors import ApiError, UnreachableError, retry_after_seconds
from pumice.kube.client.rate_limit import Backoff
from pumice.kube.resources import POD_GROUPS, PODS, QUEUES

log = logging.getLogger(__name__)

LATER = frozenset({408, 429, 500, 502, 503, 504})
"""Status codes that reject a write for reasons of time, not of content."""
WRONG = frozenset({400, 405, 413, 415, 422})
"""Status codes that reject the write itself: the same would be rejected again."""

COUNT_SECONDS = 0.5
"""Seconds between two writes of a podgroup's counts."""
WRITE_TIMEOUT = 5.0
"""Seconds for which ``wait_written`` waits."""

Status = dict[str, Any]
Place = tuple[str, str]  # resource and key


class Precondition(NamedTuple):
    """The object that a write is meant for, if not for any of that name: its uid, and its resourceVersion."""

    uid: str = ""
    revision: str = ""


class StatusWriter:
    """Writes the status of podgroups and queues, and the conditions of pods."""

    def __init__(self, api: Api, hold: Callable[[asyncio.Event], None] = asyncio.Event.set) -> None:
        self._api = api
        self._hold = hold  # sets the event as soon as a status may be written that is not urgent
        self._waiting: dict[Place, tuple[Precondition, Status]] = {}
        self._writing: dict[Place, asyncio.Task[None]] = {}
        self._urgent: set[Place] = set()  # what is not to be held
        self._held: dict[Place, asyncio.Event] = {}  # objects whose status is held
        self._hurry: dict[Place, asyncio.Event] = {}  # of podgroups whose counts wait
        self._counted: dict[Place, float] = {}  # of podgroups: when they were last written, if not long ago
        self._forget_at = -inf  # when those that were written long ago are forgotten
        self._pods_refused = False  # whether the log says that conditions of pods are rejected

    def write(
        self, resource: str, key: str, status: Status, uid: str = "", revision: str = "", *, urgent: bool = False
    ) -> None:
        """Write fields of an object's status (with a uid or revision: only of that); later values of a field win."""
        place, wanted = (resource, key), Precondition(uid, revision)
        meant, before = self._waiting.get(place, (wanted, {}))
        self._waiting[place] = wanted, {**before, **status} if meant == wanted else status
        if urgent:
            self._hasten(place)
        if place not in self._writing:
            self._writing[place] = asyncio.create_task(self._write(place))
        elif not _is_count(place, status) and place in self._hurry:
            self._hurry[place].set()

    async def done(self) -> None:
        """Wait until everything is written."""
        while self._writing:
            for place in self._writing:
                self._hasten(place)
            await asyncio.wait(set(self._writing.values()))

    async def wait_written(self, resource: str, key: str) -> None:
        """Wait until the pending status of an object is written, for at most ``WRITE_TIMEOUT``."""
        if (writing := self._writing.get((resource, key))) is not None:
            self._hasten((resource, key))
            await asyncio.wait({writing}, timeout=WRITE_TIMEOUT)

    def _hasten(self, place: Place) -> None:
        """Write the pending status of an object at once."""
        self._urgent.add(place)
        for waiting in (self._held, self._hurry):
            if (over := waiting.get(place)) is not None:
                over.set()

    async def _write(self, place: Place) -> None:
        backoff = Backoff()
        warned = False
        while (status := self._waiting.get(place)) is not None:
            if _is_count(place, status[1]):
                await self._gather_counts(place)
            if place not in self._urgent:
                await self._let_bindings_pass(place)
            self._urgent.discard(place)
            waiting = self._waiting.pop(place)
            try:
                await self._patch(place, *waiting)
                backoff.reset()
            except UnreachableError as error:
                await self._again(place, waiting, backoff, error)
            except ApiError as error:
                if place[0] == PODS.name and error.code not in LATER:
                    self._note_refused_pod(place[1], error)
                    continue
                if not (error.not_found or error.code in LATER or warned):
                    log.warning('The API rejected a status update: resource=%s object=%s error="%s"', *place, error)
                    warned = True
                if not (error.not_found or error.code in WRONG):
                    await self._again(place, waiting, backoff, error)
        self._urgent.discard(place)
        del self._writing[place]  # with no await since the last check, so that no status is missed in between

    async def _let_bindings_pass(self, place: Place) -> None:
        self._hold(over := asyncio.Event())
        if not over.is_set():
            self._held[place] = over
            await over.wait()
            del self._held[place]

    async def _gather_counts(self, place: Place) -> None:
        """Wait until counts may be written again, unless there is more to write by then."""
        loop = asyncio.get_running_loop()
        left = self._counted.get(place, -inf) + COUNT_SECONDS - loop.time()
        if left > 0:
            self._hurry[place] = asyncio.Event()
            with suppress(TimeoutError):
                async with asyncio.timeout(left):
                    await self._hurry[place].wait()
            del self._hurry[place]
        now = loop.time()
        if now >= self._forget_at:
            self._counted = {key: moment for key, moment in self._counted.items() if now - moment < COUNT_SECONDS}
            self._forget_at = now + COUNT_SECONDS
        self._counted[place] = now

    def _note_refused_pod(self, key: str, error: ApiError) -> None:
        """Log once that conditions of pods are rejected, unless the pod has merely changed or is gone."""
        if not (error.not_found or error.conflict or self._pods_refused):
            self._pods_refused = True
            log.warning('The API rejects conditions of pods: pod=%s error="%s"', key, error)

    async def _patch(self, place: Place, meant: Precondition, status: Status) -> None:
        resource, key = place
        if resource == QUEUES.name:
            await self._api.patch_status(QUEUES.raw, key, status)
            return
        namespace, name = key.split("/")
        whose: dict[str, Any] = {"metadata": {"uid": meant.uid}} if meant.uid else {}
        if resource == PODS.name:  # a strategic merge keeps the other conditions
            patch = {"metadata": {"uid": meant.uid, "resourceVersion": meant.revision}, "status": status}
            await self._api.patch(PODS.raw, name, patch, namespace, how=Patch.STRATEGIC, subresource="status")
        else:  # podgroups have no status subresource
            await self._api.patch(POD_GROUPS.raw, name, {**whose, "status": status}, namespace)

    async def _again(
        self, place: Place, failed: tuple[Precondition, Status], backoff: Backoff, error: Exception
    ) -> None:
        before, status = failed
        meant, newer = self._waiting.get(place, (before, {}))
        self._waiting[place] = meant, {**status, **newer} if meant == before else newer
        pause = backoff.next(retry_after_seconds(error))
        log.info(
            'Status update failed, retrying: resource=%s object=%s error="%s" retryAfter=%.1fs', *place, error, pause
        )
        await asyncio.sleep(pause)


def _is_count(place: Place, status: Status) -> bool:
    """Whether these are counts of a podgroup, and nothing that anybody waits for."""
    return place[0] == POD_GROUPS.name and not status.keys() - {"running", "succeeded", "failed"}
