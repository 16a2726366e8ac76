"""Every cluster has two queues: ``root``, which stands for the cluster, and ``default``, a leaf, for jobs.

They are made where they are missing. Nothing but their names is insisted on.
"""

from __future__ import annotations

from typing import Any, Final

from pumice.controllers.manager import Seen
from pumice.controllers.work_queue import Keys
from pumice.kube.client.api import Api
from pumice.kube.client.api_errors import RefusedError
from pumice.kube.resources import QUEUES, Document
from pumice.kube.watch.change_queue import Change
from pumice.model.objects import DEFAULT_QUEUE, ROOT

SPECS: Final[dict[str, dict[str, Any]]] = {ROOT: {"weight": 1}, DEFAULT_QUEUE: {"parent": ROOT, "weight": 1}}


class FirstQueues:
    """Makes both."""

    def __init__(self, api: Api, seen: Seen) -> None:
        self._api = api
        self._queues = seen.all(QUEUES)
        self.keys = Keys(self._look, at_once=1)  # in order: one stands below the other
        for name in SPECS:
            self.keys.add(name)

    def take(self, change: Change[Document]) -> None:
        """A queue is gone, perhaps one of these."""
        if change.resource == QUEUES.name and change.new is None and change.key in SPECS:
            self.keys.add(change.key)

    async def _look(self, name: str) -> None:
        if name in self._queues:
            return
        about = {"apiVersion": QUEUES.api_version, "kind": QUEUES.kind, "metadata": {"name": name}}
        try:
            await self._api.create(QUEUES.raw, {**about, "spec": SPECS[name]})
        except RefusedError as error:
            if not error.exists:
                raise
