"""The system namespaces, and the service account ``default`` in each namespace.

Pods without a service account run as ``default``; if it is deleted, it is created again.
"""

from __future__ import annotations

import asyncio

from kubebase.work_queue import WorkQueue
from kubesim.api.client import InProcessClient
from kubesim.api.status import ApiError
from kubesim.controllers.retry_policy import RETRY_POLICY, WORKERS

NAMESPACES = ("default", "kube-system", "kube-public", "kube-node-lease")
ACCOUNT = "default"


async def create_system_namespaces(api: InProcessClient) -> None:
    """Create the system namespaces that are missing, with their service accounts."""
    for name in NAMESPACES:
        if api.read("namespaces", "", name) is None:
            await api.create("namespaces", "", {"metadata": {"name": name}})
            await _ensure_account(api, name)


async def _ensure_account(api: InProcessClient, namespace: str) -> None:
    found = api.read("namespaces", "", namespace)
    if found is None or "deletionTimestamp" in found["metadata"]:
        return
    if api.read("serviceaccounts", namespace, ACCOUNT) is None:
        try:
            await api.create("serviceaccounts", namespace, {"metadata": {"name": ACCOUNT}})
        except ApiError as error:
            if error.reason != "AlreadyExists":
                raise


async def run(api: InProcessClient) -> None:
    """Run the service account controller until cancelled."""

    async def reconcile(namespace: str) -> None:
        await _ensure_account(api, namespace)

    work_queue = WorkQueue(reconcile, workers=WORKERS, retries=RETRY_POLICY)

    async def follow_namespaces() -> None:
        async for batch in api.follow("namespaces"):
            for change in batch:
                work_queue.add(change.object["metadata"]["name"])

    async def follow_accounts() -> None:
        async for batch in api.follow("serviceaccounts"):
            for change in batch:
                if change.deleted and change.object["metadata"]["name"] == ACCOUNT:
                    work_queue.add(change.object["metadata"]["namespace"])

    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(work_queue.run())
        tasks.create_task(follow_namespaces())
        tasks.create_task(follow_accounts())
