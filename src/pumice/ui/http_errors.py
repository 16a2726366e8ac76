"""Errors that a request is answered with."""

from __future__ import annotations

from typing import ClassVar


class RequestError(Exception):
    """The request cannot be answered; the message goes to the viewer."""

    code: ClassVar[int] = 400
    reason: str = "BadRequest"

    def __init_subclass__(cls, *, code: int = 0, reason: str = "") -> None:
        cls.code, cls.reason = code or cls.code, reason or cls.reason


class NotFoundError(RequestError, code=404, reason="NotFound"):
    """There is no such object, or the viewer may not see it."""


class ForbiddenError(RequestError, code=403, reason="Forbidden"):
    """The viewer may not see this."""


class UnauthorizedError(RequestError, code=401, reason="Unauthorized"):
    """The viewer is unknown."""


class UnavailableError(RequestError, code=503, reason="Unavailable"):
    """This server cannot answer, now or at all."""

    def __init__(self, message: str, *, reason: str = "Unavailable") -> None:
        super().__init__(message)
        self.reason = reason
