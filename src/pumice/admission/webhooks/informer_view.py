"""The webhook's view of the cluster: the informers' caches, overlaid with recently admitted objects.

Informers lag a little. Each job of a burst would be routed to the queue that was empty before all of them, and of two
queues that fit only one by one both would be admitted. So objects that this replica has admitted count at once. If no
informer shows one for a while, it was not stored after all: another webhook or a quota rejected it.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from typing import Any

from pumice.admission.cluster_view import FOLLOWED, ClusterView
from pumice.admission.request import Object, Settings, metadata_of
from pumice.kube.client.api import Api
from pumice.kube.resources import HYPER_NODES, JOB_TEMPLATES, JOBS, NAMESPACES, NODES, POD_GROUPS, QUEUES, Document
from pumice.kube.watch.change_queue import Change, ChangeQueue
from pumice.kube.watch.informer import Informer
from pumice.kube.watch.initial_sync import initial_changes

OBSERVE_TIMEOUT = 10.0
"""Seconds within which an informer must show an admitted object."""

_RESOURCES = (QUEUES, POD_GROUPS, JOBS, JOB_TEMPLATES, NODES, HYPER_NODES, NAMESPACES)

Key = tuple[str, str, str]
"""Resource, namespace and name."""


class InformerView:
    """Keeps a view up to date; ``run`` until cancelled."""

    def __init__(self, api: Api, settings: Settings, clock: Callable[[], float] = time.monotonic) -> None:
        assert {resource.name for resource in _RESOURCES} == FOLLOWED
        self.view = ClusterView(settings)
        self.complete = asyncio.Event()
        """Set when the view contains all listed objects: no review is handled before."""
        self._feed = ChangeQueue()
        self._informers = [Informer(api, resource.checked_raw, self._feed) for resource in _RESOURCES]
        self._ahead: dict[Key, float] = {}  # expiry of admitted objects that no informer shows yet; oldest first
        self._clock = clock

    @property
    def informers(self) -> Sequence[Informer[Document]]:
        """The informers that feed the view."""
        return self._informers

    async def run(self) -> None:
        """Run the informers."""
        async with asyncio.TaskGroup() as tasks:
            for informer in self._informers:
                tasks.create_task(informer.run())
            async for changes in initial_changes(self._feed, self._informers):
                self._take(changes)
            self.complete.set()
            async for changes in self._feed:
                self._take(changes)

    def now(self) -> ClusterView:
        """The current view."""
        while self._ahead:
            key, until = next(iter(self._ahead.items()))
            if self._clock() < until:
                break
            del self._ahead[key]
            self.view.note(*key, None)
        return self.view

    def expect(self, resource: str, new: Object) -> None:
        """Overlay an admitted object that is about to be stored."""
        about = metadata_of(new)
        key = (resource, str(about.get("namespace") or ""), str(about.get("name") or ""))
        if resource in FOLLOWED and key[2] and not self._knows(key):
            self.view.note(*key, new)
            self._ahead.pop(key, None)
            self._ahead[key] = self._clock() + OBSERVE_TIMEOUT

    def _knows(self, key: Key) -> bool:
        """Whether an informer shows an object of that name."""
        resource, namespace, name = key
        place = f"{namespace}/{name}" if namespace else name
        return any(place in informer.cached for informer in self._informers if informer.resource.name == resource)

    def _take(self, changes: Sequence[Change[Any]]) -> None:
        for change in changes:
            namespace, _, name = change.key.rpartition("/")
            self._ahead.pop((change.resource, namespace, name), None)
            self.view.note(change.resource, namespace, name, change.new)
