"""PATCH: an edit that is written down, in one of the three forms that clients use."""

from __future__ import annotations

from typing import Any

from pumice.apiserver import status
from pumice.apiserver.catalogue import Object
from pumice.apiserver.patches import PatchError, PatchFault, json_patch, merge_patch, strategic_merge
from pumice.apiserver.requests import Target
from pumice.apiserver.writes import Edit

JSON_PATCH = "application/json-patch+json"
MERGE_PATCH = "application/merge-patch+json"
STRATEGIC_PATCH = "application/strategic-merge-patch+json"


def forms(aim: Target) -> tuple[str, ...]:
    """The media types of patches that a resource takes. Custom ones have no strategy to merge by."""
    return (JSON_PATCH, MERGE_PATCH) if aim.resource.custom else (JSON_PATCH, MERGE_PATCH, STRATEGIC_PATCH)


def patched(aim: Target, media: str, patch: Any) -> Edit:
    """The edit that a patch describes."""
    resource = aim.resource

    def edit(old: Object) -> Object:
        try:
            if media == JSON_PATCH:
                new = json_patch(old, patch)
            elif media == MERGE_PATCH:
                new = merge_patch(old, _object(patch))
            else:
                new = strategic_merge(old, _object(patch), resource.schema)
        except PatchError as error:
            raise _refused(error, aim) from None
        if not isinstance(new, dict):
            raise status.bad_request("the result of the patch is not an object")
        return new

    return edit


def _object(patch: Any) -> Object:
    if not isinstance(patch, dict):
        raise status.bad_request("the patch is not an object")
    return patch


def _refused(error: PatchError, aim: Target) -> status.ApiError:
    match error.fault:
        case PatchFault.TOO_LARGE:
            return status.too_large(str(error))
        case PatchFault.UNFIT:
            return status.ApiError(
                422, "Invalid", f"the server rejected our request due to an error in our request: {error}"
            )
    return status.bad_request(str(error))
