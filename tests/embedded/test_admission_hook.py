"""Admission in the write path of the embedded server: what it judges by, and how a refusal is answered."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest

from kubesim.api.client import InProcessClient
from kubesim.api.request_context import ADMIN
from kubesim.api.requests import DeleteOptions, ObjectSelection, Target, WriteOptions
from kubesim.api.status import ApiError
from kubesim.registry.registry import Object
from pumice.admission import Settings
from pumice.embedded import bootstrap
from pumice.embedded.admission_hook import EmbeddedAdmission
from pumice.embedded.identity import PUMICE
from tests.support.admitted import group, job, queue
from tests.support.apiserver import memory_api

QUEUES, PODGROUPS, JOBS = "queues.scheduling.volcano.sh", "podgroups.scheduling.volcano.sh", "jobs.batch.volcano.sh"


@asynccontextmanager
async def served(settings: Settings | None = None) -> AsyncIterator[InProcessClient]:
    async with memory_api(identity=PUMICE) as api:
        api.writes.admission = EmbeddedAdmission(api.store, settings)
        await bootstrap.create_first_objects(api)
        yield api


def target(api: InProcessClient, resource: str, name: str = "") -> Target:
    known = api.registry.stored(resource)
    assert known is not None
    return Target(known, "default" if known.namespaced else "", name)


async def create(api: InProcessClient, resource: str, new: Object, **options: Any) -> Object:
    """As an administrator, through the write path of HTTP."""
    new["metadata"].pop("namespace", None)
    call = api.new_context(ADMIN)
    record = await api.writes.create(target(api, resource), new, WriteOptions(**options), call)
    return {**msgspec.json.decode(record.value), "warnings": call.warnings}


async def delete(api: InProcessClient, resource: str, name: str) -> None:
    await api.writes.delete(target(api, resource, name), DeleteOptions(), api.new_context(ADMIN))


def test_a_refusal_is_answered_like_a_webhooks() -> None:
    async def story() -> None:
        async with served() as api:
            with pytest.raises(ApiError) as caught:
                await create(api, QUEUES, queue("q", parent="nowhere"))
            status = caught.value.status()
            assert (status["code"], status["reason"]) == (403, "Forbidden")
            assert status["message"] == (
                'admission webhook "queues.admission.pumice.dev" denied the request: '
                "spec.parent: Not found: 'nowhere': create that queue first, or use 'root'"
            )
            assert status["details"]["name"] == "q"
            assert [cause["field"] for cause in status["details"]["causes"]] == ["spec.parent"]
            assert api.read(QUEUES, "", "q") is None

    asyncio.run(story())


def test_write_is_checked_against_commits_in_progress() -> None:
    async def story() -> None:
        async with served() as api:
            await create(api, QUEUES, queue("p", deserved={"cpu": "10"}))
            both = (create(api, QUEUES, queue(name, parent="p", deserved={"cpu": "6"})) for name in ("a", "b"))
            done = await asyncio.gather(*both, return_exceptions=True)
            assert [type(one) for one in done] == [dict, ApiError]

    asyncio.run(story())


def test_defaults_are_stored() -> None:
    async def story() -> None:
        async with served() as api:
            made = await create(api, JOBS, job("j", plugins={"horovod": []}))
            assert made["spec"]["queue"] == "default"
            assert made["metadata"]["annotations"]["volcano.sh/user"] == "admin"
            (warning,) = made["warnings"]
            assert warning.startswith("spec.plugins.horovod: has no effect; supported plugins: env, ")
            assert "Routed to queue 'default'" in made["metadata"]["annotations"]["pumice.dev/routed"]

    asyncio.run(story())


def test_a_burst_spreads_over_the_leaves() -> None:
    async def story() -> None:
        async with served() as api:
            await api.create(
                "nodes",
                "",
                {"metadata": {"name": "n"}, "status": {"allocatable": {"cpu": "8"}, "capacity": {"cpu": "8"}}},
            )
            await create(api, QUEUES, queue("other", parent="root"))
            jobs = [create(api, PODGROUPS, group(f"g{i}", minResources={"cpu": "1"})) for i in range(6)]
            went = [made["spec"]["queue"] for made in await asyncio.gather(*jobs)]
            assert went == ["default", "other"] * 3

    asyncio.run(story())


def test_a_dry_run_is_judged_and_leaves_no_trace() -> None:
    async def story() -> None:
        async with served() as api:
            await create(api, QUEUES, queue("q"), dry_run=True)
            with pytest.raises(ApiError, match="Not found: queue 'q'"):
                await create(api, JOBS, job("j", "q"))

    asyncio.run(story())


def test_root_default_and_protected_queues_cannot_be_deleted() -> None:
    async def story() -> None:
        async with served() as api:
            await create(api, QUEUES, queue("p"))
            await create(api, QUEUES, queue("c", parent="p", annotations={"pumice.dev/protected": "true"}))
            for name in ("root", "default", "p", "c"):
                with pytest.raises(ApiError) as caught:
                    await delete(api, QUEUES, name)
                assert caught.value.code == 403
            with pytest.raises(ApiError):
                await api.writes.delete_collection(
                    target(api, QUEUES), ObjectSelection(), DeleteOptions(), api.new_context(ADMIN)
                )
            assert len(api.list(QUEUES)) == 4, "all or none"
            await api.delete(QUEUES, "", "c")  # the server itself may: a definition that goes takes all of them along
            await delete(api, QUEUES, "p")

    asyncio.run(story())


def test_an_update_is_judged_and_its_status_is_not() -> None:
    async def story() -> None:
        async with served() as api:
            await create(api, QUEUES, queue("q"))

            def orphan(found: Object) -> None:
                found["spec"]["parent"] = "nowhere"

            def close(found: Object) -> None:
                found["status"] = {"state": "Closed", "allocated": {"cpu": "1"}}

            with pytest.raises(ApiError, match="Not found: 'nowhere'"):
                await api.modify(QUEUES, "", "q", orphan)
            await api.modify(QUEUES, "", "q", close, subresource="status")
            with pytest.raises(ApiError, match="queue 'q' accepts no jobs, because it is Closed"):
                await create(api, JOBS, job("j", "q"))

    asyncio.run(story())


def test_an_update_whose_effect_is_taken_back_writes_nothing() -> None:
    async def story() -> None:
        async with served() as api:
            before = await create(api, QUEUES, queue("q"))

            def forget_parent(found: Object) -> None:
                del found["spec"]["parent"]

            after = await api.modify(QUEUES, "", "q", forget_parent)
            assert after is not None
            assert after["metadata"]["resourceVersion"] == before["metadata"]["resourceVersion"]

    asyncio.run(story())


def test_pods_of_other_schedulers_are_as_they_were() -> None:
    async def story() -> None:
        async with served() as api:
            for scheduler, user in (("default-scheduler", None), ("pumice", "admin")):
                pod = {
                    "metadata": {"name": scheduler},
                    "spec": {"schedulerName": scheduler, "containers": [{"name": "c", "image": "i"}]},
                }
                made = await create(api, "pods", pod)
                assert made["metadata"].get("annotations", {}).get("volcano.sh/user") == user

    asyncio.run(story())


def test_after_a_failed_commit_the_world_is_made_anew() -> None:
    async def story() -> None:
        async with served() as api:
            admission = api.writes.admission
            assert isinstance(admission, EmbeddedAdmission)
            before = admission.view
            api.store._failed(OSError("disk full"))
            assert admission.view is not before
            assert admission.view.queues.keys() == {"root", "default"}

    asyncio.run(story())
