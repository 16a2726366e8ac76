"""The verbs that write: create, update, patch, delete.

Each verb reads the newest state (uncommitted writes included), computes the next state and hands it to the store,
without an ``await`` in between. Nothing else runs meanwhile, so no write needs a retry: of two writers, the second sees
the result of the first. Then the verb waits for the disk. No response, not even an error, is sent before all writes
that it depends on are on disk.

A large object is the exception: its next state is computed step by step beside other requests (``side_thread``). What
depends on the state of the server is decided in the end, without an ``await``; if the object has changed meanwhile, the
update starts again.
"""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Awaitable, Callable
from http import HTTPStatus

import msgspec

from kubesim.api import metadata, status
from kubesim.api.admission import AdmissionHook
from kubesim.api.field_errors import invalid
from kubesim.api.quota_ledger import QuotaLedger
from kubesim.api.request_context import RequestContext
from kubesim.api.requests import (
    DeleteOptions,
    ObjectSelection,
    Target,
    WriteOptions,
    as_object,
    name_mismatch,
    name_missing,
)
from kubesim.api.side_thread import LARGE, SideThread, Steps, run_steps_here
from kubesim.api.write_steps import (
    check_preconditions,
    copy_or_drop,
    decode_object,
    dry_run_result,
    encode_with_revision,
    new_problems,
    raise_if_invalid,
    report_unknown_fields,
    set_namespace,
    set_propagation_finalizers,
    spec_without_status,
    status_only,
    update_managed_fields,
    validation_problems,
)
from kubesim.apply import UPDATE, FieldManager, FieldManagers, UpdateOwnership
from kubesim.clock import stamp
from kubesim.kinds import custom_resources
from kubesim.registry.registry import Object, Resource, ResourceRegistry
from kubesim.storage import Record, RevisionConflict, Store

Edit = Callable[[Object], Object]
"""From the current object to the desired one. It must not modify its argument."""

NAME_TRIES = 8  # attempts to find a free generated name
UPDATE_TRIES = 5  # attempts to change a large object that others change too; kube-apiserver tries a patch as often

_encode, _decode = msgspec.json.Encoder().encode, msgspec.json.Decoder().decode


class ObjectWriter:
    """The verbs that write."""

    def __init__(self, store: Store, registry: ResourceRegistry) -> None:
        self._store = store
        self._registry = registry
        self.quotas = QuotaLedger(store, registry)
        self.admission: AdmissionHook | None = None
        """The admission hook, if the cluster has one; it takes the place of webhooks."""
        self.side_thread = SideThread()

    # ---- create -------------------------------------------------------------------------------------------

    async def create(
        self,
        target: Target,
        new: Object,
        options: WriteOptions,
        call: RequestContext,
        *,
        owners: FieldManagers | None = None,
    ) -> Record:
        """Create an object in a collection. ``new`` is modified; ``owners`` tracks field ownership, if given."""
        record = await self._commit(self._create(target, new, options, call, owners), call.body_bytes)
        await self._update_served_resources(target, record)
        return record

    def _create(
        self, target: Target, new: Object, options: WriteOptions, call: RequestContext, owners: FieldManagers | None
    ) -> Steps[Awaitable[Record]]:
        resource = target.resource

        def completed() -> None:
            report_unknown_fields(unknown + resource.schema.prune(new), options, call, resource)
            if resource.custom and "status" in resource.subresources:
                new.pop("status", None)  # built-in kinds differ: their strategies decide
            metadata.fill_system_fields(about, call.now, generation=resource.strategy.has_generation)
            _complete(resource, new)
            if not resource.strategy.reads_cluster:
                resource.strategy.on_create(new, call)

        def checked() -> None:
            problems = [*validation_problems(resource, new), *resource.strategy.check(new)]
            raise_if_invalid(resource, about.get("name", ""), problems)

        unknown = yield lambda: decode_object(new, target)
        about = new["metadata"]
        if about.get("resourceVersion"):
            raise status.bad_request("resourceVersion should not be set on objects to be created")
        set_namespace(about, target)
        self._check_namespace(target, about, call)
        yield completed
        if resource.strategy.reads_cluster:
            resource.strategy.on_create(new, call)
        if "get" not in resource.verbs:  # a question: it is answered, not kept
            raise_if_invalid(resource, "", [*resource.schema.validate(new), *resource.strategy.check(new)])
            new["metadata"] = {}
            return dry_run_result("", new)
        yield checked
        new = yield from self._admitted(resource, new, None, options, call, owners)
        about = new["metadata"]
        if call.body_bytes >= LARGE:
            self._check_namespace(target, about, call)  # it may have gone meanwhile
        self.quotas.admit(resource, target.namespace, new)
        key = resource.key(target.namespace, about["name"])
        for _ in range(NAME_TRIES):
            there = self._store.latest(key)
            if there is None:
                break
            if not about.get("generateName"):
                leaving = "deletionTimestamp" in _decode(there.value)["metadata"]
                raise status.already_exists(resource.plural, resource.group, about["name"], leaving=leaving)
            about["name"] = metadata.generate_name(about["generateName"])
            key = resource.key(target.namespace, about["name"])
        else:
            raise status.already_exists(resource.plural, resource.group, about["name"])
        self._convert_to_stored_version(resource, new)
        if options.dry_run:
            return dry_run_result(key, new)
        return self._store.put(key, encode_with_revision(new), expected=0)

    def _convert_to_stored_version(self, resource: Resource, new: Object) -> None:
        """Bring an object into the version in which it is stored, which may know fewer fields."""
        stored = self._registry.stored(resource.qualified)
        if stored is not None and stored is not resource:
            new["apiVersion"] = stored.api_version
            stored.schema.prune(new)

    def _check_namespace(self, target: Target, about: Object, call: RequestContext) -> None:
        if not target.resource.namespaced:
            return
        namespace = call.find("namespaces", "", target.namespace)
        if namespace is None:
            raise status.not_found("namespaces", "", target.namespace)
        if "deletionTimestamp" in namespace["metadata"]:
            cause = f"namespace {target.namespace} is being terminated"
            raise status.forbidden(
                target.resource.plural,
                target.resource.group,
                about.get("name", ""),
                f"unable to create new content in namespace {target.namespace} because it is being terminated",
                [{"reason": "NamespaceTerminating", "message": cause, "field": "metadata.namespace"}],
            )

    # ---- update and patch ---------------------------------------------------------------------------------

    async def update(
        self,
        target: Target,
        edit: Edit,
        options: WriteOptions,
        call: RequestContext,
        *,
        replaces: bool = False,
        well_formed: bool = False,
        owners: FieldManagers | None = None,
    ) -> Record:
        """Change an object, or (by the target's subresource) only its status. ``replaces``: as PUT does.

        ``well_formed``: the edit is the server's own, and what it makes has the right types and no unknown fields.
        """
        writer = owners or UpdateOwnership(
            target.resource.schema, FieldManager(UPDATE, call.manager, target.resource.api_version, target.subresource)
        )
        for _ in range(UPDATE_TRIES):
            stored = self._store.latest(target.key)
            size = max(call.body_bytes, len(stored.value) if stored else 0) if call.body_bytes else 0
            steps = self._update(target, stored, edit, options, call, writer, replaces, well_formed)
            try:
                record = await self._commit(steps, size)
            except RevisionConflict:  # others have changed it, while the next state was computed beside them
                continue
            call.warnings[:] = dict.fromkeys(call.warnings)
            await self._update_served_resources(target, record)
            return record
        raise status.conflict(target.resource.plural, target.resource.group, target.name)

    def _update(
        self,
        target: Target,
        record: Record | None,
        edit: Edit,
        options: WriteOptions,
        call: RequestContext,
        owners: FieldManagers,
        replaces: bool,
        well_formed: bool,
    ) -> Steps[Awaitable[Record]]:
        resource = target.resource
        if record is None:
            raise status.not_found(resource.plural, resource.group, target.name)
        stored = record.value
        old, new = yield lambda: self._edited(target, stored, edit, options, call, replaces, well_formed)
        # The definition of a custom resource may have changed since it was stored: it is judged as a whole.
        judged = None if resource.custom else old
        self._check_identity(target, new["metadata"], old["metadata"], replaces=replaces)
        problems = list(metadata.check_update(new["metadata"], old["metadata"]))

        def completed() -> None:
            _complete(resource, new)
            if not resource.strategy.reads_cluster:
                resource.strategy.on_update(new, old, call)

        match target.subresource:
            case "":
                if "status" in resource.subresources:
                    copy_or_drop(new, old, "status")
                metadata.preserve_system_fields(new["metadata"], old["metadata"])
                yield completed
                if resource.strategy.reads_cluster:
                    resource.strategy.on_update(new, old, call)
            case "status":
                new = status_only(resource, new, old)
                yield lambda: resource.schema.default(new, judged)
                resource.strategy.on_status(new, old, call)
            case _:  # the edit is the server's own (a binding, say): it may touch what clients may not
                metadata.preserve_system_fields(new["metadata"], old["metadata"])

        def checked() -> bool:
            """Whether there is a change. Raises ``ApiError`` if it is invalid."""
            update_managed_fields(owners, old, new, call)
            if new == old and not problems:
                return False
            found = problems + new_problems(resource, validation_problems(resource, new, judged), old)
            if not target.subresource:
                found += resource.strategy.check(new)
                found += resource.strategy.check_update(new, old)
            elif target.subresource == "status":
                found += resource.strategy.check_status(new, old)
            raise_if_invalid(resource, target.name, found)
            return True

        if not (yield checked):
            return self._unchanged(record)
        if not target.subresource:
            if self._is_judged(resource):
                new = yield from self._admitted(resource, new, old, options, call, owners)
                if new == old:
                    return self._unchanged(record)
            before, after = spec_without_status(resource, old), spec_without_status(resource, new)
            if resource.strategy.has_generation and before != after:
                new["metadata"]["generation"] = old["metadata"].get("generation", 0) + 1
        self._convert_to_stored_version(resource, new)
        if options.dry_run:
            return dry_run_result(target.key, new)
        if self._may_be_removed(resource, new):
            return self._finish_delete(record, new)
        return self._store.put(target.key, encode_with_revision(new), expected=record.revision)

    def _edited(
        self,
        target: Target,
        stored: bytes,
        edit: Edit,
        options: WriteOptions,
        call: RequestContext,
        replaces: bool,
        well_formed: bool,
    ) -> tuple[Object, Object]:
        """The stored object, and what an edit makes of it: well-formed, and without unknown fields."""
        resource = target.resource
        old: Object = _decode(stored)
        old["apiVersion"] = resource.api_version
        new = edit(old)
        if well_formed:
            return old, new
        judged = None if resource.custom else old
        try:
            unknown = decode_object(new, target, judged)
            report_unknown_fields(unknown + resource.schema.prune(new, judged), options, call, resource)
        except status.ApiError as error:
            if replaces or error.code != HTTPStatus.BAD_REQUEST:
                raise
            raise status.unusable_patch(error.message) from None
        return old, new

    def _admitted(
        self,
        resource: Resource,
        new: Object,
        old: Object | None,
        options: WriteOptions,
        call: RequestContext,
        owners: FieldManagers | None,
    ) -> Steps[Object]:
        """The object that admission makes of a new one, with its owners."""

        def admitted() -> Object:
            found = new
            if self.admission and self._is_judged(resource):
                found = self.admission.admit(resource, new, old, call, dry_run=options.dry_run)
            if owners:
                update_managed_fields(owners, old or {}, found, call)
            return found

        if self._is_judged(resource) and resource.qualified not in getattr(self.admission, "judged_alone", ()):
            return admitted()  # against all writes before it, with none until it is stored
        found: Object = yield admitted
        return found

    def _is_judged(self, resource: Resource) -> bool:
        """Whether the admission hook judges objects of a resource, and may change them."""
        judged = getattr(self.admission, "judged", None)
        return self.admission is not None and (judged is None or resource.qualified in judged)

    async def _finish_delete(self, record: Record, new: Object) -> Record:
        """Remove an object without finalizers. Watchers see its last stored state, the caller the requested one."""
        last: Object = _decode(record.value)
        gone = await self._store.delete(record.key, encode_with_revision(last), expected=record.revision)
        return Record(record.key, gone.revision, encode_with_revision(new)(gone.revision))

    def _check_identity(self, target: Target, new: Object, old: Object, *, replaces: bool) -> None:
        resource = target.resource
        if not new.get("name"):
            raise name_missing(target)
        if new["name"] != target.name:
            raise name_mismatch(new["name"], target)
        if new.get("namespace", target.namespace) != target.namespace:
            raise status.bad_request(
                "the namespace of the provided object does not match the namespace sent on the request"
            )
        if replaces and new.get("uid", old["uid"]) != old["uid"]:
            detail = f"Precondition failed: UID in precondition: {new['uid']}, UID in object meta: {old['uid']}"
            raise status.conflict(resource.plural, resource.group, target.name, detail)
        revision = new.get("resourceVersion", "")
        if not revision and replaces and not resource.strategy.unconditional:
            problem = invalid("metadata.resourceVersion", 0, "must be specified for an update")
            raise status.invalid(resource.plural, resource.group, target.name, [problem])
        if revision not in {"", "0", old["resourceVersion"]}:
            raise status.conflict(resource.plural, resource.group, target.name)

    # ---- delete -------------------------------------------------------------------------------------------

    async def delete(self, target: Target, how: DeleteOptions, call: RequestContext) -> tuple[Record, bool]:
        """Delete an object, or start its deletion. Returns its last state, and whether it is removed."""
        try:
            write, gone = self._delete(target, how, call)
        except status.ApiError:
            await self._store.wait_for_commits()
            raise
        record = await write
        await self._update_served_resources(target, record)
        return record, gone

    def _delete(self, target: Target, how: DeleteOptions, call: RequestContext) -> tuple[Awaitable[Record], bool]:
        resource = target.resource
        record = self._store.latest(target.key)
        if record is None:
            raise status.not_found(resource.plural, resource.group, target.name)
        new: Object = _decode(record.value)
        about = new["metadata"]
        check_preconditions(target, how, about)
        if self.admission:
            self.admission.admit_deletion(resource, new, call, dry_run=how.dry_run)
        set_propagation_finalizers(about, how.propagation)
        grace = resource.strategy.grace(new, how.grace)
        self._mark_deleted(resource, new, grace, call)
        if grace == 0 and self._may_be_removed(resource, new):
            if how.dry_run:
                return dry_run_result(target.key, new), True
            return self._store.delete(target.key, encode_with_revision(new), expected=record.revision), True
        if how.dry_run:
            return dry_run_result(target.key, new), False
        if new == _decode(record.value):
            return self._unchanged(record), False
        return self._store.put(target.key, encode_with_revision(new), expected=record.revision), False

    def _mark_deleted(self, resource: Resource, new: Object, grace: int, call: RequestContext) -> None:
        """Set the deletion timestamp of an object. A later request can only shorten the grace period."""
        about = new["metadata"]
        before = about.get("deletionGracePeriodSeconds")
        if "deletionTimestamp" in about and (before is None or grace >= before):
            return
        if resource.strategy.has_generation and "deletionTimestamp" not in about:
            about["generation"] = about.get("generation", 0) + 1
        about["deletionTimestamp"] = stamp(call.moment + grace)
        about["deletionGracePeriodSeconds"] = grace
        resource.strategy.on_deletion(new, call)

    def _may_be_removed(self, resource: Resource, new: Object) -> bool:
        """Whether an object that is being deleted can be removed: no grace period and no finalizers are left."""
        about = new["metadata"]
        return (
            "deletionTimestamp" in about
            and not about.get("deletionGracePeriodSeconds")
            and not about.get("finalizers")
            and not resource.strategy.blocks_removal(new)
        )

    async def delete_collection(
        self, target: Target, chosen: ObjectSelection, how: DeleteOptions, call: RequestContext
    ) -> list[Record]:
        """Delete all selected objects of a collection, or none if one is rejected. Returns the deleted objects."""
        doomed: list[tuple[Target, Record]] = []
        for record in self._store.list(target.resource.prefix(target.namespace)).records:
            found: Object = _decode(record.value)
            about = found["metadata"]
            if chosen.matches(target.resource, found) and self._store.latest(record.key) is not None:
                doomed.append((Target(target.resource, about.get("namespace", ""), about["name"]), record))
        try:
            for one, _ in doomed:  # an error must come before the first deletion
                self._delete(one, dataclasses.replace(how, dry_run=True), call)
        except status.ApiError:
            await self._store.wait_for_commits()
            raise
        for written in await asyncio.gather(*[self._delete(one, how, call)[0] for one, _ in doomed]):
            await self._update_served_resources(target, written)
        return [record for _, record in doomed]

    # ---- disk ---------------------------------------------------------------------------------------------

    async def _commit(self, steps: Steps[Awaitable[Record]], size: int = 0) -> Record:
        """Decide, then wait for the disk. An error may depend on pending writes, so it waits for them too."""
        try:
            write = await self.side_thread.run_steps(steps) if size >= LARGE else run_steps_here(steps)
        except status.ApiError:
            await self._store.wait_for_commits()
            raise
        return await write

    async def _update_served_resources(self, target: Target, record: Record) -> None:
        """Add or remove the resources of a definition before its write is answered."""
        if target.resource.qualified != custom_resources.QUALIFIED or not record.revision:
            return
        definition: Object = _decode(record.value)
        if len(record.value) >= LARGE:  # its first object must not wait until the schema is compiled
            served = await self.side_thread.run(lambda: custom_resources.compiled_resources(definition))
        else:
            served = [*custom_resources.resources(definition)]
        stored = self._store.get(record.key)
        if stored is None:
            custom_resources.uninstall(self._registry, definition)
        elif stored.revision == record.revision:  # else a later write has brought its own
            custom_resources.install(self._registry, definition, served)

    async def _unchanged(self, record: Record) -> Record:
        await self._store.wait_for_commits()
        return record


def _complete(resource: Resource, new: Object) -> None:
    resource.schema.default(new)
    resource.strategy.prepare(new)


def replace(body: object) -> Edit:
    """The edit of a PUT: the body replaces the object."""
    return lambda _: dict(as_object(body))
