"""Whose a namespace is: the user as whom its pods run on machines that several people share.

Only root and the processes of the cluster write these annotations.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

OWNER_NAME = "pumice.dev/owner"
OWNER_UID = "pumice.dev/owner-uid"


class NamespaceOwner(NamedTuple):
    """A user of the machine."""

    name: str
    uid: int


def namespace_owner(namespace: Mapping[str, Any] | None) -> NamespaceOwner | None:
    """The owner of a namespace; None: it belongs to nobody."""
    annotations = ((namespace or {}).get("metadata") or {}).get("annotations") or {}
    name, uid = annotations.get(OWNER_NAME), annotations.get(OWNER_UID)
    if not isinstance(name, str) or not name or not isinstance(uid, str):
        return None
    if not (uid.isascii() and uid.isdecimal()) or len(uid) > 10:
        return None
    return NamespaceOwner(name, int(uid))
