"""Addresses and node ports of Services: each is given away once, and again when it is free."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from kubesim.api.client import InProcessClient
from kubesim.api.status import ApiError
from kubesim.kinds.service_addresses import NumberAllocator
from tests.support.apiserver import memory_api


def with_api(check: Callable[[InProcessClient], Awaitable[None]]) -> None:
    async def run() -> None:
        async with memory_api() as api:
            await check(api)

    asyncio.run(run())


async def create(api: InProcessClient, name: str, **spec: Any) -> dict[str, Any]:
    whole = {"ports": [{"port": 80}], **spec}
    return (await api.create("services", "default", {"metadata": {"name": name}, "spec": whole}))["spec"]


def test_each_service_gets_an_address_of_its_own() -> None:
    async def check(api: InProcessClient) -> None:
        first, second = await create(api, "a"), await create(api, "b")
        assert [first["clusterIP"], second["clusterIP"]] == ["172.20.0.1", "172.20.0.2"]
        assert first["clusterIPs"] == ["172.20.0.1"]

    with_api(check)


def test_chosen_address_must_be_free_and_in_range() -> None:
    async def check(api: InProcessClient) -> None:
        await create(api, "a", clusterIP="172.20.0.9")
        with pytest.raises(ApiError, match=r"failed to allocate IP 172.20.0.9: provided IP is already allocated"):
            await create(api, "b", clusterIP="172.20.0.9")
        with pytest.raises(ApiError, match=r"provided IP is not in the valid range"):
            await create(api, "b", clusterIP="10.0.0.1")
        await api.delete("services", "default", "a")
        assert (await create(api, "b", clusterIP="172.20.0.9"))["clusterIP"] == "172.20.0.9"

    with_api(check)


def test_refused_service_keeps_no_address() -> None:
    async def check(api: InProcessClient) -> None:
        with pytest.raises(ApiError, match=r"spec.ports"):
            await create(api, "a", clusterIP="172.20.0.9", ports=[])
        await create(api, "b", clusterIP="172.20.0.9")

    with_api(check)


def test_node_ports_are_allocated_kept_and_dropped_with_the_type() -> None:
    async def check(api: InProcessClient) -> None:
        (port,) = (await create(api, "a", type="NodePort"))["ports"]
        assert port["nodePort"] == 30000
        with pytest.raises(ApiError, match=r"provided port is already allocated"):
            await create(api, "b", type="NodePort", ports=[{"port": 80, "nodePort": 30000}])
        with pytest.raises(ApiError, match=r"The range of valid ports is 30000-32767"):
            await create(api, "b", type="NodePort", ports=[{"port": 80, "nodePort": 80}])

        def rename(found: dict[str, Any]) -> None:
            found["spec"]["ports"] = [{"port": 80, "name": "http"}]

        changed = await api.modify("services", "default", "a", rename)
        assert changed and changed["spec"]["ports"][0]["nodePort"] == 30000
        changed = await api.modify("services", "default", "a", lambda found: found["spec"].update(type="ClusterIP"))
        assert changed and "nodePort" not in changed["spec"]["ports"][0]
        assert "externalTrafficPolicy" not in changed["spec"]

    with_api(check)


def test_external_name_gives_its_address_back() -> None:
    async def check(api: InProcessClient) -> None:
        await create(api, "a")

        def leave(found: dict[str, Any]) -> None:
            found["spec"].update(type="ExternalName", externalName="example.com")

        changed = await api.modify("services", "default", "a", leave)
        assert changed and not changed["spec"].keys() & {"clusterIP", "clusterIPs", "ipFamilies"}

    with_api(check)


def test_full_range_gives_nothing_and_freed_numbers_come_back() -> None:
    stored: dict[str, list[int]] = {}

    class Context:
        def __init__(self) -> None:
            self.now, self.user = "", ""
            self.warnings: list[str] = []

        def find(self, resource: str, namespace: str, name: str) -> dict[str, Any] | None:
            return {"numbers": stored[name]} if name in stored else None

        def list(self, resource: str, namespace: str) -> list[dict[str, Any]]:
            return []

    allocator, context = NumberAllocator(1, 3, lambda found: found["numbers"]), Context()

    def allocate(name: str) -> int | None:
        number = allocator.allocate({"metadata": {"namespace": "default", "name": name}}, context)
        if number is not None:
            stored[name] = [number]
        return number

    assert [allocate(name) for name in "abcd"] == [1, 2, 3, None]
    del stored["b"]
    assert allocate("e") == 2
