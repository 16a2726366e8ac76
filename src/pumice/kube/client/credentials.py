"""The credentials of requests, and their sources.

A bearer token comes from the kubeconfig, from a file that is replaced from time to time (service account tokens are),
or from a command (``exec_plugin``). Both clients, ``transport`` and ``sync_client``, ask a ``CredentialSource`` before
every request, and once more when the API server answers 401.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

TOKEN_FILE_SECONDS = 60.0
"""Seconds after which a token file is read again."""


@dataclass(frozen=True, slots=True)
class Credential:
    """A bearer token, or a client certificate with its key (PEM), or both."""

    token: str = field(default="", repr=False)
    certificate: bytes = field(default=b"", repr=False)
    key: bytes = field(default=b"", repr=False)
    expires: float | None = field(default=None, compare=False)
    """Seconds since 1970; None if unknown. The same token with another expiry is the same credential."""

    def headers(self) -> dict[str, str]:
        """The Authorization header, where there is a token."""
        return {"Authorization": f"Bearer {self.token}"} if self.token else {}


class CredentialSource(Protocol):
    """Supplies the credential for each request. Several threads may ask."""

    def cached(self) -> Credential | None:
        """The credential at hand, without waiting; None if it must be obtained first."""

    def obtain(self) -> Credential:
        """The credential, which may take a while; ``CredentialError`` if there is none to be had."""

    def renew(self, refused: Credential) -> bool:
        """Look for another credential after a 401; whether there is one. This may take a while, too."""


class FixedCredential:
    """A token that stands in the kubeconfig, or none at all."""

    def __init__(self, token: str = "") -> None:
        self._credential = Credential(token)

    def cached(self) -> Credential:
        """It is always at hand."""
        return self._credential

    def obtain(self) -> Credential:
        """The only one there is."""
        return self._credential

    def renew(self, refused: Credential) -> bool:
        """There is no other."""
        return False


class TokenFile:
    """A token in a file. The kubelet, or another writer, replaces the token long before it expires."""

    def __init__(self, path: Path, token: str, now: Callable[[], float] = time.monotonic) -> None:
        self._path = path
        self._credential = Credential(token)
        self._now = now
        self._read_at = now()

    def cached(self) -> Credential:
        """The token read last; a minute later the file is read again."""
        if self._now() - self._read_at >= TOKEN_FILE_SECONDS:
            self._read()
        return self._credential

    def obtain(self) -> Credential:
        """The same: a file is at hand."""
        return self.cached()

    def renew(self, refused: Credential) -> bool:
        """Read the file again, unless another call has done so since the rejected token was read."""
        if self._credential == refused:
            self._read()
        return self._credential != refused

    def _read(self) -> None:
        self._read_at = self._now()
        try:
            token = self._path.read_text().strip()
        except (OSError, UnicodeDecodeError) as error:
            import logging  # slow to load, and seldom needed

            logging.getLogger(__name__).warning(
                'Failed to read the token file, using the previous token: path=%s error="%s"', self._path, error
            )
            return
        if token:
            self._credential = Credential(token)
