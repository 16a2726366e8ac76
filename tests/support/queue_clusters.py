"""A cluster in memory for the queue controller, without tasks or sockets: lag and crashes happen when a test says so.

Writes are judged by admission and acknowledged at once; what a controller gets to *see* waits until it is delivered,
each resource in its own order. ``CrashError`` is the death of the process, just before a write or just after it.
"""

from __future__ import annotations

import copy
from collections import deque
from collections.abc import Iterator
from typing import Any

from pumice.admission import CREATE, DELETE, QUEUE_FINALIZER, UPDATE, ClusterView, Request, Settings, admit
from pumice.controllers.queues.controller import QueueController
from pumice.kube.client.api import Listing
from pumice.kube.client.api_errors import ApiError, UnreachableError
from pumice.kube.resources import COMMANDS, JOBS, POD_GROUPS, QUEUES, Document, Resource
from pumice.kube.watch.change_queue import Change
from pumice.kube.watch.informer import CachedObject

NOW = 1_700_000_000.0


class CrashError(Exception):
    """The process is no more."""


class MemoryCluster:
    """What the controller needs of an API."""

    def __init__(self) -> None:
        self.world = ClusterView(Settings(queue_finalizer=QUEUE_FINALIZER))
        self.objects: dict[tuple[str, str], Document] = {}
        self.unseen: dict[str, deque[Change[Document]]] = {}
        self.writes = 0
        self.crash_at: float | None = None
        """The write at which the process dies: at n just before it, at n + 0.5 just after."""
        self.lose_at: float | None = None
        """The same, but only the connection is lost."""
        self._revision = 0
        self.history: list[tuple[str, str, str]] = []

    # ---- the API of the controller ------------------------------------------------------------------------

    async def get(self, resource: Resource[Any], name: str, namespace: str = "") -> Document:
        return copy.deepcopy(self._there(resource, name, namespace))

    async def list(self, resource: Resource[Any]) -> Listing[Document]:
        return Listing(copy.deepcopy(list(self.all(resource))), str(self._revision))

    async def create(self, resource: Resource[Any], new: Document, namespace: str = "") -> Document:
        return self._counted(lambda: self.put(resource, new, namespace))

    async def patch(
        self, resource: Resource[Any], name: str, patch: Document, namespace: str = "", *, subresource: str = ""
    ) -> Document:
        return self._counted(lambda: self.merge(resource, name, patch, namespace, subresource))

    async def delete(
        self, resource: Resource[Any], name: str, namespace: str = "", *, uid: str, revision: str = "", propagation: str
    ) -> None:
        self._counted(lambda: self.drop(resource, name, namespace, uid, revision))

    def _counted(self, write: Any) -> Any:
        self.writes += 1
        self._fail(self.writes)
        answer = copy.deepcopy(write())
        self._fail(self.writes + 0.5)
        return answer

    def _fail(self, at: float) -> None:
        if self.crash_at == at:
            raise CrashError
        if self.lose_at == at:
            raise UnreachableError("the connection is lost")

    # ---- the same, for people -----------------------------------------------------------------------------

    def all(self, resource: Resource[Any]) -> Iterator[Document]:
        return (found for (kind, _), found in self.objects.items() if kind == resource.name)

    def queue(self, name: str) -> Document | None:
        return self.objects.get((QUEUES.name, name))

    def put(self, resource: Resource[Any], new: Document, namespace: str = "") -> Document:
        new = copy.deepcopy(new)
        new["metadata"].update({"namespace": namespace} if resource.namespaced else {})
        if resource.name == QUEUES.name:
            new.pop("status", None)
        key = _key(new)
        if (resource.name, key) in self.objects:
            raise ApiError(409, "AlreadyExists", key)
        new = self._admitted(CREATE, resource, new, None)
        new["metadata"]["uid"] = f"uid-{self._revision + 1}"
        new["metadata"]["creationTimestamp"] = "2026-01-01T00:00:00Z"
        return self._store(resource, key, new)

    def merge(
        self, resource: Resource[Any], name: str, patch: Document, namespace: str = "", subresource: str = ""
    ) -> Document:
        old = self._there(resource, name, namespace)
        about = patch.get("metadata", {})
        if about.get("uid", old["metadata"]["uid"]) != old["metadata"]["uid"]:
            raise ApiError(422, "Invalid", name, details={"causes": [{"field": "metadata.uid"}]})
        if about.get("resourceVersion", old["metadata"]["resourceVersion"]) != old["metadata"]["resourceVersion"]:
            raise ApiError(409, "Conflict", name)
        part = {"status": patch["status"]} if subresource else {k: v for k, v in patch.items() if k != "status"}
        new = _merged(copy.deepcopy(old), copy.deepcopy(part))
        if not subresource:
            new = self._admitted(UPDATE, resource, new, old)
        return old if new == old else self._store(resource, _key(old), new)

    def drop(self, resource: Resource[Any], name: str, namespace: str = "", uid: str = "", revision: str = "") -> None:
        old = self._there(resource, name, namespace)
        about = old["metadata"]
        if (uid and uid != about["uid"]) or (revision and revision != about["resourceVersion"]):
            raise ApiError(409, "Conflict", name)
        self._admitted(DELETE, resource, None, old)
        if "deletionTimestamp" not in about:
            self._store(
                resource,
                _key(old),
                _merged(copy.deepcopy(old), {"metadata": {"deletionTimestamp": "2026-01-02T00:00:00Z"}}),
            )

    def _there(self, resource: Resource[Any], name: str, namespace: str) -> Document:
        found = self.objects.get((resource.name, f"{namespace}/{name}" if namespace else name))
        if found is None:
            raise ApiError(404, "NotFound", name)
        return found

    def _admitted(self, operation: str, resource: Resource[Any], new: Document | None, old: Document | None) -> Any:
        verdict = admit(Request(operation, resource.name, new, old, "anne"), self.world)
        if verdict.refusals:
            raise ApiError(403, "Forbidden", verdict.message)
        return copy.deepcopy(verdict.object)

    def _store(self, resource: Resource[Any], key: str, new: Document) -> Document:
        """Keep an object, or let it go if nothing keeps it any more; watchers will hear of it."""
        self._revision += 1
        new["metadata"]["resourceVersion"] = str(self._revision)
        new.setdefault("apiVersion", resource.api_version)
        new.setdefault("kind", resource.kind)
        gone = "deletionTimestamp" in new["metadata"] and not new["metadata"].get("finalizers")
        old = self.objects.pop((resource.name, key), None)
        if not gone:
            self.objects[resource.name, key] = new
        self.world.note(
            resource.name, new["metadata"].get("namespace", ""), new["metadata"]["name"], None if gone else new
        )
        change = Change(resource.name, key, new["metadata"]["uid"], str(self._revision), old, None if gone else new)
        self.unseen.setdefault(resource.name, deque()).append(change)
        self.history.append((resource.name, key, "gone" if gone else (new.get("status") or {}).get("state", "")))
        return new


class Process:
    """A queue controller at work on such a cluster, one look at a time."""

    def __init__(self, cluster: MemoryCluster) -> None:
        self.cluster = cluster
        self.copies: dict[str, dict[str, CachedObject[Document]]] = {}
        self.controller: Any = QueueController(cluster, self, lambda: NOW)  # type: ignore[arg-type] # all it needs of them
        self.waiting: dict[str, None] = {}
        self.refused = 0  # looks in a row that something was refused in
        self.controller.work_queue = self
        cluster.unseen.clear()
        for (resource, key), found in cluster.objects.items():
            about = found["metadata"]
            self._see(Change(resource, key, about["uid"], about["resourceVersion"], None, found))

    def all(self, resource: Resource[Any]) -> dict[str, CachedObject[Document]]:
        return self.copies.setdefault(resource.name, {})

    def add(self, key: str) -> None:
        self.waiting[key] = None

    def _see(self, change: Change[Document]) -> None:
        known = self.copies.setdefault(change.resource, {})
        known.pop(change.key, None)
        if change.new is not None:
            known[change.key] = CachedObject(change.uid, change.revision, change.new)
        self.controller.on_change(copy.deepcopy(change))

    def deliver(self, resource: str, most: int) -> None:
        """The next changes of a resource are seen."""
        line = self.cluster.unseen.get(resource, deque())
        for _ in range(min(most, len(line))):
            self._see(line.popleft())

    async def look(self) -> None:
        """Look at the next key, if there is one. What is refused is looked at again, after all others."""
        key = next(iter(self.waiting), None)
        if key is None:
            return
        del self.waiting[key]
        try:
            await self.controller.reconcile(key)
            self.refused = 0
        except (ApiError, UnreachableError):
            self.waiting[key] = None
            self.refused += 1

    async def settle(self, most: int = 2000) -> None:
        """See everything and look at everything, until nothing is left that can be done."""
        self.refused = 0
        for _ in range(most):
            for resource in list(self.cluster.unseen):
                self.deliver(resource, 1000)
            if self.refused > 2 * len(self.waiting) or not self.waiting:
                return
            await self.look()
        raise AssertionError(f"it never ends: {list(self.waiting)}; last: {self.cluster.history[-12:]}")


def command(cluster: MemoryCluster, action: str, queue: str) -> None:
    found = cluster.queue(queue)
    uid = found["metadata"]["uid"] if found else "gone"
    target = {"apiVersion": QUEUES.api_version, "kind": "Queue", "name": queue, "uid": uid}
    name = f"command-{len(cluster.history)}"
    cluster.put(COMMANDS, {"metadata": {"name": name}, "action": action, "target": target}, "ns")


def group(cluster: MemoryCluster, name: str, queue: str) -> None:
    cluster.put(POD_GROUPS, {"metadata": {"name": name}, "spec": {"queue": queue}}, "ns")


def job(cluster: MemoryCluster, name: str, queue: str) -> None:
    template = {"spec": {"containers": [{"name": "main", "image": "work"}]}}
    tasks = [{"name": "main", "replicas": 1, "template": template}]
    cluster.put(JOBS, {"metadata": {"name": name}, "spec": {"queue": queue, "tasks": tasks}}, "ns")


def _merged(old: Document, patch: Document) -> Document:
    new = dict(old)
    for name, value in patch.items():
        if value is None:
            new.pop(name, None)
        elif isinstance(value, dict):
            there = new.get(name)
            new[name] = _merged(there if isinstance(there, dict) else {}, value)
        else:
            new[name] = value
    return new


def _key(found: Document) -> str:
    about = found["metadata"]
    return f"{about['namespace']}/{about['name']}" if about.get("namespace") else str(about["name"])
