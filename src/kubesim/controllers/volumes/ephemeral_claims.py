"""The ephemeral volume controller: creates the claims of generic ephemeral volumes. They go with their pod."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

from kubebase.work_queue import WorkQueue
from kubesim.api.client import InProcessClient
from kubesim.api.status import ApiError
from kubesim.clock import Clock
from kubesim.controllers.events import EventRecorder
from kubesim.controllers.gc.garbage_collector import split_key
from kubesim.controllers.retry_policy import RETRY_POLICY, WORKERS
from kubesim.registry.registry import Object

CLAIMS = "persistentvolumeclaims"


def ephemeral_claims(pod: Object) -> Iterator[Object]:
    """The claims that a pod needs for its ephemeral volumes."""
    about = pod["metadata"]
    owner = {
        "apiVersion": "v1",
        "kind": "Pod",
        "name": about["name"],
        "uid": about["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }
    for volume in pod["spec"].get("volumes") or ():
        template = (volume.get("ephemeral") or {}).get("volumeClaimTemplate")
        if template:
            said = template.get("metadata") or {}
            kept = {field: said[field] for field in ("labels", "annotations") if said.get(field)}
            metadata = {"name": f"{about['name']}-{volume['name']}", "ownerReferences": [owner], **kept}
            yield {"metadata": metadata, "spec": template.get("spec") or {}}


async def run(api: InProcessClient, clock: Clock) -> None:
    """Run the ephemeral volume controller until cancelled."""
    recorder = EventRecorder(api, "ephemeral_volume", clock)

    async def reconcile(key: str) -> None:
        pod = api.read(*split_key(key))
        if pod is None or "deletionTimestamp" in pod["metadata"]:
            return
        namespace = pod["metadata"]["namespace"]
        for claim in ephemeral_claims(pod):
            name = claim["metadata"]["name"]
            if api.read(CLAIMS, namespace, name) is not None:
                continue
            try:
                await api.create(CLAIMS, namespace, claim)
            except ApiError as error:
                if error.reason != "AlreadyExists":
                    message = f'ephemeral volume: create PVC "{name}": {error.message}'
                    await recorder.record_warning(pod, "ProvisioningFailed", message)
                    raise

    work_queue = WorkQueue(reconcile, workers=WORKERS, retries=RETRY_POLICY)

    async def follow_pods() -> None:
        async for batch in api.follow("pods"):
            for change in batch:
                if not change.deleted and b'"ephemeral"' in change.value:  # few pods have any
                    work_queue.add(change.key)

    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(work_queue.run())
        tasks.create_task(follow_pods())
