"""Root and default are there, whoever has deleted or changed them."""

from __future__ import annotations

import asyncio

from kubesim.server import RunningCluster
from pumice.controllers.default_queues import DefaultQueues, missing_queues
from pumice.controllers.manager import ControllerManager
from pumice.kube.client.api import Api
from pumice.kube.client.kubeconfig import Access
from pumice.kube.client.transport import Session
from tests.support.live_cluster import QUEUES, eventually, live


def test_controllers_are_not_ready_before_both_queues_exist():
    assert missing_queues({}) == "waiting for queue root, default to be created"
    assert missing_queues({"root": 1}) == "waiting for queue default to be created"
    assert missing_queues({"root": 1, "default": 1, "other": 1}) == ""


def test_default_queues_are_recreated_when_missing(tmp_path):
    async def check(running: RunningCluster) -> None:
        def there() -> set[str]:
            return {queue["metadata"]["name"] for queue in running.api.list(QUEUES)}

        await running.api.delete(QUEUES, "", "default")
        await running.api.delete(QUEUES, "", "root")
        assert there() == set()
        async with Session(Access(running.server)) as session:
            work = asyncio.create_task(ControllerManager(Api(session), [DefaultQueues]).run())
            await eventually(lambda: there() == {"root", "default"})
            before = running.api.read(QUEUES, "", "root")
            await running.api.delete(QUEUES, "", "default")
            await eventually(lambda: there() == {"root", "default"})
            assert running.api.read(QUEUES, "", "root") == before, "what is there is left alone"
            work.cancel()
            await asyncio.gather(work, return_exceptions=True)

    live(tmp_path, check, count=0)
