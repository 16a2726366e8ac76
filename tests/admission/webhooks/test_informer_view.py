"""What a webhook knows: what informers show, and for a while what it has let in itself."""

from __future__ import annotations

import asyncio

from kubesim.server import RunningCluster
from pumice.admission import Settings
from pumice.admission.request import QUEUES
from pumice.admission.webhooks.informer_view import OBSERVE_TIMEOUT, InformerView
from pumice.kube.client.api import Api
from pumice.kube.client.kubeconfig import Access
from pumice.kube.client.transport import Session
from tests.support.admitted import queue
from tests.support.live_cluster import eventually, live


def test_informer_view_follows_watch_and_includes_expected_objects_until_timeout(tmp_path):
    async def check(running: RunningCluster) -> None:
        now = [0.0]
        async with Session(Access(running.server)) as session:
            following = InformerView(Api(session), Settings(), clock=lambda: now[0])
            work = asyncio.create_task(following.run())
            await following.complete.wait()
            assert {"root", "default"} <= following.now().queues.keys()
            assert following.now().capacity, "nodes"

            following.expect(QUEUES, queue("stored"))
            following.expect(QUEUES, queue("refused"))
            assert {"stored", "refused"} <= following.now().queues.keys()
            await running.api.create(QUEUES, "", queue("stored"))
            await eventually(lambda: "uid" in following.now().queues["stored"]["metadata"])
            now[0] += OBSERVE_TIMEOUT - 1
            assert "refused" in following.now().queues
            now[0] += 1
            assert "refused" not in following.now().queues, "nobody has shown it"
            assert "stored" in following.now().queues

            following.expect(QUEUES, queue("stored", weight=9))
            assert following.now().queues["stored"]["spec"]["weight"] == 1, "what is seen is not guessed at"
            work.cancel()
            await asyncio.gather(work, return_exceptions=True)

    live(tmp_path, check, count=1)
