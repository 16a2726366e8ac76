"""Follows all pods, and checks at every change what must hold for them."""

from __future__ import annotations

from typing import Any

from pumice.kube.client.api import Api
from pumice.kube.resources import PODS
from pumice.kube.watch.change_queue import ChangeQueue
from pumice.kube.watch.informer import Informer

FINISHED = frozenset({"Succeeded", "Failed"})
NODE_CPU = 16


class PodAudit:
    """What was seen of pods, and what was wrong with it."""

    def __init__(self, api: Api) -> None:
        self._feed = ChangeQueue()
        self.informer = Informer(api, PODS.raw, self._feed)
        self._node_of: dict[str, str] = {}  # by uid
        self._on_node: dict[str, set[str]] = {}  # uids of pods that are not over
        self.bound = 0
        self.deleted = 0
        self.wrong: list[str] = []

    async def run(self) -> None:
        """Check changes until cancelled."""
        async for changes in self._feed:
            for change in changes:
                if change.new is None:
                    self._forget(change.uid)
                else:
                    self._check(change.key, change.uid, change.new)

    def _check(self, key: str, uid: str, pod: dict[str, Any]) -> None:
        node = pod["spec"].get("nodeName") or ""
        before = self._node_of.get(uid, "")
        if before and node != before:
            self.wrong.append(f"pod {key} was on {before} and is on {node or 'no node'}")
        if node and not before:
            self.bound += 1
        self._node_of[uid] = node
        if not node:
            return
        here = self._on_node.setdefault(node, set())
        if pod.get("status", {}).get("phase") in FINISHED:
            here.discard(uid)
            return
        here.add(uid)
        if len(here) > NODE_CPU:  # each has one cpu
            self.wrong.append(f"node {node} has {len(here)} pods of 1 cpu, and {NODE_CPU} cpu")

    def _forget(self, uid: str) -> None:
        self.deleted += 1
        node = self._node_of.pop(uid, "")
        self._on_node.get(node, set()).discard(uid)
