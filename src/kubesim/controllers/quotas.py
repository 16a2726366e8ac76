"""The quota controller: writes the status of ResourceQuotas.

The quota ledger, which admits new objects, always knows the usage; this controller only writes it to the status.
Changes during one write are combined in the next, so a burst of pods costs a few writes. A status that a client has
written is corrected.
"""

from __future__ import annotations

import asyncio

from kubebase.work_queue import WorkQueue
from kubesim.api.client import InProcessClient
from kubesim.api.quota_ledger import QUOTAS
from kubesim.controllers.retry_policy import RETRY_POLICY, WORKERS
from kubesim.registry.registry import Object


async def run(api: InProcessClient) -> None:
    """Keep the status of all quotas until cancelled."""
    ledger = api.writes.quotas

    def edit(newest: Object) -> None:
        newest["status"] = ledger.status(newest)

    async def reconcile(key: str) -> None:
        namespace, name = key.split("/")
        await api.modify(QUOTAS, namespace, name, edit, subresource="status")

    work_queue = WorkQueue(reconcile, workers=WORKERS, retries=RETRY_POLICY)
    ledger.moved = work_queue.add

    async def follow_quotas() -> None:
        async for batch in api.follow(QUOTAS):
            for change in batch:
                if not change.deleted:
                    work_queue.add(change.key.removeprefix(f"{QUOTAS}/"))

    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(work_queue.run())
        tasks.create_task(follow_quotas())
