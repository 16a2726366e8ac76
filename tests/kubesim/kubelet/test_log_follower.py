"""Following a log: lines as they are written, until the container ends."""

from __future__ import annotations

import asyncio
from typing import Any

from kubesim.kubelet.log_follower import follow_log
from kubesim.kubelet.logs import LogOptions
from tests.support.simulated import Cluster, cluster, eventually, lasting, run

STARTED = "main: started busybox on node-000 (simulated)\n"


async def follow(c: Cluster, name: str, **options: Any) -> str:
    found = c.pod(name)
    assert found
    return "".join([part.decode() async for part in follow_log(c.api, found, LogOptions(**options))])


def test_follower_sees_the_end_of_the_container() -> None:
    async def scenario() -> None:
        async with cluster() as c:
            await c.run_pod("short", annotations=lasting(60), restartPolicy="Never")
            await eventually(lambda: c.phase("short") == "Running")
            assert await follow(c, "short") == f"{STARTED}main: exited with 0\n"
            assert await follow(c, "short", tail_lines=1) == "main: exited with 0\n"
            assert await follow(c, "short", tail_lines=0) == ""

    run(scenario())


def test_follower_of_a_restarted_container_sees_one_run() -> None:
    async def scenario() -> None:
        async with cluster() as c:
            await c.run_pod("again", annotations=lasting(60, fail="3"))
            await eventually(lambda: c.phase("again") == "Running")
            assert await follow(c, "again") == f"{STARTED}main: exited with 3\n"

    run(scenario())


def test_follower_ends_with_the_pod_and_keeps_its_limit() -> None:
    async def scenario() -> None:
        async with cluster() as c:
            await c.run_pod("long")
            await eventually(lambda: c.phase("long") == "Running")
            whole = asyncio.create_task(follow(c, "long"))
            limited = asyncio.create_task(follow(c, "long", limit_bytes=len(STARTED) + 5))
            await asyncio.sleep(0)
            await c.api.delete("pods", "default", "long")
            assert (await whole).startswith(STARTED)
            assert len(await limited) <= len(STARTED) + 5

    run(scenario())
