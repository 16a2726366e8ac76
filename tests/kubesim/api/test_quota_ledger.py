"""No order of writes exceeds a quota, and what is used is the sum over what there is."""

from __future__ import annotations

import asyncio
from collections import Counter
from contextlib import asynccontextmanager

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubesim import kinds
from kubesim.api.client import InProcessClient
from kubesim.api.quota_ledger import counted_in
from kubesim.api.requests import Target, WriteOptions
from kubesim.api.status import ApiError
from kubesim.controllers import service_accounts
from kubesim.registry.registry import ResourceRegistry
from kubesim.storage import StorageFailed, Store
from tests.kubesim.storage.store_helpers import Failing
from tests.support.apiserver import memory_api
from tests.support.simulated import run

CATALOGUE = ResourceRegistry(kinds.resources())


def pod(name, **requests):
    asked = {"nvidia.com/gpu" if key == "gpu" else key: str(amount) for key, amount in requests.items()}
    resources = {"requests": asked, "limits": {key: asked[key] for key in asked if "/" in key}}
    return {
        "metadata": {"name": name},
        "spec": {"containers": [{"name": "main", "image": "i", "resources": resources}]},
    }


def quota(name, hard, **spec):
    return {"metadata": {"name": name}, "spec": {"hard": hard, **spec}}


def used(api, name):
    found = api.read("resourcequotas", "default", name)
    return api.writes.quotas.status(found).get("used", {})


async def refusal(api, resource, new):
    with pytest.raises(ApiError) as refused:
        await api.create(resource, "default", new)
    assert (refused.value.code, refused.value.reason) == (403, "Forbidden")
    return refused.value.message


async def finish(api, name):
    def edit(found):
        found["status"]["phase"] = "Succeeded"

    await api.modify("pods", "default", name, edit, subresource="status")


def story(scenario):
    async def told():
        async with memory_api() as api:
            await scenario(api)

    run(told())


def test_quota_resource_names_and_what_they_count():
    assert counted_in("count/jobs.batch") == "jobs.batch"
    assert counted_in("configmaps") == "configmaps"
    assert counted_in("requests.nvidia.com/gpu") == "pods"
    for name in ("volcano.sh/namespace.weight", "services.nodeports", "requests.storage", "count/events"):
        assert counted_in(name) == ""


def test_pods_up_to_a_quota():
    async def scenario(api):
        await api.create("resourcequotas", "default", quota("q", {"pods": "3", "requests.cpu": "2"}))
        message = await refusal(api, "pods", pod("a"))
        assert message == 'pods "a" is forbidden: failed quota: q: must specify requests.cpu for: main'
        message = await refusal(api, "pods", pod("a", cpu=3))
        assert message == (
            'pods "a" is forbidden: exceeded quota: q, requested: requests.cpu=3, used: requests.cpu=0, '
            "limited: requests.cpu=2"
        )
        await api.create("pods", "default", pod("a", cpu="1500m"))
        await refusal(api, "pods", pod("b", cpu="501m"))  # 1500m + 501m > 2
        await api.create("pods", "default", pod("b", cpu="500m"))
        assert used(api, "q") == {"pods": "2", "requests.cpu": "2"}
        await api.create("pods", "default", pod("c", cpu=0))  # of what is used up, it asks for nothing
        await refusal(api, "pods", pod("a", cpu=0))  # there is such a pod already, but no room comes first
        # One that is over and one that is gone make room: 2 - 1500m - 500m = 0.
        await finish(api, "a")
        await api.delete("pods", "default", "b")
        assert used(api, "q") == {"pods": "1", "requests.cpu": "0"}
        await api.create("pods", "default", pod("d", cpu=2))

    story(scenario)


def test_a_dry_run_is_judged_and_not_counted():
    async def scenario(api):
        await api.create("resourcequotas", "default", quota("q", {"pods": "1"}))
        aim = Target(api.registry.stored("pods"), "default")
        for _ in range(2):
            await api.writes.create(aim, pod("a"), WriteOptions(dry_run=True), api.new_context())
        assert used(api, "q") == {"pods": "0"}
        await api.create("pods", "default", pod("a"))
        with pytest.raises(ApiError, match="exceeded quota: q, requested: pods=1, used: pods=1, limited: pods=1"):
            await api.writes.create(aim, pod("b"), WriteOptions(dry_run=True), api.new_context())

    story(scenario)


def test_quota_counts_objects_of_any_kind():
    async def scenario(api):
        hard = {"configmaps": "1", "count/configmaps": "2", "count/secrets": "1", "resourcequotas": "1"}
        await api.create("resourcequotas", "default", quota("q", hard))
        assert used(api, "q") == {
            "configmaps": "0",
            "count/configmaps": "0",
            "count/secrets": "0",
            "resourcequotas": "1",
        }
        await api.create("configmaps", "default", {"metadata": {"name": "a"}})
        message = await refusal(api, "configmaps", {"metadata": {"name": "b"}})
        assert message == (
            'configmaps "b" is forbidden: exceeded quota: q, requested: configmaps=1, used: configmaps=1, '
            "limited: configmaps=1"
        )
        await api.create("secrets", "default", {"metadata": {"name": "a"}})
        await refusal(api, "secrets", {"metadata": {"name": "b"}})
        await refusal(api, "resourcequotas", quota("r", {}))
        await api.create("configmaps", "kube-public", {"metadata": {"name": "b"}})  # another namespace
        await api.delete("configmaps", "default", "a")
        await api.create("configmaps", "default", {"metadata": {"name": "b"}})

    story(scenario)


def test_scopes_are_about_pods():
    async def scenario(api):
        await api.create(
            "resourcequotas", "default", quota("q", {"pods": "1", "count/secrets": "0"}, scopes=["BestEffort"])
        )
        await api.create("secrets", "default", {"metadata": {"name": "a"}})
        await api.create("pods", "default", pod("asks", cpu=1))
        await api.create("pods", "default", pod("a"))
        await refusal(api, "pods", pod("b"))
        assert used(api, "q") == {"pods": "1", "count/secrets": "0"}

    story(scenario)


def test_unknown_quota_resource_is_shown_and_limits_nothing():
    async def scenario(api):
        hard = {"count/nodes": "0", "count/unheard.of": "0", "nvidia.com/gpu": "0", "volcano.sh/namespace.weight": "3"}
        found = await api.create("resourcequotas", "default", quota("q", hard))
        await api.create("pods", "default", pod("a", gpu=1))
        assert api.writes.quotas.status(found) == {"hard": hard}

    story(scenario)


def test_changed_quota_is_recounted():
    async def scenario(api):
        for name in ("a", "b"):
            await api.create("pods", "default", pod(name, cpu=1))
        await api.create("resourcequotas", "default", quota("q", {"pods": "1"}))
        assert used(api, "q") == {"pods": "2"}  # what is there stays there
        await refusal(api, "pods", pod("c"))

        def edit(found):
            found["spec"]["hard"] = {"cpu": "3"}

        await api.modify("resourcequotas", "default", "q", edit)
        assert used(api, "q") == {"cpu": "2"}
        await api.create("pods", "default", pod("c", cpu=1))
        await refusal(api, "pods", pod("d", cpu=1))
        await api.delete("resourcequotas", "default", "q")
        await api.create("pods", "default", pod("d", cpu=100))

    story(scenario)


def test_quota_usage_survives_a_restart(tmp_path):
    async def scenario():
        async with memory_api(tmp_path) as api:
            await api.create("resourcequotas", "default", quota("q", {"pods": "2"}))
            await api.create("pods", "default", pod("a"))
        async with memory_api(tmp_path) as api:
            await api.create("pods", "default", pod("b"))
            assert "used: pods=2" in await refusal(api, "pods", pod("c"))

    run(scenario())


def test_parallel_creates_get_exactly_the_quota():
    async def scenario(api):
        await api.create("resourcequotas", "default", quota("q", {"requests.cpu": "10"}))
        tries = [api.create("pods", "default", pod(f"p{n}", cpu=3)) for n in range(50)]
        results = await asyncio.gather(*tries, return_exceptions=True)
        assert sum(isinstance(result, dict) for result in results) == 3  # 3 * 3 = 9, and 12 > 10
        assert used(api, "q") == {"requests.cpu": "9"}

    story(scenario)


# ---- any order of writes ----------------------------------------------------------------------------------

HARD = {
    "a": {"pods": "3", "requests.cpu": "5", "configmaps": "2"},
    "b": {"requests.nvidia.com/gpu": "2", "cpu": "6", "count/pods": "5"},
}
names = st.sampled_from("pqrstu")
writes = st.one_of(
    st.tuples(st.just("create"), names, st.integers(0, 4), st.integers(0, 2)),
    st.tuples(st.just("delete"), names),
    st.tuples(st.just("finish"), names),
    st.tuples(st.just("map"), names),
    st.tuples(st.just("unmap"), names),
    st.tuples(st.just("requote"), st.sampled_from("ab"), st.integers(0, 9)),  # another quota, which counts the same
)
bursts = st.lists(st.tuples(st.lists(writes, max_size=12), st.booleans()), max_size=6)


class Model:
    """What should be there, counted afresh every time."""

    def __init__(self, pods=None, maps=None):
        self.pods = dict(pods or {})  # name: (cpu, gpu, over)
        self.maps = set(maps or ())

    def used(self):
        found = Counter()
        for cpu, gpu, over in self.pods.values():
            found["count/pods"] += 1
            if not over:
                found.update({"pods": 1, "cpu": cpu, "requests.cpu": cpu, "requests.nvidia.com/gpu": gpu})
        found["configmaps"] = len(self.maps)
        return {quota: {name: str(found[name]) for name in hard} for quota, hard in HARD.items()}

    def fits(self):
        return all(int(used) <= int(HARD[q][n]) for q, names in self.used().items() for n, used in names.items())

    def do(self, write):
        """The state after a write, or why it is refused."""
        after = Model(self.pods, self.maps)
        match write:
            case ("create", name, cpu, gpu):
                after.pods[name, "new"] = (cpu, gpu, False)
                if not after.fits():
                    return "Forbidden"
                if name in self.pods:
                    return "AlreadyExists"
                after.pods[name] = after.pods.pop((name, "new"))
            case ("map", name):
                after.maps.add((name, "new"))
                if not after.fits():
                    return "Forbidden"
                if name in self.maps:
                    return "AlreadyExists"
                after.maps = self.maps | {name}
            case ("delete", name):
                after.pods.pop(name, None)
            case ("unmap", name):
                after.maps.discard(name)
            case ("finish", name) if name in self.pods:
                after.pods[name] = (*self.pods[name][:2], True)
        return after


def ask(api, write):
    match write:
        case ("create", name, cpu, gpu):
            return api.create("pods", "default", pod(name, cpu=cpu, gpu=gpu))
        case ("delete", name):
            return api.delete("pods", "default", name)
        case ("finish", name):
            return finish(api, name)
        case ("map", name):
            return api.create("configmaps", "default", {"metadata": {"name": name}})
        case ("unmap", name):
            return api.delete("configmaps", "default", name)
        case ("requote", name, number):

            def edit(found):
                found["spec"]["hard"]["services.nodeports"] = str(number)

            return api.modify("resourcequotas", "default", name, edit)


@asynccontextmanager
async def failing_api():
    log = Failing(None)
    store = Store(log)
    try:
        api = InProcessClient(store, CATALOGUE)
        await service_accounts.create_system_namespaces(api)
        yield api, log
    finally:
        await store.close()


@given(bursts)
def test_quota_usage_is_exact_for_any_order_of_writes(steps):
    """Writes of a burst are judged one after another while the commits of those before are under way."""

    async def scenario():
        async with failing_api() as (api, log):
            for name, hard in HARD.items():
                await api.create("resourcequotas", "default", quota(name, hard))
            model = Model()
            for burst, full in steps:
                expected, before = [], model
                for write in burst:
                    result = model.do(write)
                    expected.append(result if isinstance(result, str) else "")
                    model = model if isinstance(result, str) else result
                log.full = full
                results = await asyncio.gather(*(ask(api, write) for write in burst), return_exceptions=True)
                log.full = False
                if full and any(isinstance(result, StorageFailed) for result in results):
                    model = before  # nothing of it is on disk, so nothing of it counts
                else:
                    assert [getattr(result, "reason", "") for result in results] == expected
                assert {name: used(api, name) for name in HARD} == model.used()
                assert model.fits()

    run(scenario())
