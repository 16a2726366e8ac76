"""Watches the ConfigMap from which the scheduler's configuration file is mounted.

The kubelet updates a mounted file up to a minute after its ConfigMap changed. The API reports the change at once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress

from pumice.kube.client.api import Api, ListOptions
from pumice.kube.resources import CONFIG_MAPS
from pumice.kube.watch.change_queue import ChangeQueue
from pumice.kube.watch.informer import Informer


class ConfigMapWatch:
    """One key of one ConfigMap, kept up to date while ``run`` runs."""

    def __init__(self, api: Api, namespace: str, name: str, key: str) -> None:
        self._changes = ChangeQueue()
        self._map_key, self._data_key = f"{namespace}/{name}", key
        chosen = ListOptions(namespace=namespace, fields=f"metadata.name={name}")
        self._informer = Informer(api, CONFIG_MAPS, self._changes, chosen)

    @property
    def text(self) -> str | None:
        """The configuration in the ConfigMap; None while it is not known, or if it is not there."""
        found = self._informer.cached.get(self._map_key)
        value = (found.object.get("data") or {}).get(self._data_key) if found is not None else None
        return value if isinstance(value, str) else None

    async def run(self, changed: Callable[[], None]) -> None:
        """Call ``changed`` after every change until cancelled."""
        following = asyncio.ensure_future(self._informer.run())
        try:
            while True:
                await self._changes.wait_nonempty()
                self._changes.drain()
                changed()
        finally:
            following.cancel()
            with suppress(asyncio.CancelledError):
                await following
