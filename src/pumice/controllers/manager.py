"""The controller manager: runs the controllers of a cluster over shared informers.

Several controllers need the same pods and podgroups; each resource has one informer, and every change goes to all
controllers that watch it. No controller reconciles before all resources are listed: only a complete list can show that
an object is missing.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Protocol

from kubebase.work_queue import WorkQueue
from pumice.controllers.seen_pods import SEEN_PODS
from pumice.kube.client.api import Api
from pumice.kube.resources import Document, Resource
from pumice.kube.watch.change_queue import Change, ChangeQueue
from pumice.kube.watch.informer import CachedObject, Informer

log = logging.getLogger(__name__)


class SharedInformers:
    """The cached objects of the cluster: one informer per resource, shared by all controllers."""

    def __init__(self, api: Api, feed: ChangeQueue) -> None:
        self._api = api
        self._feed = feed
        self.informers: dict[str, Informer[Document]] = {}

    def all(self, resource: Resource[Any]) -> Mapping[str, CachedObject[Document]]:
        """The objects of a resource by key; kept up to date from now on. Of pods, what controllers read."""
        if resource.name not in self.informers:
            seen = SEEN_PODS if resource.name == SEEN_PODS.name else resource.checked_raw
            self.informers[resource.name] = Informer(self._api, seen, self._feed)
        return _Copy(self.informers[resource.name])


class _Copy(Mapping[str, CachedObject[Document]]):
    """The cache of an informer, which replaces it at every list."""

    def __init__(self, informer: Informer[Document]) -> None:
        self._informer = informer

    def __getitem__(self, key: str) -> CachedObject[Document]:
        return self._informer.cached[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._informer.cached)

    def __len__(self) -> int:
        return len(self._informer.cached)


class Controller(Protocol):
    """A controller: reconciles the keys of its work queue."""

    work_queue: WorkQueue

    def on_change(self, change: Change[Document]) -> None:
        """Queue the keys that a changed object concerns."""


class ControllerManager:
    """Runs controllers until cancelled."""

    def __init__(self, api: Api, makers: Sequence[Callable[[Api, SharedInformers], Controller]]) -> None:
        self._feed = ChangeQueue()
        self.seen = SharedInformers(api, self._feed)
        self.controllers = [make(api, self.seen) for make in makers]
        self.watchers: list[Callable[[Change[Document]], None]] = []  # receive every change as well

    async def run(self) -> None:
        """Run the informers, and pass changes to the controllers."""
        async with asyncio.TaskGroup() as tasks:
            informers = list(self.seen.informers.values())
            for informer in informers:
                tasks.create_task(informer.run())
            tasks.create_task(self._tell())
            for informer in informers:
                await informer.synced.wait()
            for controller in self.controllers:
                tasks.create_task(controller.work_queue.run())

    async def done(self) -> None:
        """Nothing has to be finished: the next process starts from the current objects."""

    async def _tell(self) -> None:
        async for batch in self._feed:
            for change in batch:
                for controller in self.controllers:
                    try:
                        controller.on_change(change)
                    except Exception:  # one object that it cannot handle must not stop it for all others
                        log.exception("Failed to handle a change: resource=%s key=%s", change.resource, change.key)
                for watcher in self.watchers:
                    watcher(change)
