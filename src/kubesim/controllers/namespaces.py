"""The namespace controller: deletes the content of a namespace that is being deleted, then the namespace.

Objects of every kind are deleted as a client would delete them: pods get their grace period, and finalizers are waited
for. Meanwhile the conditions of the namespace report the remaining content and what delays it. When the namespace is
empty, the finalizer ``kubernetes`` is removed from its spec, which removes the namespace.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from kubebase.work_queue import WorkQueue
from kubesim.api.client import InProcessClient
from kubesim.api.status import ApiError
from kubesim.clock import Clock, stamp
from kubesim.controllers.conditions import set_condition
from kubesim.controllers.retry_policy import RETRY_POLICY
from kubesim.registry.registry import Object, Resource

FINALIZER = "kubernetes"
SOONEST, LATEST = 0.05, 2.0  # seconds between two looks at a namespace that is not empty yet
AT_ONCE = 200


@dataclass(slots=True)
class RemainingContent:
    """What is left in a namespace: how many of each resource, held by which finalizers, and what went wrong."""

    resources: Counter[str] = field(default_factory=Counter)
    finalizers: Counter[str] = field(default_factory=Counter)
    errors: list[str] = field(default_factory=list)

    def add(self, resource: Resource, objects: Iterable[Object]) -> None:
        """Count objects that are still there."""
        for found in objects:
            self.resources[f"{resource.plural}.{resource.group}"] += 1
            self.finalizers.update(found["metadata"].get("finalizers", ()))


def deletion_conditions(rest: RemainingContent) -> Iterator[Object]:
    """The conditions of a namespace in which this is left."""
    yield _condition(
        "NamespaceDeletionDiscoveryFailure", "ResourcesDiscovered", "All resources successfully discovered"
    )
    yield _condition(
        "NamespaceDeletionGroupVersionParsingFailure",
        "ParsedGroupVersions",
        "All legacy kube types successfully parsed",
    )
    if rest.errors:
        listed = ", ".join(sorted(rest.errors))
        text = f"Failed to delete all resource types, {len(rest.errors)} remaining: {listed}"
        yield _condition("NamespaceDeletionContentFailure", "ContentDeletionFailed", text, holds=True)
    else:
        text = "All content successfully deleted, may be waiting on finalization"
        yield _condition("NamespaceDeletionContentFailure", "ContentDeleted", text)
    if rest.resources:
        listed = ", ".join(f"{name} has {n} resource instances" for name, n in sorted(rest.resources.items()))
        text = f"Some resources are remaining: {listed}"
        yield _condition("NamespaceContentRemaining", "SomeResourcesRemain", text, holds=True)
    else:
        yield _condition("NamespaceContentRemaining", "ContentRemoved", "All content successfully removed")
    if rest.finalizers:
        listed = ", ".join(f"{name} in {n} resource instances" for name, n in sorted(rest.finalizers.items()))
        text = f"Some content in the namespace has finalizers remaining: {listed}"
        yield _condition("NamespaceFinalizersRemaining", "SomeFinalizersRemain", text, holds=True)
    else:
        text = "All content-preserving finalizers finished"
        yield _condition("NamespaceFinalizersRemaining", "ContentHasNoFinalizers", text)


def _condition(kind: str, reason: str, message: str, *, holds: bool = False) -> Object:
    return {"type": kind, "status": "True" if holds else "False", "reason": reason, "message": message}


class NamespaceController:
    """Empties namespaces."""

    def __init__(self, api: InProcessClient, clock: Clock) -> None:
        self._api = api
        self._clock = clock
        self._waited: dict[str, float] = {}
        self.work_queue = WorkQueue(self._reconcile, workers=8, retries=RETRY_POLICY)

    async def _reconcile(self, name: str) -> float | None:
        namespace = self._api.read("namespaces", "", name)
        if namespace is None or "deletionTimestamp" not in namespace["metadata"]:
            self._waited.pop(name, None)
            return None
        rest = await self._delete_content(name)
        uid = namespace["metadata"]["uid"]
        if not rest.resources and not rest.errors:
            await self._api.modify("namespaces", "", name, _finalize, subresource="finalize", uid=uid)
            return None
        now = stamp(self._clock.now())

        def edit(found: Object) -> None:
            for entry in deletion_conditions(rest):
                set_condition(found.setdefault("status", {}), entry, now)

        await self._api.modify("namespaces", "", name, edit, subresource="status", uid=uid)
        wait = self._waited[name] = min(LATEST, 2 * self._waited.get(name, SOONEST / 2))
        return wait

    async def _delete_content(self, namespace: str) -> RemainingContent:
        """Delete everything that is not being deleted yet. Returns what is left."""
        rest = RemainingContent()
        kinds = {r.qualified: r for r in self._api.registry if r.namespaced and "delete" in r.verbs}
        # Pods first: they take longest. Events last, so that those which the others cause go too.
        for resource in sorted(kinds.values(), key=lambda r: (r.kind == "Event", r.kind != "Pod", r.qualified)):
            if not self._api.store.count(resource.prefix(namespace)):
                continue
            try:
                await self._delete_all(resource, namespace)
            except ApiError as error:
                rest.errors.append(f"{resource.qualified}: {error}")
            rest.add(resource, self._api.list(resource.qualified, namespace))
        return rest

    async def _delete_all(self, resource: Resource, namespace: str) -> None:
        names = [
            found["metadata"]["name"]
            for found in self._api.list(resource.qualified, namespace)
            if "deletionTimestamp" not in found["metadata"]
        ]
        for start in range(0, len(names), AT_ONCE):
            batch = names[start : start + AT_ONCE]
            await asyncio.gather(
                *(self._api.delete(resource.qualified, namespace, name, propagation="Background") for name in batch)
            )


def _finalize(namespace: Object) -> None:
    spec = namespace.setdefault("spec", {})
    spec["finalizers"] = [kept for kept in spec.get("finalizers") or () if kept != FINALIZER]


async def run(api: InProcessClient, clock: Clock) -> None:
    """Empty namespaces until cancelled."""
    namespaces = NamespaceController(api, clock)
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(namespaces.work_queue.run())
        async for batch in api.follow("namespaces"):
            for change in batch:
                if "deletionTimestamp" in change.object["metadata"] and not change.deleted:
                    namespaces.work_queue.add(change.object["metadata"]["name"])
