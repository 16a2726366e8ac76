"""The verbs, on the embedded server."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any
from unittest import mock

import msgspec
import pytest

from kubesim.api import client
from kubesim.storage import store
from pumice.kube.client.api import Api, ListOptions, Page, Patch
from pumice.kube.client.api_errors import ApiError, UnreachableError
from pumice.kube.client.kubeconfig import Access
from pumice.kube.client.transport import Limits, Session
from pumice.kube.decode.manifest_errors import ObjectError
from pumice.kube.resources import NODES, POD_DISRUPTION_BUDGETS, PODS, QUEUES, Document, Resource
from tests.support.apiserver import memory_api
from tests.support.served_api import served

CONFIG_MAPS: Resource[Document] = Resource("v1", "configmaps", "ConfigMap", dict)


@contextlib.asynccontextmanager
async def cluster() -> AsyncIterator[tuple[Api, client.InProcessClient]]:
    """A client, and what is behind the server it talks to."""
    async with contextlib.AsyncExitStack() as stack:
        with mock.patch.object(store, "RECENT_CHANGES", 1):  # so that what is compacted is forgotten
            behind = await stack.enter_async_context(memory_api())
        port = await stack.enter_async_context(served(behind))
        session = await stack.enter_async_context(Session(Access(f"http://127.0.0.1:{port}"), Limits(attempts=1)))
        yield Api(session), behind


def on_cluster(test: Callable[[Api, client.InProcessClient], Awaitable[None]]) -> None:
    async def run() -> None:
        async with cluster() as (api, behind):
            await test(api, behind)

    asyncio.run(run())


def pod(name: str) -> dict[str, Any]:
    about = {"name": name, "namespace": "default", "labels": {"app": name}}
    return {"metadata": about, "spec": {"containers": [{"name": "c", "image": "i"}]}}


def refused(error: pytest.ExceptionInfo[ApiError]) -> tuple[int, str]:
    return error.value.code, error.value.reason


def test_the_life_of_an_object() -> None:
    async def test(api: Api, _: client.InProcessClient) -> None:
        made = await api.create(CONFIG_MAPS, {"metadata": {"name": "a", "namespace": "default"}, "data": {"x": "1"}})
        assert made["data"] == {"x": "1"} and made == await api.get(CONFIG_MAPS, "a", "default")
        with pytest.raises(ApiError) as again:
            await api.create(CONFIG_MAPS, {"metadata": {"name": "a"}}, "default")
        assert refused(again) == (409, "AlreadyExists") and again.value.already_exists and not again.value.conflict
        changed = await api.update(CONFIG_MAPS, {**made, "data": {"x": "2"}})
        with pytest.raises(ApiError) as late:
            await api.update(CONFIG_MAPS, {**made, "data": {"x": "3"}})
        assert refused(late) == (409, "Conflict") and late.value.conflict and not late.value.already_exists
        uid = changed["metadata"]["uid"]
        for wrong in ({"uid": "another"}, {"revision": made["metadata"]["resourceVersion"]}):
            with pytest.raises(ApiError) as other:
                await api.delete(CONFIG_MAPS, "a", "default", **wrong)
            assert other.value.conflict
        await api.delete(CONFIG_MAPS, "a", "default", uid=uid, propagation="Background")
        with pytest.raises(ApiError) as gone:
            await api.get(CONFIG_MAPS, "a", "default")
        assert refused(gone) == (404, "NotFound") and gone.value.not_found

    on_cluster(test)


def test_the_three_ways_to_patch() -> None:
    async def test(api: Api, _: client.InProcessClient) -> None:
        await api.create(PODS, pod("p"))
        raw = PODS.raw
        merged = await api.patch(raw, "p", {"metadata": {"labels": {"a": "1"}}}, "default")
        assert merged["metadata"]["labels"] == {"app": "p", "a": "1"}
        step = {"op": "replace", "path": "/metadata/labels/a", "value": "2"}
        stepped = await api.patch(raw, "p", [step], "default", how=Patch.JSON)
        assert stepped["metadata"]["labels"]["a"] == "2"
        image = {"spec": {"containers": [{"name": "c", "image": "other"}]}}
        strategic = await api.patch(raw, "p", image, "default", how=Patch.STRATEGIC)
        assert [(c["name"], c["image"]) for c in strategic["spec"]["containers"]] == [("c", "other")]

    on_cluster(test)


def test_a_status_of_this_very_object() -> None:
    async def test(api: Api, _: client.InProcessClient) -> None:
        uid = (await api.create(PODS.raw, pod("p")))["metadata"]["uid"]
        found = await api.patch_status(PODS, "p", {"phase": "Running"}, "default", uid=uid)
        assert found.status.phase == "Running"
        with pytest.raises(ApiError) as other:
            await api.patch_status(PODS, "p", {"phase": "Failed"}, "default", uid="another")
        assert refused(other) == (422, "Invalid")

    on_cluster(test)


def test_binding_happens_once_and_to_the_pod_that_was_meant() -> None:
    async def test(api: Api, _: client.InProcessClient) -> None:
        uid = (await api.create(PODS.raw, pod("p")))["metadata"]["uid"]
        with pytest.raises(ApiError) as other:
            await api.bind("default", "p", "n", uid="another")
        assert other.value.conflict
        await api.bind("default", "p", "n", uid=uid, annotations={"why": "because"})
        found = await api.get(PODS, "p", "default")
        assert (found.spec.node_name, found.metadata.annotations["why"]) == ("n", "because")
        with pytest.raises(ApiError) as twice:
            await api.bind("default", "p", "m", uid=uid)
        assert twice.value.conflict

    on_cluster(test)


def test_an_eviction_that_a_budget_forbids_is_not_tried_again() -> None:
    async def test(api: Api, _: client.InProcessClient) -> None:
        for name in ("free", "kept"):
            await api.create(PODS, pod(name))
            await api.bind("default", name, "n")
            ready = [{"type": "Ready", "status": "True"}]
            await api.patch_status(PODS, name, {"phase": "Running", "conditions": ready}, "default")
        spec = {"minAvailable": 1, "selector": {"matchLabels": {"app": "kept"}}}
        await api.create(POD_DISRUPTION_BUDGETS, {"metadata": {"name": "b", "namespace": "default"}, "spec": spec})
        with pytest.raises(ApiError) as forbidden:
            await api.evict("default", "kept")
        assert refused(forbidden) == (429, "TooManyRequests")
        await api.evict("default", "free", grace=0)
        with pytest.raises(ApiError) as gone:
            await api.get(PODS, "free", "default")
        assert gone.value.not_found

    on_cluster(test)


async def many(api: Api, count: int) -> None:
    for number in range(count):
        await api.create(CONFIG_MAPS, {"metadata": {"name": f"m{number:02}", "namespace": "default"}})


def test_a_list_in_pages_is_one_list() -> None:
    async def test(api: Api, _: client.InProcessClient) -> None:
        await many(api, 7)
        whole = await api.list(CONFIG_MAPS, ListOptions("default"), limit=0)
        paged = await api.list(CONFIG_MAPS, ListOptions("default"), limit=3)
        assert paged == whole and len(whole.items) == 7
        assert [(await anext(api.pages(CONFIG_MAPS, ListOptions("default"), limit=3))).first] == [True]
        one = await api.list(CONFIG_MAPS, ListOptions(fields="metadata.name=m03"))
        assert [found["metadata"]["name"] for found in one.items] == ["m03"]
        assert {found["kind"] for found in whole.items} == {"ConfigMap"}

    on_cluster(test)


def test_a_list_that_expires_on_the_way_begins_again() -> None:
    async def test(api: Api, behind: client.InProcessClient) -> None:
        await many(api, 7)
        pages: list[Page] = []
        async for page in api.pages(CONFIG_MAPS, ListOptions("default"), limit=3):
            if not pages:
                await api.delete(CONFIG_MAPS, "m00", "default")
                await many_more(api)
                await behind.store.compact(behind.store.revision)
            pages.append(page)
        # The first three, and then, all over again, what is there now.
        assert [(len(page.items), page.first) for page in pages] == [(3, True), (8, True)]

    async def many_more(api: Api) -> None:
        for name in ("x", "y"):
            await api.create(CONFIG_MAPS, {"metadata": {"name": name, "namespace": "default"}})

    on_cluster(test)


def test_a_watch_tells_what_changes_and_ends_with_what_is_wrong() -> None:
    async def test(api: Api, behind: client.InProcessClient) -> None:
        before = (await api.list(CONFIG_MAPS, ListOptions("default"))).revision
        await many(api, 2)
        await api.delete(CONFIG_MAPS, "m00", "default")
        watch = api.watch(CONFIG_MAPS, before, ListOptions("default"))
        seen = [(kind, found["metadata"]["name"]) for kind, found in [await anext(watch) for _ in range(3)]]
        assert seen == [("ADDED", "m00"), ("ADDED", "m01"), ("DELETED", "m00")]
        await watch.aclose()
        await behind.store.compact(behind.store.revision)
        with pytest.raises(ApiError) as old:
            await anext(api.watch(CONFIG_MAPS, before, ListOptions("default")))
        assert old.value.expired

    on_cluster(test)


def test_resource_paths_name_group_namespace_and_subresource() -> None:
    assert PODS.path("ns", "p", "binding") == "/api/v1/namespaces/ns/pods/p/binding"
    assert QUEUES.path("", "a/b") == "/apis/scheduling.volcano.sh/v1beta1/queues/a%2Fb"
    assert (PODS.path(), NODES.path("ignored"), QUEUES.name) == (
        "/api/v1/pods",
        "/api/v1/nodes",
        "queues.scheduling.volcano.sh",
    )
    with pytest.raises(ValueError, match="a namespace is required"):
        PODS.path("", "p")


def test_a_null_is_an_absence_and_nonsense_is_named() -> None:
    assert NODES.decode(b'{"metadata":{"name":"n","labels":null},"spec":{"taints":null}}').metadata.name == "n"
    with pytest.raises(ObjectError, match=r"Node/n: spec.unschedulable: Invalid value: 'x': must be true or false"):
        NODES.decode(b'{"metadata":{"name":"n"},"spec":{"unschedulable":"x"}}')
    with pytest.raises(msgspec.DecodeError):
        NODES.decode(b"<html>")


def test_an_answer_that_no_api_gives_is_nobody_there() -> None:
    async def test(api: Api, _: client.InProcessClient) -> None:
        healthy: Resource[Document] = Resource("v1", "nodes", "Node", dict, namespaced=False)
        with mock.patch.object(Resource, "path", return_value="/healthz"):
            for call in (api.get(healthy, "x"), api.list(healthy)):
                with pytest.raises(UnreachableError, match="not valid for the Kubernetes API"):
                    await call

    on_cluster(test)
