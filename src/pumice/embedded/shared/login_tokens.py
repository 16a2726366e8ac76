"""Tokens for programs that cannot use the Unix socket, such as kubectl: signed, for one user, for an hour.

Nothing is stored but the key. Whoever removes it, and starts the server again, makes all tokens invalid.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import secrets
import time
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from kubesim.private_file import write_private

LIFE_SECONDS = 3600
KEY_FILE = "login.key"  # in the data directory
KEY_BYTES = 32
LONGEST = 1024


class TokenUser(NamedTuple):
    """The user of a token: both must still belong together, because numbers of users are given out again."""

    uid: int
    name: str


class LoginTokens:
    """Issues and checks tokens."""

    def __init__(self, key: bytes, now: Callable[[], float] = time.time) -> None:
        self._key = key
        self._now = now

    def issue(self, user: TokenUser) -> tuple[str, float]:
        """A token, and when it ends."""
        end = self._now() + LIFE_SECONDS
        said = urlsafe_b64encode(json.dumps([user.uid, user.name, int(end)]).encode()).decode()
        return f"{said}.{self._signature(said)}", float(int(end))

    def check(self, token: str) -> TokenUser | None:
        """The user of a token; None if it is not one of ours, or has ended."""
        said, _, signature = token.partition(".")
        if len(token) > LONGEST or not token.isascii() or not hmac.compare_digest(signature, self._signature(said)):
            return None
        uid, name, end = json.loads(urlsafe_b64decode(said))  # we have written it
        return TokenUser(uid, name) if self._now() < end else None

    def _signature(self, said: str) -> str:
        return hmac.new(self._key, b"pumice login " + said.encode(), hashlib.sha256).hexdigest()


def load_or_create_key(data: Path) -> bytes:
    """The key in the data directory, or a new one."""
    path = data / KEY_FILE
    if path.exists() and len(key := path.read_bytes()) == KEY_BYTES:
        return key
    key = secrets.token_bytes(KEY_BYTES)
    write_private(path, key)
    return key
