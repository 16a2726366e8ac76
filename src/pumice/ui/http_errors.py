"""Errors that a request is answered with."""

from __future__ import annotations


class RequestError(Exception):
    """The request cannot be answered; the message goes to the viewer."""

    code = 400
    reason = "BadRequest"


class NotFoundError(RequestError):
    """There is no such object, or the viewer may not see it."""

    code = 404
    reason = "NotFound"


class ForbiddenError(RequestError):
    """The viewer may not see this."""

    code = 403
    reason = "Forbidden"


class UnauthorizedError(RequestError):
    """The viewer is unknown."""

    code = 401
    reason = "Unauthorized"


class UnavailableError(RequestError):
    """This server cannot answer, now or at all."""

    code = 503

    def __init__(self, message: str, *, reason: str = "Unavailable") -> None:
        super().__init__(message)
        self.reason = reason
