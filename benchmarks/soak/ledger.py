"""A client that writes down what was acknowledged to it, and compares that with what is there."""

from __future__ import annotations

import asyncio
from typing import Any

from pumice.kube.client.api import Api, ListOptions
from pumice.kube.client.api_errors import ApiError, UnreachableError
from pumice.kube.resources import Document, Resource

CONFIG_MAPS: Resource[Document] = Resource("v1", "configmaps", "ConfigMap", dict)
NAMESPACE = "soak-ledger"
NAMES = 50
PAUSE_SECONDS = 0.05
UNKNOWN = "?"
"""The value of an object whose last write was not answered."""


class Ledger:
    """Creates, changes and deletes objects of its own, one after another."""

    def __init__(self, api: Api) -> None:
        self._api = api
        self._known: dict[str, tuple[str, ...]] = {}  # by name: what may be there; empty text: nothing
        self.acknowledged = 0
        self.wrong: list[str] = []

    async def run(self) -> None:
        """Write until cancelled."""
        step = 0
        while True:
            step += 1
            await self._write(f"entry-{step % NAMES}", str(step))
            if step % (10 * NAMES) == 0:
                await self.compare()
            await asyncio.sleep(PAUSE_SECONDS)

    async def _write(self, name: str, value: str) -> None:
        before = self._known.get(name, ("",))
        wanted = "" if before[0] and int(value) % 5 == 0 else value
        self._known[name] = (*before, wanted)  # until it is answered, either may be there
        try:
            await self._ask(name, before, wanted)
        except UnreachableError:
            return
        except ApiError as error:
            if error.code < 500 and error.code != 429:
                if len(before) == 1:
                    self.wrong.append(f"{name}: {error.code} {error.message}")
                await self._look(name)
            return
        self._known[name] = (wanted,)
        self.acknowledged += 1

    async def _ask(self, name: str, before: tuple[str, ...], wanted: str) -> None:
        document: dict[str, Any] = {"metadata": {"name": name, "namespace": NAMESPACE}, "data": {"value": wanted}}
        if not wanted:
            await self._api.delete(CONFIG_MAPS, name, NAMESPACE)
        elif before == ("",):
            await self._api.create(CONFIG_MAPS, {"apiVersion": "v1", "kind": "ConfigMap", **document}, NAMESPACE)
        else:
            await self._api.patch(CONFIG_MAPS, name, {"data": {"value": wanted}}, NAMESPACE)

    async def _look(self, name: str) -> None:
        """After a refusal that an unanswered write explains: what is there now is what is known."""
        try:
            found = await self._api.get(CONFIG_MAPS, name, NAMESPACE)
            self._settle(name, found["data"]["value"])
        except ApiError as error:
            if error.not_found:
                self._settle(name, "")
        except UnreachableError:
            pass

    def _settle(self, name: str, value: str) -> None:
        may = self._known.get(name, ("",))
        if value not in may:
            self.wrong.append(f"{name} is {value or 'gone'}, and may be {may}")
        self._known[name] = (value,)

    async def compare(self) -> None:
        """Compare everything with what was acknowledged."""
        try:
            found = (await self._api.list(CONFIG_MAPS, ListOptions(namespace=NAMESPACE))).items
        except (ApiError, UnreachableError):
            return
        there = {one["metadata"]["name"]: one["data"]["value"] for one in found if "data" in one}
        for name in [*self._known]:
            self._settle(name, there.get(name, ""))
