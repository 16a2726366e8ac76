"""As whom the pods of a namespace run on a machine that several people share: as the owner of the namespace."""

from __future__ import annotations

import asyncio
import os
import pwd

from pumice.agent.shim.records import Identity
from pumice.kube.client.api import Api
from pumice.kube.client.api_errors import ApiError
from pumice.kube.namespace_owner import NamespaceOwner, namespace_owner
from pumice.kube.resources import NAMESPACES


class OwnerError(Exception):
    """The pods of a namespace cannot run here, because there is nobody as whom they could."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


async def find_identity(api: Api, namespace: str) -> Identity:
    """The user as whom the pods of a namespace run. Raises ``OwnerError``."""
    try:
        found = await api.get(NAMESPACES.raw, namespace)
    except ApiError as error:
        if not error.not_found:
            raise
        found = None
    owner = namespace_owner(found)
    if owner is None:
        raise OwnerError(
            "NamespaceWithoutOwner",
            f"namespace {namespace} belongs to no user of this machine, so there is nobody as whom its pods could run",
        )
    return await asyncio.to_thread(user_identity, owner)


def user_identity(owner: NamespaceOwner) -> Identity:
    """The account of an owner on this machine: its name and its number must be those of one account."""
    try:
        entry = pwd.getpwuid(owner.uid)
    except KeyError:
        entry = None
    if entry is None or entry.pw_name != owner.name:
        known = f"user id {owner.uid} is {entry.pw_name} here" if entry else f"there is no user id {owner.uid} here"
        raise OwnerError("NoSuchUser", f"the pod belongs to user {owner.name} ({owner.uid}), but {known}")
    return {
        "name": entry.pw_name,
        "uid": entry.pw_uid,
        "gid": entry.pw_gid,
        "groups": sorted({*os.getgrouplist(entry.pw_name, entry.pw_gid)}),
        "home": entry.pw_dir or "/",
        "shell": entry.pw_shell or "/bin/sh",
    }
