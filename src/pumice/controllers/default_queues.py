"""Ensure the two queues of every cluster: ``root``, which stands for the cluster, and ``default``, a leaf for jobs.

They are created where they are missing. Nothing but their names is enforced.
"""

from __future__ import annotations

from collections.abc import Container
from typing import Any, Final

from kubebase.work_queue import WorkQueue
from pumice.controllers.manager import SharedInformers
from pumice.controllers.retry_policy import RETRY_POLICY
from pumice.kube.client.api import Api
from pumice.kube.client.api_errors import ApiError
from pumice.kube.resources import QUEUES, Document
from pumice.kube.watch.change_queue import Change
from pumice.model.specs import DEFAULT_QUEUE, ROOT

SPECS: Final[dict[str, dict[str, Any]]] = {ROOT: {"weight": 1}, DEFAULT_QUEUE: {"parent": ROOT, "weight": 1}}


def missing_queues(queues: Container[str]) -> str:
    """A message if one of the queues does not exist yet; empty if both do.

    Controllers are not ready until then, so that a job can name ``default`` as soon as an installation is.
    """
    missing = [name for name in SPECS if name not in queues]
    return f"waiting for queue {', '.join(missing)} to be created" if missing else ""


class DefaultQueues:
    """Creates both queues."""

    def __init__(self, api: Api, informers: SharedInformers) -> None:
        self._api = api
        self._queues = informers.all(QUEUES)
        # One worker, so that queues are created in order: one is the parent of the other.
        self.work_queue = WorkQueue(self._reconcile, workers=1, retries=RETRY_POLICY)
        for name in SPECS:
            self.work_queue.add(name)

    def on_change(self, change: Change[Document]) -> None:
        """A queue was deleted, perhaps one of these."""
        if change.resource == QUEUES.name and change.new is None and change.key in SPECS:
            self.work_queue.add(change.key)

    async def _reconcile(self, name: str) -> None:
        if name in self._queues:
            return
        about = {"apiVersion": QUEUES.api_version, "kind": QUEUES.kind, "metadata": {"name": name}}
        try:
            await self._api.create(QUEUES.raw, {**about, "spec": SPECS[name]})
        except ApiError as error:
            if not error.already_exists:
                raise
