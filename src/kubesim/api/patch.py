"""PATCH requests: a patch in one of the formats that clients use, or server-side apply."""

from __future__ import annotations

from typing import Any

from kubesim.api import status
from kubesim.api.requests import Target, as_object, given_name, name_mismatch
from kubesim.api.writes import Edit
from kubesim.apply import APPLY, ApplyRequest, FieldManager
from kubesim.patches import PatchError, PatchFault, json_patch, merge_patch, strategic_merge
from kubesim.registry.registry import Object

JSON_PATCH = "application/json-patch+json"
MERGE_PATCH = "application/merge-patch+json"
STRATEGIC_PATCH = "application/strategic-merge-patch+json"
APPLY_PATCH = "application/apply-patch+yaml"


def patch_media_types(target: Target) -> tuple[str, ...]:
    """The media types of patches that a resource takes. Custom ones have no strategy to merge by."""
    general = (JSON_PATCH, MERGE_PATCH, APPLY_PATCH)
    return general if target.resource.custom else (*general, STRATEGIC_PATCH)


def parse_patch(target: Target, media: str, patch: Any) -> Edit:
    """The edit that a patch describes."""
    resource = target.resource

    def edit(old: Object) -> Object:
        try:
            if media == JSON_PATCH:
                new = json_patch(old, patch)
            elif media == MERGE_PATCH:
                new = merge_patch(old, _object(patch))
            else:
                new = strategic_merge(old, _object(patch), resource.schema)
        except PatchError as error:
            raise _refused(error, target) from None
        if not isinstance(new, dict):
            raise status.bad_request("the result of the patch is not an object")
        return new

    return edit


def parse_apply_patch(target: Target, body: Any, manager: str, *, force: bool) -> ApplyRequest:
    """Parse a server-side apply patch of an object or its status."""
    resource = target.resource
    applied = as_object(body)
    if (name := given_name(applied)) and name != target.name:
        raise name_mismatch(name, target)
    version, kind = applied.get("apiVersion") or "", applied.get("kind") or ""
    if not version or not kind:
        raise status.bad_request(f"invalid object type: {'' if '/' in version else '/'}{version}, Kind={kind}")
    about = applied.get("metadata")
    if isinstance(about, dict) and about.get("managedFields"):
        raise status.bad_request("metadata.managedFields must be nil")
    kept = _without_nulls(applied)
    if target.subresource:
        kept = {name: kept[name] for name in ("apiVersion", "kind", "metadata", target.subresource) if name in kept}
    elif "status" in resource.subresources:
        kept.pop("status", None)
    return ApplyRequest(
        resource.schema, FieldManager(APPLY, manager, resource.api_version, target.subresource), kept, force=force
    )


def _without_nulls(value: Any) -> Any:
    """What is applied, without what it leaves open."""
    if isinstance(value, dict):
        return {name: _without_nulls(part) for name, part in value.items() if part is not None}
    return [_without_nulls(item) for item in value] if isinstance(value, list) else value


def _object(patch: Any) -> Object:
    if not isinstance(patch, dict):
        raise status.bad_request("the patch is not an object")
    return patch


def _refused(error: PatchError, target: Target) -> status.ApiError:
    match error.fault:
        case PatchFault.TOO_LARGE:
            return status.too_large(str(error))
        case PatchFault.UNFIT:
            return status.ApiError(
                422, "Invalid", f"the server rejected our request due to an error in our request: {error}"
            )
    return status.bad_request(str(error))
