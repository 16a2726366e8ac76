"""The verbs that write: create, update, patch, delete.

Each verb reads the newest state (uncommitted writes included), computes the next state and hands it to the store,
without an ``await`` in between. Nothing else runs meanwhile, so no write needs a retry: of two writers, the second sees
the result of the first. Then the verb waits for the disk. No response, not even an error, is sent before all writes
that it depends on are on disk.
"""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Awaitable, Callable
from http import HTTPStatus

import msgspec

from kubesim.api import metadata, status
from kubesim.api.admission import AdmissionHook
from kubesim.api.field_errors import FieldProblem, invalid
from kubesim.api.quota_ledger import QuotaLedger
from kubesim.api.request_context import RequestContext
from kubesim.api.requests import DeleteOptions, ObjectSelection, Target, WriteOptions, as_object, name_mismatch
from kubesim.apply import UPDATE, FieldManager, FieldManagers, UpdateOwnership
from kubesim.clock import stamp
from kubesim.kinds import custom_resources
from kubesim.registry.registry import Object, Resource, ResourceRegistry
from kubesim.storage import Record, Store

Edit = Callable[[Object], Object]
"""From the current object to the desired one. It must not modify its argument."""

NAME_TRIES = 8  # attempts to find a free generated name
ORPHAN, FOREGROUND = "orphan", "foregroundDeletion"

_encode, _decode = msgspec.json.Encoder().encode, msgspec.json.Decoder().decode


class ObjectWriter:
    """The verbs that write."""

    def __init__(self, store: Store, registry: ResourceRegistry) -> None:
        self._store = store
        self._registry = registry
        self.quotas = QuotaLedger(store, registry)
        self.admission: AdmissionHook | None = None
        """The admission hook, if the cluster has one; it takes the place of webhooks."""

    # ---- create -------------------------------------------------------------------------------------------

    async def create(
        self,
        aim: Target,
        new: Object,
        options: WriteOptions,
        call: RequestContext,
        *,
        owners: FieldManagers | None = None,
    ) -> Record:
        """Create an object in a collection. ``new`` is modified; ``owners`` tracks field ownership, if given."""
        record = await self._commit(lambda: self._create(aim, new, options, call, owners))
        self._update_served_resources(aim, record)
        return record

    def _create(
        self, aim: Target, new: Object, options: WriteOptions, call: RequestContext, owners: FieldManagers | None
    ) -> Awaitable[Record]:
        resource = aim.resource
        unknown = _decode_metadata(new, aim)
        about = new["metadata"]
        if about.get("resourceVersion"):
            raise status.bad_request("resourceVersion should not be set on objects to be created")
        _set_namespace(about, aim)
        self._check_namespace(aim, about, call)
        _report_unknown_fields(unknown + resource.schema.prune(new), options, call, resource)
        if resource.custom and "status" in resource.subresources:
            new.pop("status", None)  # built-in kinds differ: their strategies decide
        metadata.fill_system_fields(about, call.now, generation=resource.strategy.has_generation)
        resource.schema.default(new)
        resource.strategy.on_create(new, call)
        if "get" not in resource.verbs:  # a question: it is answered, not kept
            _raise_if_invalid(resource, "", [*resource.schema.validate(new), *resource.strategy.check(new)])
            new["metadata"] = {}
            return _dry_run_result("", new)
        problems = [*_validation_problems(resource, new), *resource.strategy.check(new)]
        _raise_if_invalid(resource, about.get("name", ""), problems)
        if self.admission:
            new = self.admission.admit(resource, new, None, call, dry_run=options.dry_run)
            about = new["metadata"]
        self.quotas.admit(resource, aim.namespace, new)
        key = resource.key(aim.namespace, about["name"])
        for _ in range(NAME_TRIES):
            there = self._store.latest(key)
            if there is None:
                break
            if not about.get("generateName"):
                leaving = "deletionTimestamp" in _decode(there.value)["metadata"]
                raise status.already_exists(resource.plural, resource.group, about["name"], leaving=leaving)
            about["name"] = metadata.generate_name(about["generateName"])
            key = resource.key(aim.namespace, about["name"])
        else:
            raise status.already_exists(resource.plural, resource.group, about["name"])
        if owners:
            _update_managed_fields(owners, {}, new, call)
        self._convert_to_stored_version(resource, new)
        if options.dry_run:
            return _dry_run_result(key, new)
        return self._store.put(key, _encode_with_revision(new), expected=0)

    def _convert_to_stored_version(self, resource: Resource, new: Object) -> None:
        """Bring an object into the version in which it is stored, which may know fewer fields."""
        stored = self._registry.stored(resource.qualified)
        if stored is not None and stored is not resource:
            new["apiVersion"] = stored.api_version
            stored.schema.prune(new)

    def _check_namespace(self, aim: Target, about: Object, call: RequestContext) -> None:
        if not aim.resource.namespaced:
            return
        namespace = call.find("namespaces", "", aim.namespace)
        if namespace is None:
            raise status.not_found("namespaces", "", aim.namespace)
        if "deletionTimestamp" in namespace["metadata"]:
            cause = f"namespace {aim.namespace} is being terminated"
            raise status.forbidden(
                aim.resource.plural,
                aim.resource.group,
                about.get("name", ""),
                f"unable to create new content in namespace {aim.namespace} because it is being terminated",
                [{"reason": "NamespaceTerminating", "message": cause, "field": "metadata.namespace"}],
            )

    # ---- update and patch ---------------------------------------------------------------------------------

    async def update(
        self,
        aim: Target,
        edit: Edit,
        options: WriteOptions,
        call: RequestContext,
        *,
        replaces: bool = False,
        owners: FieldManagers | None = None,
    ) -> Record:
        """Change an object, or (by the target's subresource) only its status. ``replaces``: as PUT does."""
        writer = owners or UpdateOwnership(
            aim.resource.schema, FieldManager(UPDATE, call.manager, aim.resource.api_version, aim.subresource)
        )
        record = await self._commit(lambda: self._update(aim, edit, options, call, writer, replaces=replaces))
        self._update_served_resources(aim, record)
        return record

    def _update(
        self,
        aim: Target,
        edit: Edit,
        options: WriteOptions,
        call: RequestContext,
        owners: FieldManagers,
        *,
        replaces: bool,
    ) -> Awaitable[Record]:
        resource = aim.resource
        record = self._store.latest(aim.key)
        if record is None:
            raise status.not_found(resource.plural, resource.group, aim.name)
        old: Object = _decode(record.value)
        old["apiVersion"] = resource.api_version
        new = edit(old)
        try:
            unknown = _decode_metadata(new, aim)
            _report_unknown_fields(unknown + resource.schema.prune(new), options, call, resource)
        except status.ApiError as error:
            if replaces or error.code != HTTPStatus.BAD_REQUEST:
                raise
            raise status.unusable_patch(error.message) from None
        self._check_identity(aim, new["metadata"], old["metadata"], replaces=replaces)
        problems = list(metadata.check_update(new["metadata"], old["metadata"]))
        match aim.subresource:
            case "":
                if "status" in resource.subresources:
                    _keep(new, old, "status")
                metadata.preserve_system_fields(new["metadata"], old["metadata"])
                resource.schema.default(new)
                resource.strategy.on_update(new, old, call)
            case "status":
                new = _status_only(resource, new, old)
                resource.schema.default(new)
                resource.strategy.on_status(new, old, call)
            case _:  # the edit is the server's own (a binding, say): it may touch what clients may not
                metadata.preserve_system_fields(new["metadata"], old["metadata"])
        _update_managed_fields(owners, old, new, call)
        if new == old and not problems:
            return self._unchanged(record)
        problems += _validation_problems(resource, new)
        if not aim.subresource:
            problems += resource.strategy.check(new)
            problems += resource.strategy.check_update(new, old)
        elif aim.subresource == "status":
            problems += resource.strategy.check_status(new, old)
        _raise_if_invalid(resource, aim.name, problems)
        if not aim.subresource:
            if self.admission:
                new = self.admission.admit(resource, new, old, call, dry_run=options.dry_run)
                _update_managed_fields(owners, old, new, call)
                if new == old:
                    return self._unchanged(record)
            before, after = _spec_without_status(resource, old), _spec_without_status(resource, new)
            if resource.strategy.has_generation and before != after:
                new["metadata"]["generation"] = old["metadata"].get("generation", 0) + 1
        self._convert_to_stored_version(resource, new)
        if options.dry_run:
            return _dry_run_result(aim.key, new)
        if self._may_be_removed(resource, new):
            return self._finish_delete(record, new)
        return self._store.put(aim.key, _encode_with_revision(new), expected=record.revision)

    async def _finish_delete(self, record: Record, new: Object) -> Record:
        """Remove an object without finalizers. Watchers see its last stored state, the caller the requested one."""
        last: Object = _decode(record.value)
        gone = await self._store.delete(record.key, _encode_with_revision(last), expected=record.revision)
        return Record(record.key, gone.revision, _encode_with_revision(new)(gone.revision))

    def _check_identity(self, aim: Target, new: Object, old: Object, *, replaces: bool) -> None:
        resource = aim.resource
        if new.get("name", aim.name) != aim.name:
            raise name_mismatch(new["name"], aim)
        if new.get("namespace", aim.namespace) != aim.namespace:
            raise status.bad_request(
                "the namespace of the provided object does not match the namespace sent on the request"
            )
        if replaces and new.get("uid", old["uid"]) != old["uid"]:
            detail = f"Precondition failed: UID in precondition: {new['uid']}, UID in object meta: {old['uid']}"
            raise status.conflict(resource.plural, resource.group, aim.name, detail)
        revision = new.get("resourceVersion", "")
        if not revision and replaces and not resource.strategy.unconditional:
            problem = invalid("metadata.resourceVersion", 0, "must be specified for an update")
            raise status.invalid(resource.plural, resource.group, aim.name, [problem])
        if revision not in {"", "0", old["resourceVersion"]}:
            raise status.conflict(resource.plural, resource.group, aim.name)

    # ---- delete -------------------------------------------------------------------------------------------

    async def delete(self, aim: Target, how: DeleteOptions, call: RequestContext) -> tuple[Record, bool]:
        """Delete an object, or start its deletion. Returns its last state, and whether it is removed."""
        gone = False

        def begin() -> Awaitable[Record]:
            nonlocal gone
            write, gone = self._delete(aim, how, call)
            return write

        record = await self._commit(begin)
        self._update_served_resources(aim, record)
        return record, gone

    def _delete(self, aim: Target, how: DeleteOptions, call: RequestContext) -> tuple[Awaitable[Record], bool]:
        resource = aim.resource
        record = self._store.latest(aim.key)
        if record is None:
            raise status.not_found(resource.plural, resource.group, aim.name)
        new: Object = _decode(record.value)
        about = new["metadata"]
        check_preconditions(aim, how, about)
        if self.admission:
            self.admission.admit_deletion(resource, new, call, dry_run=how.dry_run)
        _set_propagation_finalizers(about, how.propagation)
        grace = resource.strategy.grace(new, how.grace)
        self._mark_deleted(resource, new, grace, call)
        if grace == 0 and self._may_be_removed(resource, new):
            if how.dry_run:
                return _dry_run_result(aim.key, new), True
            return self._store.delete(aim.key, _encode_with_revision(new), expected=record.revision), True
        if how.dry_run:
            return _dry_run_result(aim.key, new), False
        if new == _decode(record.value):
            return self._unchanged(record), False
        return self._store.put(aim.key, _encode_with_revision(new), expected=record.revision), False

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
        self, aim: Target, chosen: ObjectSelection, how: DeleteOptions, call: RequestContext
    ) -> list[Record]:
        """Delete all selected objects of a collection, or none if one is rejected. Returns the deleted objects."""
        doomed: list[tuple[Target, Record]] = []
        for record in self._store.list(aim.resource.prefix(aim.namespace)).records:
            found: Object = _decode(record.value)
            about = found["metadata"]
            if chosen.matches(aim.resource, found) and self._store.latest(record.key) is not None:
                doomed.append((Target(aim.resource, about.get("namespace", ""), about["name"]), record))
        try:
            for one, _ in doomed:  # an error must come before the first deletion
                self._delete(one, dataclasses.replace(how, dry_run=True), call)
        except status.ApiError:
            await self._store.wait_for_commits()
            raise
        for written in await asyncio.gather(*[self._delete(one, how, call)[0] for one, _ in doomed]):
            self._update_served_resources(aim, written)
        return [record for _, record in doomed]

    # ---- disk ---------------------------------------------------------------------------------------------

    async def _commit(self, decide: Callable[[], Awaitable[Record]]) -> Record:
        """Decide, then wait for the disk. An error may depend on pending writes, so it waits for them too."""
        try:
            write = decide()
        except status.ApiError:
            await self._store.wait_for_commits()
            raise
        return await write

    def _update_served_resources(self, aim: Target, record: Record) -> None:
        """Add or remove the resources of a definition before its write is answered."""
        if aim.resource.qualified == custom_resources.QUALIFIED and record.revision:
            if self._store.get(record.key) is None:
                custom_resources.uninstall(self._registry, _decode(record.value))
            else:
                custom_resources.install(self._registry, _decode(record.value))

    async def _unchanged(self, record: Record) -> Record:
        await self._store.wait_for_commits()
        return record


# ---- parts ------------------------------------------------------------------------------------------------


def _update_managed_fields(owners: FieldManagers, old: Object, new: Object, call: RequestContext) -> None:
    """Update ``managedFields``."""
    entries = owners.entries(old, new, call.now)
    if entries:
        new["metadata"]["managedFields"] = entries
    else:
        new["metadata"].pop("managedFields", None)


def _set_type_meta(new: Object, resource: Resource) -> None:
    """Check that kind and version are those of the collection; built-in kinds may omit them."""
    kind, version = new.get("kind"), new.get("apiVersion")
    if resource.custom:
        if not kind:
            raise status.bad_request("Object 'Kind' is missing in the body of the request")
        if not version:
            raise status.bad_request("Object 'apiVersion' is missing in the body of the request")
    if (version or resource.api_version) != resource.api_version:
        raise status.bad_request(
            f"the API version in the data ({version}) does not match the expected API version ({resource.api_version})"
        )
    if (kind or resource.kind) != resource.kind:
        if resource.custom:
            name = new["metadata"].get("name", "")
            problem = invalid("kind", kind, f"must be {resource.kind}")
            raise status.invalid(str(kind), resource.group, name, [problem])
        raise status.bad_request(f"{kind} in version {resource.version!r} cannot be handled as a {resource.kind}")
    new["kind"], new["apiVersion"] = resource.kind, resource.api_version


def _decode_metadata(new: Object, aim: Target) -> list[str]:
    """Check kind and JSON types of an object, and prune its metadata. Returns the unknown fields."""
    resource = aim.resource
    new["metadata"], unknown, fault = metadata.decode_metadata(new.get("metadata"))
    _set_type_meta(new, resource)
    # Wrong types make a built-in kind undecodable; for a custom one they are reported with all other problems.
    mistyped = [] if resource.custom else resource.schema.mistyped(new)
    if fault or mistyped:
        detail = fault or "; ".join(str(problem) for problem in mistyped)
        raise status.bad_request(
            f'{resource.kind} in version "{resource.version}" cannot be handled as a {resource.kind}: {detail}'
        )
    return unknown


def _set_namespace(about: Object, aim: Target) -> None:
    if not aim.resource.namespaced:
        about.pop("namespace", None)
        return
    if about.get("namespace", aim.namespace) != aim.namespace:
        raise status.bad_request(
            "the namespace of the provided object does not match the namespace sent on the request"
        )
    about["namespace"] = aim.namespace


def _report_unknown_fields(unknown: list[str], options: WriteOptions, call: RequestContext, resource: Resource) -> None:
    if options.validation == "Ignore" or not (unknown or call.duplicate_fields):
        return
    texts = [f'duplicate field "{path}"' for path in call.duplicate_fields] + [
        f'unknown field "{path}"' for path in unknown
    ]
    if options.validation == "Strict":
        detail = f"strict decoding error: {', '.join(texts)}"
        raise status.bad_request(
            f'{resource.kind} in version "{resource.version}" cannot be handled as a {resource.kind}: {detail}'
        )
    call.warnings += texts


def _status_only(resource: Resource, new: Object, old: Object) -> Object:
    """The old object with the new status. Built-in kinds also take labels, annotations and finalizers from it."""
    merged = dict(old)
    _keep(merged, new, "status")
    about = dict(old["metadata"])
    if not resource.custom:
        for part in ("labels", "annotations", "finalizers"):
            _keep(about, new["metadata"], part)
    merged["metadata"] = about
    return merged


def _keep(new: Object, old: Object, part: str) -> None:
    if part in old:
        new[part] = old[part]
    else:
        new.pop(part, None)


def _spec_without_status(resource: Resource, found: Object) -> Object:
    """The part of an object whose changes increase the generation: no metadata, and no status subresource."""
    apart = {"metadata", "status"} if "status" in resource.subresources else {"metadata"}
    body = {key: value for key, value in found.items() if key not in apart}
    if resource.strategy.counts_annotations:
        body["metadata"] = found["metadata"].get("annotations")
    return body


def _validation_problems(resource: Resource, new: Object) -> list[FieldProblem]:
    """The problems of an object's metadata and schema."""
    return [*metadata.check(new["metadata"], faults=resource.strategy.name_faults), *resource.schema.validate(new)]


def _raise_if_invalid(resource: Resource, name: str, problems: list[FieldProblem]) -> None:
    if problems:
        raise status.invalid(resource.kind, resource.group, name, problems)


def check_preconditions(aim: Target, how: DeleteOptions, about: Object) -> None:
    """Check the preconditions (uid and resourceVersion) of a deletion."""
    for words, wanted, found, happened in (
        ("UID", how.uid, about["uid"], "deleted and then recreated"),
        ("ResourceVersion", how.revision, about["resourceVersion"], "modified"),
    ):
        if wanted and wanted != found:
            detail = (
                f"the {words} in the precondition ({wanted}) does not match the {words} in record ({found}). "
                f"The object might have been {happened}"
            )
            raise status.conflict(aim.resource.kind, aim.resource.group, aim.name, detail)


def _set_propagation_finalizers(about: Object, propagation: str) -> None:
    """Record the propagation policy as a finalizer: orphan, or foreground deletion."""
    if not propagation:
        return
    keep = [f for f in about.get("finalizers", []) if f not in {ORPHAN, FOREGROUND}]
    extra = {"Orphan": [ORPHAN], "Foreground": [FOREGROUND]}.get(propagation, [])
    if keep or extra:
        about["finalizers"] = keep + extra
    else:
        about.pop("finalizers", None)


def _encode_with_revision(new: Object) -> Callable[[int], bytes]:
    def encode(revision: int) -> bytes:
        new["metadata"]["resourceVersion"] = str(revision)
        return _encode(new)

    return encode


def _dry_run_result(key: str, new: Object) -> Awaitable[Record]:
    """The result of a dry run: the object that would have been stored."""
    shown: asyncio.Future[Record] = asyncio.get_running_loop().create_future()
    shown.set_result(Record(key, 0, _encode(new)))
    return shown


def replace(body: object) -> Edit:
    """The edit of a PUT: the body replaces the object."""
    return lambda _: dict(as_object(body))
