"""The steps of a write that need no store: decoding, validation, field ownership, and encoding."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import msgspec

from kubesim.api import metadata, status
from kubesim.api.field_errors import FieldProblem, invalid
from kubesim.api.request_context import RequestContext
from kubesim.api.requests import DeleteOptions, Target, WriteOptions
from kubesim.apply import FieldManagers
from kubesim.registry.registry import Object, Resource
from kubesim.storage import Record

ORPHAN, FOREGROUND = "orphan", "foregroundDeletion"

_encode = msgspec.json.Encoder().encode


def update_managed_fields(owners: FieldManagers, old: Object, new: Object, call: RequestContext) -> None:
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


def decode_object(new: Object, target: Target, judged: Object | None = None) -> list[str]:
    """Check kind and JSON types of an object, and prune its metadata. Returns the unknown fields.

    Parts that the object shares with ``judged`` are known to be well-formed.
    """
    resource = target.resource
    new["metadata"], unknown, fault = metadata.decode_metadata(new.get("metadata"))
    _set_type_meta(new, resource)
    # Wrong types make a built-in kind undecodable; for a custom one they are reported with all other problems.
    mistyped = [] if resource.custom else resource.schema.mistyped(new, judged)
    if fault or mistyped:
        detail = fault or "; ".join(str(problem) for problem in mistyped)
        raise status.bad_request(
            f'{resource.kind} in version "{resource.version}" cannot be handled as a {resource.kind}: {detail}'
        )
    return unknown


def set_namespace(about: Object, target: Target) -> None:
    """Set the namespace of the path, or reject another one."""
    if not target.resource.namespaced:
        about.pop("namespace", None)
        return
    if about.get("namespace", target.namespace) != target.namespace:
        raise status.bad_request(
            "the namespace of the provided object does not match the namespace sent on the request"
        )
    about["namespace"] = target.namespace


def report_unknown_fields(unknown: list[str], options: WriteOptions, call: RequestContext, resource: Resource) -> None:
    """Warn of unknown and duplicate fields, or reject them, as ``fieldValidation`` demands."""
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


def status_only(resource: Resource, new: Object, old: Object) -> Object:
    """The old object with the new status. Built-in kinds also take labels, annotations and finalizers from it."""
    merged = dict(old)
    copy_or_drop(merged, new, "status")
    about = dict(old["metadata"])
    if not resource.custom:
        for part in ("labels", "annotations", "finalizers"):
            copy_or_drop(about, new["metadata"], part)
    merged["metadata"] = about
    return merged


def copy_or_drop(new: Object, old: Object, part: str) -> None:
    """Copy a field from ``old``, or remove it if ``old`` does not have it."""
    if part in old:
        new[part] = old[part]
    else:
        new.pop(part, None)


def spec_without_status(resource: Resource, found: Object) -> Object:
    """The part of an object whose changes increase the generation: no metadata, and no status subresource."""
    apart = {"metadata", "status"} if "status" in resource.subresources else {"metadata"}
    body = {key: value for key, value in found.items() if key not in apart}
    if resource.strategy.counts_annotations:
        body["metadata"] = found["metadata"].get("annotations")
    return body


def validation_problems(resource: Resource, new: Object, judged: Object | None = None) -> list[FieldProblem]:
    """The problems of an object's metadata and schema. Parts that it shares with ``judged`` have none."""
    known = judged["metadata"] if judged is not None else None
    problems = list(metadata.check(new["metadata"], known, faults=resource.strategy.name_faults))
    return problems + resource.schema.validate(new, judged)


def new_problems(resource: Resource, problems: list[FieldProblem], old: Object) -> list[FieldProblem]:
    """The problems that an update brings, without those that the stored custom object has already.

    A definition that was tightened must not keep other fields from changing, nor finalizers from being removed.
    """
    if not problems or not resource.custom:
        return problems
    known = validation_problems(resource, old)
    return [problem for problem in problems if problem not in known]


def raise_if_invalid(resource: Resource, name: str, problems: list[FieldProblem]) -> None:
    """Raise ``ApiError`` (422) if there are problems."""
    if problems:
        raise status.invalid(resource.kind, resource.group, name, problems)


def check_preconditions(target: Target, how: DeleteOptions, about: Object) -> None:
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
            raise status.conflict(target.resource.kind, target.resource.group, target.name, detail)


def set_propagation_finalizers(about: Object, propagation: str) -> None:
    """Record the propagation policy as a finalizer: orphan, or foreground deletion."""
    if not propagation:
        return
    keep = [f for f in about.get("finalizers", []) if f not in {ORPHAN, FOREGROUND}]
    extra = {"Orphan": [ORPHAN], "Foreground": [FOREGROUND]}.get(propagation, [])
    if keep or extra:
        about["finalizers"] = keep + extra
    else:
        about.pop("finalizers", None)


def encode_with_revision(new: Object) -> Callable[[int], bytes]:
    """An encoder that writes the revision into the metadata of an object."""

    def encode(revision: int) -> bytes:
        new["metadata"]["resourceVersion"] = str(revision)
        return _encode(new)

    return encode


def dry_run_result(key: str, new: Object) -> Awaitable[Record]:
    """The result of a dry run: the object that would have been stored."""
    shown: asyncio.Future[Record] = asyncio.get_running_loop().create_future()
    shown.set_result(Record(key, 0, _encode(new)))
    return shown
