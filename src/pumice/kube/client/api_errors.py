"""Errors of calls to a Kubernetes API: an error Status, no response, or no credentials."""

from __future__ import annotations

import json
from typing import Any


class ApiError(Exception):
    """The API returned an error: code, reason, message and details of its Status."""

    def __init__(
        self,
        code: int,
        reason: str,
        message: str,
        *,
        details: dict[str, Any] | None = None,
        retry_after: float | None = None,
    ) -> None:
        super().__init__(message)
        self.code = code
        self.reason = reason
        self.message = message
        self.details = details or {}
        self.retry_after = retry_after
        """The ``Retry-After`` of the response in seconds; None without one."""

    @property
    def not_found(self) -> bool:
        """There is no such object (or no such resource)."""
        return self.code == 404

    @property
    def forbidden(self) -> bool:
        """The user has no right to this (403)."""
        return self.code == 403

    @property
    def already_exists(self) -> bool:
        """An object of that name is there already."""
        return self.code == 409 and self.reason == "AlreadyExists"

    @property
    def conflict(self) -> bool:
        """The object differs from what the request expects (409)."""
        return self.code == 409 and self.reason != "AlreadyExists"

    @property
    def rejected(self) -> bool:
        """Validation, admission or a quota rejects the object (400, 403, 422)."""
        return self.code in (400, 403, 422)

    @property
    def expired(self) -> bool:
        """The requested resourceVersion is too old (410): list again."""
        return self.code == 410


class UnreachableError(Exception):
    """There is no server at the address, or the response broke off."""

    def __init__(self, message: str, *, sent: bool = True) -> None:
        super().__init__(message)
        self.sent = sent
        """Whether the request may have arrived, and so been carried out."""


class CredentialError(UnreachableError):
    """A request was not sent, because its credentials could not be obtained; the message says why."""

    def __init__(self, message: str) -> None:
        super().__init__(message, sent=False)


def retry_after_seconds(error: Exception) -> float:
    """The ``Retry-After`` of an error in seconds; 0 without one."""
    return (error.retry_after or 0.0) if isinstance(error, ApiError) else 0.0


def error_from_response(code: int, phrase: str, content: bytes, retry_after: str = "") -> ApiError:
    """The error for a response. Proxies between client and API may send any body."""
    try:
        status = json.loads(content)
    except ValueError:  # UnicodeDecodeError is one
        status = None
    if not isinstance(status, dict) or status.get("kind") != "Status":
        return ApiError(code, "", f"{code} {phrase}".strip(), retry_after=_seconds(retry_after))
    return error_from_status(status, code=code, retry_after=retry_after)


def error_from_status(status: dict[str, Any], *, code: int = 0, retry_after: str = "") -> ApiError:
    """The error that a Status stands for."""
    code = code or status.get("code") or 500
    reason, message = str(status.get("reason") or ""), str(status.get("message") or "")
    details = status.get("details")
    details = details if isinstance(details, dict) else {}
    wait = _seconds(retry_after or str(details.get("retryAfterSeconds") or ""))
    return ApiError(code, reason, message or f"{code} {reason}".strip(), details=details, retry_after=wait)


def _seconds(text: str) -> float | None:
    """Seconds; None for a date, which HTTP would allow too."""
    return float(text) if text.isdecimal() else None
