"""A cache of a collection that is kept up to date: one list, then a watch.

The cache never goes back in time and its changes are exact: applied in order to an empty cache, they give the cache.
When a connection breaks, the watch continues after the last resourceVersion. When the server no longer has that one, or
sends an object that is not newer, or watches repeatedly break before any event, the collection is listed again. The
differences between list and cache are reported: first deletions, then new and changed objects. An object that was
deleted and recreated meanwhile has another uid: it is reported as deleted, and as new.

An object that cannot be decoded is skipped: the cache keeps its last valid state until the object is deleted.

An ``optional`` resource is one that the server may not have, because its definition was not installed. It counts as
empty until the server has it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import aclosing
from typing import Any, Generic, TypeVar

import msgspec
from msgspec import Raw, Struct

from pumice.kube.client.api import ALL_OBJECTS, Api, ListOptions
from pumice.kube.client.api_errors import ApiError, UnreachableError
from pumice.kube.client.paging import SILENCE_SECONDS
from pumice.kube.client.rate_limit import Backoff
from pumice.kube.decode.manifest_errors import ObjectError
from pumice.kube.resources import Resource
from pumice.kube.watch.change_queue import Change, ChangeQueue

ABSENT_SECONDS = 30.0  # until an optional resource that the server does not know is asked for again
STEADY_SECONDS = 1.0  # a watch that lives so long, or brings anything, was not a failure
MAX_EMPTY_WATCHES = (
    2  # watches in a row that broke off before they brought anything: what comes next may never pass whole
)
KEEPS_POSITION = frozenset({401, 403, 408, 429, 500, 502, 503})  # refusals that say nothing against the revision

T = TypeVar("T")

log = logging.getLogger(__name__)


class OutOfOrderError(Exception):
    """The server sent an invalid object, or one that is not newer than those before."""


class CachedObject(Struct, Generic[T], frozen=True, gc=False):
    """An object as the copy has it."""

    uid: str
    revision: str
    object: T


class _Identity(Struct, rename="camel"):
    name: str = ""
    namespace: str | None = None
    uid: str = ""
    resource_version: str = ""

    @property
    def key(self) -> str:
        return f"{self.namespace}/{self.name}" if self.namespace else self.name


class _Identified(Struct):
    metadata: _Identity


_identities = msgspec.json.Decoder(_Identified)


def _identify(raw: Raw) -> _Identity:
    try:
        return _identities.decode(raw).metadata
    except msgspec.DecodeError as error:
        raise OutOfOrderError(f"cannot decode the object of a watch event: {error}") from None


class Informer(Generic[T]):
    """Keeps the copy of one resource and reports its changes to a feed; ``run`` does the work until cancelled."""

    def __init__(
        self,
        api: Api,
        resource: Resource[T],
        feed: ChangeQueue,
        choice: ListOptions = ALL_OBJECTS,
        *,
        backoff: Backoff | None = None,
        silence: float = SILENCE_SECONDS,
        pause: Callable[[], float] = lambda: 0.0,
        unreadable: Callable[[ObjectError], None] = lambda error: log.warning(
            'Failed to decode an object: error="%s"', error
        ),
    ) -> None:
        self.resource = resource
        self.synced = asyncio.Event()
        """Set when all that was there at the beginning is in the feed."""
        self.last_error: ApiError | UnreachableError | OutOfOrderError | None = None
        """Why it is behind, if it is."""
        self.lists = 0
        self._api = api
        self._feed = feed
        self._choice = choice
        self._backoff = backoff or Backoff()
        self._silence = silence
        self._pause = pause  # seconds in which events gather before more are read: to read each as it comes costs more
        self._unreadable = unreadable
        self._name = resource.name
        self._known: dict[str, CachedObject[T]] = {}
        self._position = ""  # the revision that the copy stands at; empty: a list is needed
        self._empty_watches = 0  # watches that began, in a row, and have brought nothing
        self._identity = ""  # of the cluster, once it is known

    @property
    def cached(self) -> Mapping[str, CachedObject[T]]:
        """The copy, by key (``namespace/name``, or the name)."""
        return self._known

    @property
    def revision(self) -> str:
        """The revision that the copy stands at; empty while a list is needed."""
        return self._position

    def objects(self) -> Iterator[T]:
        """All objects of the copy."""
        return (known.object for known in self._known.values())

    async def run(self) -> None:
        """List and watch, again and again."""
        clock = asyncio.get_running_loop().time
        while True:
            try:
                await self._check_server_epoch()
                if not self._position:
                    await self._list()
                began, before = clock(), self._position
                await self._watch()
                if self._position != before or clock() - began >= STEADY_SECONDS:
                    self._empty_watches = 0
                    continue  # the server has ended it in time
                pause = self._backoff.next()
            except ApiError as error:
                if error.code not in KEEPS_POSITION:
                    self._position = ""
                absent = error.not_found and self.resource.optional
                if absent:
                    self.synced.set()  # there are no such objects as long as the server does not have the resource
                pause = self._failed(error, least=ABSENT_SECONDS if absent else error.retry_after or 0.0)
            except OutOfOrderError as error:
                self._position = ""
                pause = self._failed(error)
            except UnreachableError as error:
                if self._empty_watches >= MAX_EMPTY_WATCHES:
                    self._position = ""
                pause = self._failed(error)
            await asyncio.sleep(pause)

    async def _check_server_epoch(self) -> None:
        """Relist if the API server was replaced or restored: then its revisions restart, and ours may seem valid."""
        identity = await self._api.identity()
        if self._identity and identity and identity != self._identity:
            log.warning(
                "Relisting, because the API server belongs to another cluster than before: resource=%s",
                self.resource.name,
            )
            self._position = ""
        self._identity = identity or self._identity
        if not self._position:
            return
        async with aclosing(self._api.pages(self.resource, self._choice, limit=1)) as pages:
            async for page in pages:
                if _older(page.revision, self._position):
                    log.warning(
                        (
                            "Relisting, because the API server returned an older resourceVersion: "
                            "resource=%s resourceVersion=%s"
                        ),
                        self.resource.name,
                        page.revision,
                    )
                    self._position = ""
                break

    def _failed(self, error: ApiError | UnreachableError | OutOfOrderError, least: float = 0.0) -> float:
        if type(error) is not type(self.last_error):
            log.info('Failed to list or watch, retrying: resource=%s error="%s"', self.resource.name, error)
        self.last_error = error
        return self._backoff.next(least)

    # ---- the list -----------------------------------------------------------------------------------------

    async def _list(self) -> None:
        found: dict[str, CachedObject[T]] = {}
        revision = ""
        async with aclosing(self._api.pages(self.resource, self._choice)) as pages:
            async for page in pages:
                if page.first:
                    found.clear()
                revision = page.revision
                for raw in page.items:
                    who = _identify(raw)
                    state = self._state(who, raw)
                    if state is not None:
                        found[who.key] = state
        self.lists += 1
        await self._feed.wait_for_space()
        self._replace(found)
        self._position = revision
        self._empty_watches = 0
        self.last_error = None  # but pauses stay long until a watch brings something: lists are dear
        self.synced.set()

    def _state(self, who: _Identity, raw: Raw) -> CachedObject[T] | None:
        """The decoded object; the cached one if it is unchanged or cannot be decoded, None without one."""
        before = self._known.get(who.key)
        if before is not None and before.uid != who.uid:
            before = None
        if before is not None and before.revision == who.resource_version:
            return before
        try:
            return CachedObject(who.uid, who.resource_version, self.resource.decode(raw))
        except ObjectError as error:
            self._unreadable(error)
            return before

    def _replace(self, found: dict[str, CachedObject[T]]) -> None:
        """Replace the cache by a list, and report the differences. Does not await anything."""
        before, self._known = self._known, found
        for key, old in before.items():
            new = found.get(key)
            if new is None or new.uid != old.uid:
                self._report(key, old, None)
        for key, new in found.items():
            was = before.get(key)
            if was is None or was.uid != new.uid:
                self._report(key, None, new)
            elif was is not new:
                self._report(key, was, new)

    # ---- the watch ----------------------------------------------------------------------------------------

    async def _watch(self) -> None:
        watch = self._api.events(self.resource, self._position, self._choice, silence=self._silence)
        async with aclosing(watch) as batches:
            async for batch in batches:
                for kind, raw in batch:
                    self._apply_event(kind, raw)
                if batch:
                    self._backoff.reset()
                self._empty_watches = 0 if batch else self._empty_watches + 1
                self.last_error = None  # it is followed, however quiet it is there
                await self._feed.wait_for_space()
                if batch and (seconds := self._pause()):
                    await asyncio.sleep(seconds)

    def _apply_event(self, kind: str, raw: Raw) -> None:
        who = _identify(raw)
        revision = who.resource_version
        if kind == "BOOKMARK":
            if _older(revision, self._position):
                raise OutOfOrderError(
                    f"bookmark with resourceVersion {revision} after resourceVersion {self._position}"
                )
        else:
            if not _older(self._position, revision):
                raise OutOfOrderError(
                    f"{kind} {who.key} with resourceVersion {revision} after resourceVersion {self._position}"
                )
            self._update_object(who, None if kind == "DELETED" else raw)
        self._position = revision

    def _update_object(self, who: _Identity, raw: Raw | None) -> None:
        key, before = who.key, self._known.get(who.key)
        after = self._state(who, raw) if raw is not None else None
        if before is not None and (after is None or after.uid != before.uid):
            del self._known[key]
            self._report(key, before, None)
            before = None
        if after is not None and after is not before:
            self._known[key] = after
            self._report(key, before, after)

    def _report(self, key: str, old: CachedObject[T] | None, new: CachedObject[T] | None) -> None:
        one: CachedObject[Any] | None = new or old
        assert one is not None  # something has changed
        before, after = old.object if old else None, new.object if new else None
        self._feed.put(Change(self._name, key, one.uid, one.revision, before, after))


def _older(one: str, other: str) -> bool:
    """Whether a resourceVersion is older than another; if they are not numbers, whether they differ."""
    return int(one) < int(other) if one.isdecimal() and other.isdecimal() else one != other
