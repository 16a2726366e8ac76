"""API errors: a ``Status`` with code, reason, message and details.

Each function stands for one reason. Code and message equal those of kube-apiserver, because clients depend on them:
every controller acts on ``AlreadyExists``, ``Conflict`` and ``Expired``.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from kubesim.api.field_errors import FieldProblem


class ApiError(Exception):
    """An API error, with its Status."""

    def __init__(
        self,
        code: int,
        reason: str,
        message: str,
        details: dict[str, Any] | None = None,
        headers: dict[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.code = code
        self.reason = reason
        self.message = message
        self.details = details
        self.headers = headers or {}
        self.token = ""  # with which an expired list may go on

    def status(self) -> dict[str, Any]:
        """The Status object to answer with."""
        status: dict[str, Any] = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {"continue": self.token} if self.token else {},
            "status": "Failure",
            "message": self.message,
        }
        if self.reason:
            status["reason"] = self.reason
        if self.details is not None:
            status["details"] = self.details
        status["code"] = self.code
        return status


def success(details: dict[str, Any] | None = None, code: int = 200) -> dict[str, Any]:
    """The Status of a successful request."""
    status: dict[str, Any] = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"}
    if details:
        status["details"] = details
    elif code != 200:
        status["code"] = code
    return status


def qualified(resource: str, group: str) -> str:
    """``pods``, or ``queues.scheduling.volcano.sh`` outside the core group."""
    return f"{resource}.{group}" if group else resource


def _about(resource: str, group: str, name: str) -> dict[str, Any]:
    details: dict[str, Any] = {}
    if name:
        details["name"] = name
    if group:
        details["group"] = group
    details["kind"] = resource
    return details


def bad_request(message: str) -> ApiError:
    """The request itself cannot be understood."""
    return ApiError(400, "BadRequest", message)


def unauthorized() -> ApiError:
    """The request is not authenticated."""
    return ApiError(401, "Unauthorized", "Unauthorized")


def page_not_found() -> ApiError:
    """No such resource is served."""
    # The empty details are there for clients that look into them without asking whether there are any.
    return ApiError(404, "NotFound", "the server could not find the requested resource", {})


def not_found(resource: str, group: str, name: str) -> ApiError:
    """The object is not there."""
    return ApiError(404, "NotFound", f'{qualified(resource, group)} "{name}" not found', _about(resource, group, name))


def method_not_allowed(message: str = "the server does not allow this method on the requested resource") -> ApiError:
    """The resource is there, the verb is not."""
    return ApiError(405, "MethodNotAllowed", message)


def not_acceptable(offered: Iterable[str]) -> ApiError:
    """The client wants a format that is not spoken."""
    return ApiError(406, "NotAcceptable", "only the following media types are accepted: " + ", ".join(offered))


def already_exists(resource: str, group: str, name: str, *, leaving: bool = False) -> ApiError:
    """An object of that name is there already, or still."""
    message = f'{qualified(resource, group)} "{name}" already exists'
    if leaving:
        message = f"object is being deleted: {message}"
    return ApiError(409, "AlreadyExists", message, _about(resource, group, name))


CHANGED = "the object has been modified; please apply your changes to the latest version and try again"


def conflict(resource: str, group: str, name: str, detail: str = CHANGED) -> ApiError:
    """The object is not what the request believes it to be."""
    what = qualified(resource, group)
    message = f'Operation cannot be fulfilled on {what} "{name}": {detail}'
    return ApiError(409, "Conflict", message, _about(resource, group, name))


def expired(message: str) -> ApiError:
    """The revision asked for has been compacted away."""
    return ApiError(410, "Expired", message)


def too_new(revision: int, newest: int) -> ApiError:
    """The revision is in the future."""
    details = {
        "causes": [{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}],
        "retryAfterSeconds": 1,
    }
    message = f"Timeout: Too large resource version: {revision}, current: {newest}"
    return ApiError(504, "Timeout", message, details, {"Retry-After": "1"})


def too_large(message: str) -> ApiError:
    """The body is larger than the server takes."""
    return ApiError(413, "RequestEntityTooLarge", message)


def unsupported_media_type(offered: Iterable[str]) -> ApiError:
    """The body is in a format that is not spoken."""
    return ApiError(
        415,
        "UnsupportedMediaType",
        "the body of the request was in an unknown format - accepted media types include: " + ", ".join(offered),
    )


def unusable_patch(detail: str) -> ApiError:
    """The patched object is not valid for its kind."""
    said = f"Invalid value: {detail}"
    causes = [{"reason": "FieldValueInvalid", "message": said, "field": "patch"}]
    return ApiError(422, "Invalid", f' "" is invalid: patch: {said}', {"causes": causes})


def invalid(kind: str, group: str, name: str, problems: Iterable[FieldProblem]) -> ApiError:
    """The object breaks rules of its kind; one cause for each."""
    found = list(dict.fromkeys((p.field, p.fault, p.body) for p in problems))
    texts = [f"{field}: {body}" for field, _, body in found]
    details = _about(kind, group, name)
    details["causes"] = [{"reason": fault.value[0], "message": body, "field": field} for field, fault, body in found]
    listed = texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"
    return ApiError(422, "Invalid", f'{qualified(kind, group)} "{name}" is invalid: {listed}', details)


def forbidden(
    resource: str, group: str, name: str, detail: str, causes: list[dict[str, str]] | None = None
) -> ApiError:
    """The request is understood and not allowed."""
    what = qualified(resource, group)
    message = f'{what} "{name}" is forbidden: {detail}' if name else f"{what} is forbidden: {detail}"
    details = _about(resource, group, name) | ({"causes": causes} if causes else {})
    return ApiError(403, "Forbidden", message, details)


def too_many_requests(message: str, seconds: int, details: dict[str, Any] | None = None) -> ApiError:
    """Too many requests: retry after this many seconds."""
    found = {**(details or {}), "retryAfterSeconds": seconds} if seconds else (details or {})
    return ApiError(429, "TooManyRequests", message, found or None, {"Retry-After": str(seconds)} if seconds else {})


def internal(message: str) -> ApiError:
    """An internal error."""
    causes = [{"message": message}]
    return ApiError(500, "InternalError", f"Internal error occurred: {message}", {"causes": causes})
