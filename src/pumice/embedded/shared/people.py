"""The accounts of this machine, and the namespace of each."""

from __future__ import annotations

import grp
import os
import pwd
import re
import time
from collections.abc import Callable
from dataclasses import dataclass

from kubesim.controllers.service_accounts import NAMESPACES as SYSTEM_NAMESPACES
from pumice.kube.namespace_owner import OWNER_NAME, OWNER_UID

FRESH_SECONDS = 30.0
"""How long an answer about an account is used: so soon a change of groups or administrators takes effect."""
NOBODY = frozenset({65534, 2**32 - 1, 2**16 - 1})
"""Users that stand for "somebody unknown", such as those of other user namespaces."""
_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?", re.ASCII)
_RESERVED = re.compile(r"uid-[0-9]+|kube-.*|pumice-system", re.ASCII)
_PLAIN = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.@-]*", re.ASCII)


class NoAccountError(Exception):
    """A user without an account on this machine."""


@dataclass(frozen=True, slots=True)
class Person:
    """An account."""

    name: str
    uid: int
    groups: tuple[str, ...]
    namespace: str
    administrator: bool

    @property
    def annotations(self) -> dict[str, str]:
        """The annotations of the namespace that belongs to this account."""
        return {OWNER_NAME: self.name, OWNER_UID: str(self.uid)}


class People:
    """Looks accounts up, as the machine has them: files, or a directory service, which may take its time."""

    def __init__(self, admins: str = "", now: Callable[[], float] = time.monotonic) -> None:
        self._admins = admins
        self._now = now
        self._known: dict[int, tuple[float, Person]] = {}

    def cached(self, uid: int) -> Person | None:
        """An account that was looked up lately."""
        found = self._known.get(uid)
        return found[1] if found is not None and self._now() - found[0] < FRESH_SECONDS else None

    def find(self, uid: int) -> Person:
        """An account. ``NoAccountError`` if there is none; may block."""
        known = self.cached(uid)
        if known is not None:
            return known
        if uid in NOBODY:
            raise NoAccountError(f"user id {uid} stands for no user in particular")
        try:
            entry = pwd.getpwuid(uid)
        except KeyError:
            raise NoAccountError(f"user id {uid} has no account on this machine") from None
        if not _PLAIN.fullmatch(entry.pw_name):
            raise NoAccountError(f"user id {uid} has an account name that cannot be used: {entry.pw_name!r}")
        groups = tuple(sorted(filter(None, map(_group_name, os.getgrouplist(entry.pw_name, entry.pw_gid)))))
        administrator = uid == 0 or bool(self._admins and self._admins in groups)
        found = Person(entry.pw_name, uid, groups, namespace_of(entry.pw_name, uid), administrator)
        self._known[uid] = (self._now(), found)
        return found


def namespace_of(name: str, uid: int) -> str:
    """The namespace of an account: its name where that can be one, else by its number."""
    usable = _LABEL.fullmatch(name) and not _RESERVED.fullmatch(name) and name not in SYSTEM_NAMESPACES
    return name if usable else f"uid-{uid}"


def _group_name(gid: int) -> str:
    try:
        return grp.getgrgid(gid).gr_name
    except KeyError:
        return ""
