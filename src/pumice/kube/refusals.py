"""What can go wrong with a call to a Kubernetes API: it says no, nobody answers, or there are no credentials."""

from __future__ import annotations

from typing import Any

import msgspec

_decode = msgspec.json.Decoder().decode


class RefusedError(Exception):
    """The API said no: code, reason, message and details of its Status."""

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
        """Seconds after which the API would like to be asked again; None if it said nothing about that."""

    @property
    def absent(self) -> bool:
        """There is no such object (or no such resource)."""
        return self.code == 404

    @property
    def exists(self) -> bool:
        """An object of that name is there already."""
        return self.code == 409 and self.reason == "AlreadyExists"

    @property
    def conflict(self) -> bool:
        """The object is not, or no longer, what the request takes it for."""
        return self.code == 409 and self.reason != "AlreadyExists"

    @property
    def expired(self) -> bool:
        """The revision asked for lies too far back: begin again with a list."""
        return self.code == 410


class UnreachableError(Exception):
    """Nobody answers at the address, or the answer broke off."""

    def __init__(self, message: str, *, sent: bool = True) -> None:
        super().__init__(message)
        self.sent = sent
        """Whether the request may have arrived, and so been carried out."""


class CredentialError(UnreachableError):
    """A request was not sent, because its credentials could not be obtained; the message says why."""

    def __init__(self, message: str) -> None:
        super().__init__(message, sent=False)


def patience(error: Exception) -> float:
    """Seconds after which the API would like to be asked again; 0 if it has not said."""
    return (error.retry_after or 0.0) if isinstance(error, RefusedError) else 0.0


def refusal(code: int, phrase: str, content: bytes, retry_after: str = "") -> RefusedError:
    """The error that an answer stands for. What is between us and the API may answer with anything."""
    try:
        status = _decode(content)
    except ValueError:  # UnicodeDecodeError is one
        status = None
    if not isinstance(status, dict) or status.get("kind") != "Status":
        return RefusedError(code, "", f"{code} {phrase}".strip(), retry_after=_seconds(retry_after))
    return from_status(status, code=code, retry_after=retry_after)


def from_status(status: dict[str, Any], *, code: int = 0, retry_after: str = "") -> RefusedError:
    """The error that a Status stands for."""
    code = code or status.get("code") or 500
    reason, message = str(status.get("reason") or ""), str(status.get("message") or "")
    details = status.get("details")
    details = details if isinstance(details, dict) else {}
    wait = _seconds(retry_after or str(details.get("retryAfterSeconds") or ""))
    return RefusedError(code, reason, message or f"{code} {reason}".strip(), details=details, retry_after=wait)


def _seconds(text: str) -> float | None:
    """Seconds; a date, which HTTP would allow, counts as nothing said."""
    return float(text) if text.isdecimal() else None
