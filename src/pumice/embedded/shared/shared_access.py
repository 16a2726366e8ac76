"""The access policy of a shared machine, for the embedded server."""

from __future__ import annotations

import asyncio
import hmac
import secrets
from base64 import b64encode
from collections.abc import Mapping
from typing import Any, Final

from kubebase.timestamps import stamp
from kubesim.api import status
from kubesim.api.access import Principal, Show
from kubesim.api.client import InProcessClient
from kubesim.api.requests import Target
from kubesim.registry.registry import Object
from pumice.embedded.shared.access_rules import judge
from pumice.embedded.shared.login_tokens import LoginTokens, TokenUser
from pumice.embedded.shared.people import NoAccountError, People, Person
from pumice.embedded.shared.reduced_objects import show_to
from pumice.kube.client.shared_socket import LOGIN_PATH
from pumice.kube.namespace_owner import OWNER_NAME, OWNER_UID, namespace_owner

ROOT_NAME: Final = "root"
VIEWER_UID: Final = -2
VIEWER: Final = Principal("system:viewer")
"""The web page: it sees what everybody may see, and nothing else."""


class SharedMachine:
    """What the parts of a shared machine have in common: its accounts, its tokens, its address."""

    def __init__(self, people: People, tokens: LoginTokens) -> None:
        self.people = people
        self.tokens = tokens
        self.viewer_token = secrets.token_urlsafe(32)
        self.server = ""
        self.authority = b""

    def announce(self, server: str, authority: bytes) -> None:
        """Take the address of the server, for those who log in."""
        self.server, self.authority = server, authority

    async def claim_default_namespace(self, api: InProcessClient) -> None:
        """Give the namespace ``default`` to root, so that what root makes there runs as root."""
        owner = {OWNER_NAME: ROOT_NAME, OWNER_UID: "0"}

        def claim(found: Object) -> None:
            found["metadata"]["annotations"] = {**(found["metadata"].get("annotations") or {}), **owner}

        await api.modify("namespaces", "", "default", claim)

    def groups(self, uid: int) -> tuple[str, ...]:
        """The groups of a user; none if there is no such user any more."""
        try:
            return self.people.find(uid).groups
        except NoAccountError:
            return ()

    def is_administrator(self, uid: int) -> bool:
        """Whether a user is root or in the group of administrators."""
        try:
            return self.people.find(uid).administrator
        except NoAccountError:
            return False


class SharedAccess:
    """Knows the users of the machine, and judges their requests."""

    def __init__(self, machine: SharedMachine, api: InProcessClient) -> None:
        self._machine = machine
        self._api = api

    def token_owner(self, token: str) -> int | None:
        """The user of a token of ``pumice login``, or of the web page."""
        if hmac.compare_digest(token.encode("latin-1", "replace"), self._machine.viewer_token.encode()):
            return VIEWER_UID
        user = self._machine.tokens.check(token)
        if user is None:
            return None
        try:
            person = self._machine.people.find(user.uid)
        except NoAccountError:
            return None
        return user.uid if person.name == user.name else None

    async def principal(self, uid: int) -> Principal:
        """A user, whose namespace exists from now on."""
        if uid == VIEWER_UID:
            return VIEWER
        person = self._machine.people.cached(uid)
        if person is None:
            try:
                person = await asyncio.to_thread(self._machine.people.find, uid)
            except NoAccountError as error:
                raise status.ApiError(403, "Forbidden", str(error)) from None
        await self._ensure_namespace(person)
        return Principal(
            person.name,
            uid,
            person.groups,
            person.namespace,
            privileged=uid == 0,
            administrator=person.administrator,
        )

    def judge(self, who: Principal, verb: str, target: Target) -> bool:
        """Whether a request sees objects whole."""
        return judge(who, verb, target)

    def show(self, who: Principal) -> Show:
        """What somebody may see of objects of others."""
        return show_to(who)

    def answer(self, who: Principal, method: str, path: str, *, over_socket: bool) -> Mapping[str, Any] | None:
        """A token for whoever asks over the socket: with a token alone, no further one can be had."""
        if path != LOGIN_PATH:
            return None
        if not over_socket or method != "POST":
            raise status.ApiError(403, "Forbidden", "tokens are given out over the Unix socket only, by POST")
        token, end = self._machine.tokens.issue(TokenUser(who.uid, who.name))
        return {
            "user": who.name,
            "namespace": who.namespace,
            "server": self._machine.server,
            "certificateAuthorityData": b64encode(self._machine.authority).decode(),
            "token": token,
            "expirationTimestamp": stamp(end),
        }

    async def _ensure_namespace(self, person: Person) -> None:
        name = person.namespace
        found = self._api.read("namespaces", "", name)
        if found is None:
            try:
                found = await self._api.create(
                    "namespaces", "", {"metadata": {"name": name, "annotations": person.annotations}}
                )
            except status.ApiError as error:
                if error.reason != "AlreadyExists":
                    raise
                found = self._api.read("namespaces", "", name)
        if found is not None and namespace_owner(found) != (person.name, person.uid):
            raise status.ApiError(
                403,
                "Forbidden",
                f'namespace "{name}" does not belong to user "{person.name}" (user id {person.uid}); root can give it '
                f"to them, with everything in it: kubectl annotate namespace {name} --overwrite "
                + " ".join(f"{key}={value}" for key, value in person.annotations.items()),
            )
