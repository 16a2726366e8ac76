"""The garbage collector: deletes objects whose owners no longer exist.

A deletion chooses what happens to the dependents. Background: the owner is removed, and its dependents are deleted
afterwards. Foreground: a finalizer keeps the owner until the dependents that block its deletion are gone. Orphan: the
dependents lose their owner reference first, and stay. Objects that name an owner that does not exist are deleted too.

Only objects with owners are indexed, by key; everything else is read when it is needed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

import msgspec

from kubebase.work_queue import WorkQueue
from kubesim.api.client import InProcessClient
from kubesim.controllers.gc.gc_decision import FOREGROUND, ORPHAN, DeleteObject, OwnerState, RemoveOwnerRefs, decide
from kubesim.controllers.retry_policy import RETRY_POLICY, WORKERS
from kubesim.registry.registry import Object

UNKNOWN_OWNER_RETRY_SECONDS = 30.0


class _OwnerReference(msgspec.Struct, frozen=True):
    uid: str


class _Metadata(msgspec.Struct, frozen=True, rename="camel"):
    uid: str
    owner_references: tuple[_OwnerReference, ...] = ()
    finalizers: tuple[str, ...] = ()
    deletion_timestamp: str = ""


class _ObjectWithMetadata(msgspec.Struct, frozen=True):
    metadata: _Metadata


_decode_metadata = msgspec.json.Decoder(_ObjectWithMetadata).decode


class GarbageCollector:
    """The dependents of each owner, updated with every change of any object."""

    def __init__(self, api: InProcessClient) -> None:
        self._api = api
        self._owners: dict[str, tuple[str, ...]] = {}  # key of a dependent: uids of its owners
        self._dependents: dict[str, dict[str, None]] = {}  # uid of an owner: keys of its dependents
        self._waiting_owners: dict[str, str] = {}  # uid of an owner that waits for its dependents: its key
        self.work_queue = WorkQueue(self._reconcile, workers=WORKERS, retries=RETRY_POLICY)

    def on_change(self, key: str, value: bytes, *, deleted: bool) -> None:
        """Handle a change of an object."""
        about = _decode_metadata(value).metadata
        owners = () if deleted else tuple(reference.uid for reference in about.owner_references)
        before = self._owners.get(key, ())
        if owners != before:
            self._update_owners(key, before, owners)
            if owners:
                self.work_queue.add(key)
        for uid in {*before, *owners} & self._waiting_owners.keys():
            self.work_queue.add(self._waiting_owners[uid])
        if deleted:
            self._waiting_owners.pop(about.uid, None)
            self._enqueue_dependents(about.uid)
        elif about.deletion_timestamp and FOREGROUND in about.finalizers:
            if about.uid not in self._waiting_owners:
                self._waiting_owners[about.uid] = key
                self._enqueue_dependents(about.uid)
            self.work_queue.add(key)
        elif about.deletion_timestamp and ORPHAN in about.finalizers:
            self.work_queue.add(key)

    def _update_owners(self, key: str, before: tuple[str, ...], owners: tuple[str, ...]) -> None:
        for uid in before:
            dependents = self._dependents.get(uid, {})
            dependents.pop(key, None)
            if not dependents:
                self._dependents.pop(uid, None)
        for uid in owners:
            self._dependents.setdefault(uid, {})[key] = None
        if owners:
            self._owners[key] = owners
        else:
            self._owners.pop(key, None)

    def _enqueue_dependents(self, uid: str) -> None:
        for key in self._dependents.get(uid, ()):
            self.work_queue.add(key)

    # ---- one object ---------------------------------------------------------------------------------------

    async def _reconcile(self, key: str) -> float | None:
        resource, namespace, name = split_key(key)
        found = self._api.read(resource, namespace, name)
        if found is None:
            return None
        about = found["metadata"]
        uid, finalizers = about["uid"], about.get("finalizers", ())
        if "deletionTimestamp" in about:
            if ORPHAN in finalizers:
                await self._orphan_dependents(key, uid)
            elif FOREGROUND in finalizers:
                if not self._has_blocking_dependents(uid):
                    await self._remove_finalizer(key, uid, FOREGROUND)
                else:
                    self._enqueue_dependents(uid)
            return None
        if not about.get("ownerReferences"):
            return None
        dependents = self._dependents.get(uid, {})
        verdict = decide(
            [(reference["uid"], self._owner_state(reference, namespace)) for reference in about["ownerReferences"]],
            finalizers=finalizers,
            has_dependents=bool(dependents),
            in_circle=any(waiting in dependents for waiting in self._waiting_owners.values()),
        )
        match verdict:
            case RemoveOwnerRefs(uids):
                await self._remove_owner_refs(key, uid, uids)
            case DeleteObject(propagation, unblock):
                if unblock:
                    await self._api.modify(resource, namespace, name, _unblock_owner_deletion, uid=uid)
                await self._api.delete(resource, namespace, name, uid=uid, propagation=propagation)
            case keep:
                return UNKNOWN_OWNER_RETRY_SECONDS if keep.again else None
        return None

    def _owner_state(self, reference: Object, namespace: str) -> OwnerState:
        resource = self._api.registry.of_kind(reference["apiVersion"], reference["kind"])
        if resource is None or (resource.namespaced and not namespace):
            return OwnerState.UNKNOWN
        found = self._api.read(resource.qualified, namespace if resource.namespaced else "", reference["name"])
        if found is None or found["metadata"]["uid"] != reference["uid"]:
            return OwnerState.GONE
        about = found["metadata"]
        waiting = "deletionTimestamp" in about and FOREGROUND in about.get("finalizers", ())
        return OwnerState.WAITING if waiting else OwnerState.THERE

    def _has_blocking_dependents(self, uid: str) -> bool:
        """Whether a dependent exists that blocks the owner's deletion."""
        for key in self._dependents.get(uid, ()):
            found = self._api.read(*split_key(key))
            for reference in found["metadata"].get("ownerReferences", ()) if found else ():
                if reference["uid"] == uid and reference.get("blockOwnerDeletion"):
                    return True
        return False

    async def _orphan_dependents(self, key: str, uid: str) -> None:
        dependents = list(self._dependents.get(uid, ()))
        await asyncio.gather(*(self._remove_owner_refs(dependent, "", frozenset({uid})) for dependent in dependents))
        await self._remove_finalizer(key, uid, ORPHAN)

    async def _remove_owner_refs(self, key: str, uid: str, owners: Iterable[str]) -> None:
        gone = frozenset(owners)

        def edit(found: Object) -> None:
            about = found["metadata"]
            about["ownerReferences"] = [r for r in about.get("ownerReferences", ()) if r["uid"] not in gone]

        await self._api.modify(*split_key(key), edit, uid=uid)

    async def _remove_finalizer(self, key: str, uid: str, finalizer: str) -> None:
        await self._api.modify(*split_key(key), lambda found: remove_finalizer(found, finalizer), uid=uid)


def split_key(key: str) -> tuple[str, str, str]:
    """Resource, namespace and name in the key of a stored object."""
    resource, *between, name = key.split("/")
    return resource, "".join(between), name


def remove_finalizer(found: Object, finalizer: str) -> None:
    """Remove a finalizer from an object."""
    about = found["metadata"]
    about["finalizers"] = [kept for kept in about.get("finalizers", ()) if kept != finalizer]


def _unblock_owner_deletion(found: Object) -> None:
    for reference in found["metadata"].get("ownerReferences", ()):
        reference["blockOwnerDeletion"] = False


async def run(api: InProcessClient) -> None:
    """Run the garbage collector until cancelled."""
    owners = GarbageCollector(api)
    async with asyncio.TaskGroup() as tasks:
        complete = False
        async for batch in api.follow(""):
            for change in batch:
                if complete or b'"ownerReferences"' in change.value or b'"deletionTimestamp"' in change.value:
                    owners.on_change(change.key, change.value, deleted=change.deleted)
            if not batch:  # now all dependents are known
                complete = True
                tasks.create_task(owners.work_queue.run())
