"""The in-process client: the API without HTTP, for the controllers and simulated nodes of this process.

They name a resource by its qualified name (``pods``, ``jobs.batch``) and get plain objects. Their writes are handled
like those of any client: defaulted, validated, committed.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Sequence

import msgspec

from kubesim.api import status
from kubesim.api.get_list import ObjectReader
from kubesim.api.request_context import RequestContext
from kubesim.api.requests import DeleteOptions, Target, WriteOptions
from kubesim.api.short_lists import ShortLists
from kubesim.api.writes import ObjectWriter
from kubesim.identity import KUBESIM, ServerIdentity
from kubesim.registry.registry import Object, Resource, ResourceRegistry
from kubesim.storage import Change, Store

BATCH = 1000
PAGE = 500
PATIENCE = 60.0  # how long a follower waits at most before it polls again
GONE = {404, 409}

Batch = Sequence[Change]

_decode = msgspec.json.Decoder().decode
_encode = msgspec.json.Encoder().encode


def _copied(found: Object) -> Object:
    return _decode(_encode(found))  # type: ignore[no-any-return]  # the fastest way to copy


class InProcessClient:
    """The client of controllers and kubelets inside this process."""

    def __init__(self, store: Store, registry: ResourceRegistry, identity: ServerIdentity = KUBESIM) -> None:
        self.store = store
        self.registry = registry
        self.identity = identity
        self.requests = 0
        """How many requests of clients outside this process were handled, watches included."""
        self.reads = ObjectReader(store)
        self.writes = ObjectWriter(store, registry)
        self._positions: dict[object, int] = {}
        self._lists = ShortLists(store)

    def new_context(self, user: str = "") -> RequestContext:
        """The context of a new request; without a user, of this process itself."""
        return RequestContext(self.store, self.registry, self._lists, user or self.identity.system_user)

    def read(self, resource: str, namespace: str, name: str) -> Object | None:
        """The newest state of an object, pending writes included."""
        record = self.store.latest(self._resource(resource).key(namespace, name))
        return _decode(record.value) if record else None

    def list(self, resource: str, namespace: str = "") -> list[Object]:
        """All objects of a resource, in a namespace or everywhere."""
        prefix = self._resource(resource).prefix(namespace)
        return [_decode(record.value) for record in self.store.list(prefix).records]

    async def create(self, resource: str, namespace: str, new: Object) -> Object:
        """Create an object, which may omit its type. Raises ``ApiError`` if it is rejected."""
        target = Target(self._resource(resource), namespace)
        whole = {"apiVersion": target.resource.api_version, "kind": target.resource.kind, **new}
        record = await self.writes.create(target, _decode(_encode(whole)), WriteOptions(), self.new_context())
        return _decode(record.value)  # type: ignore[no-any-return]  # what is stored is an object

    async def modify(
        self,
        resource: str,
        namespace: str,
        name: str,
        edit: Callable[[Object], None],
        *,
        subresource: str = "",
        uid: str = "",
        well_formed: bool = False,
    ) -> Object | None:
        """Edit the newest state of an object in place. None if it does not exist or has another uid.

        An edit of the status gets a copy of status and metadata; it must not change anything else. ``well_formed``:
        it leaves behind no empty metadata, no null and no field that the kind does not have.
        """
        target = Target(self._resource(resource), namespace, name, subresource)

        def edited(old: Object) -> Object:
            if uid and old["metadata"]["uid"] != uid:
                raise status.not_found(target.resource.plural, target.resource.group, name)
            if subresource == "status":
                parts: Object = {part: old[part] for part in ("metadata", "status") if part in old}
                new = {**old, **_copied(parts)}
            else:
                new = _copied(old)
            edit(new)
            return new

        try:
            record = await self.writes.update(
                target, edited, WriteOptions(), self.new_context(), well_formed=well_formed
            )
        except status.ApiError as error:
            if error.code == 404:
                return None
            raise
        return _decode(record.value)  # type: ignore[no-any-return]  # what is stored is an object

    async def delete(
        self,
        resource: str,
        namespace: str,
        name: str,
        *,
        grace: int | None = None,
        uid: str = "",
        propagation: str = "",
    ) -> None:
        """Delete an object. No effect if it does not exist or has another uid."""
        target = Target(self._resource(resource), namespace, name)
        try:
            await self.writes.delete(target, DeleteOptions(grace, uid, "", propagation), self.new_context())
        except status.ApiError as error:
            if error.code not in GONE:
                raise

    async def follow(self, resource: str, namespace: str = "") -> AsyncGenerator[Batch, None]:
        """All existing objects as changes, then one empty batch, then changes as they are committed.

        ``resource`` may be empty, for all of them.
        """
        prefix = self._resource(resource).prefix(namespace) if resource else ""
        page = self.store.list(prefix, limit=PAGE)
        position = page.revision
        follower = object()
        self._positions[follower] = position  # from here on compaction keeps the history for this follower
        try:
            while page.records:
                yield [Change(record.revision, record.key, record.value) for record in page.records]
                page = self.store.list(prefix, at=position, after=page.last_key, limit=PAGE)
            yield ()
            while True:
                changes, position = self.store.changes(prefix, position, BATCH)
                self._positions[follower] = position
                if changes:
                    yield changes
                else:
                    await self.store.wait(prefix, position, PATIENCE)
        finally:
            del self._positions[follower]

    def oldest_needed_revision(self, revision: int) -> int:
        """The revision up to which the log can be compacted without cutting off a follower of this process."""
        return min([revision, *self._positions.values()])

    def _resource(self, resource: str) -> Resource:
        known = self.registry.stored(resource)
        if known is None:
            raise status.page_not_found()
        return known
