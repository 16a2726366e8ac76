"""Who makes a request, and what the embedding program lets them do.

A server without an ``AccessPolicy`` has one user, who may do everything. With one, the policy says who a process on the
other end of the Unix socket is, whose a bearer token is, and what each of them may do with which objects.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from kubesim.api.client import InProcessClient
    from kubesim.api.requests import Target

Show = Callable[[str, bytes], bytes]
"""From the key and value of a stored object to the value that somebody may see of it."""


@dataclass(frozen=True, slots=True)
class Principal:
    """Whoever makes a request."""

    name: str
    uid: int = -1
    """The number of the user on this machine; -1: no user of this machine."""
    groups: tuple[str, ...] = ()
    namespace: str = ""
    """The namespace that belongs to them; empty: none."""
    privileged: bool = False
    """Whether they may do everything and act for others: the superuser, and the processes of the cluster itself."""
    administrator: bool = False


class AccessPolicy(Protocol):
    """Knows users and judges their requests. Everything it raises is an ``ApiError``."""

    def token_owner(self, token: str) -> int | None:
        """The user of a bearer token that is not the server's own; None: the token is not valid."""

    async def principal(self, uid: int) -> Principal:
        """A user of this machine. ``ApiError`` if there is none who may use this server."""

    def judge(self, who: Principal, verb: str, target: Target) -> bool:
        """Whether a request may see objects whole; False: as ``show`` shows them. ``ApiError`` if it is refused."""

    def show(self, who: Principal) -> Show:
        """What somebody may see of objects that are not theirs."""

    def answer(self, who: Principal, method: str, path: str, *, over_socket: bool) -> Mapping[str, Any] | None:
        """The answer to a request at a path that is the policy's own; None: it is not."""


AccessFactory = Callable[["InProcessClient"], AccessPolicy]
"""Creates the policy of a server."""
