"""Who a viewer is: everybody on this machine, or whoever has the token."""

from __future__ import annotations

from hmac import compare_digest
from typing import Protocol

from pumice.ui.http_errors import ForbiddenError, UnauthorizedError
from pumice.ui.viewer import Viewer


class LoginError(ForbiddenError):
    """A login that did not come from our own page."""


class Authenticator(Protocol):
    """Tells who a viewer is by the token of a request."""

    async def viewer(self, token: str) -> Viewer:
        """The viewer with this token (empty: none was sent). Raises ``UnauthorizedError``."""
        ...


class EverybodyAllowed:
    """No authentication: for a server that listens on loopback only."""

    async def viewer(self, token: str) -> Viewer:
        """Everybody, with all rights of this server."""
        return Viewer(None, "none")


class SharedToken:
    """One token for all viewers."""

    def __init__(self, token: str) -> None:
        self._token = token.encode()

    async def viewer(self, token: str) -> Viewer:
        """Whoever has the token."""
        if not compare_digest(token.encode(), self._token):
            raise UnauthorizedError("a valid token is required")
        return Viewer(None, "token")
