"""The loop of controllers whose objects own others: Deployments and ReplicaSets, Jobs and pods.

Owners are reconciled once all children are known: before, a controller would create children that exist already.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping

from kubebase.work_queue import WorkQueue
from kubesim.api.client import InProcessClient
from kubesim.storage import Change

OnChange = Callable[[Change], None]


async def run_controller(
    api: InProcessClient,
    work_queue: WorkQueue,
    children: tuple[str, OnChange],
    others: Mapping[str, OnChange],
) -> None:
    """Follow the children; once all are known, follow the owners and ``others`` too and run the work queue."""
    resource, on_child_change = children
    async with asyncio.TaskGroup() as tasks:
        async for batch in api.follow(resource):
            for change in batch:
                on_child_change(change)
            if not batch:
                for other, on_change in others.items():
                    tasks.create_task(_follow(api, other, on_change))
                tasks.create_task(work_queue.run())


async def _follow(api: InProcessClient, resource: str, on_change: OnChange) -> None:
    async for batch in api.follow(resource):
        for change in batch:
            on_change(change)
