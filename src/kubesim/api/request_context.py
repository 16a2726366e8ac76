"""The context of one API request: user, time, access to other objects, and warnings for the response."""

from __future__ import annotations

import time
from collections.abc import Iterable

import msgspec

from kubesim.api.access import AccessPolicy, Principal
from kubesim.api.requests import Target
from kubesim.api.short_lists import ShortLists
from kubesim.api.status import ApiError
from kubesim.api.store_view import StoreView
from kubesim.clock import stamp
from kubesim.registry.registry import Object, ResourceRegistry
from kubesim.storage import Store

ADMIN = "admin"


class RequestContext:
    """The ``Context`` of strategies. Lookups see pending writes, as the write itself will."""

    __slots__ = (
        "_lists",
        "_registry",
        "_store",
        "body_bytes",
        "duplicate_fields",
        "manager",
        "moment",
        "now",
        "policy",
        "principal",
        "user",
        "view",
        "warnings",
    )

    def __init__(self, store: Store, registry: ResourceRegistry, lists: ShortLists, user: str = ADMIN) -> None:
        self._lists = lists
        self._store = store
        self._registry = registry
        self.moment = time.time()
        self.now = stamp(self.moment)
        self.user = user
        self.manager = user
        """The field manager of writes, as ``managedFields`` records it."""
        self.warnings: list[str] = []
        self.duplicate_fields: list[str] = []
        """Fields that occur twice in the request body."""
        self.body_bytes = 0
        """The size of the request body. The requests of this process itself have none, and never leave its loop."""
        self.principal: Principal | None = None
        """Who makes the request, on a server that knows users."""
        self.policy: AccessPolicy | None = None
        self.view: StoreView | None = None
        """What the request may read, if not everything."""

    @property
    def privileged(self) -> bool:
        """Whether the request may do everything, and act for others."""
        return self.principal is None or self.principal.privileged

    def denial(self, verb: str, resource: str, namespace: str, name: str, subresource: str) -> str:
        """Why the user may not do something with a resource (``jobs.batch``); empty: they may."""
        if self.policy is None or self.principal is None or self.principal.privileged:
            return ""
        known = self._registry.stored(resource)
        if known is None:
            return f"{resource} is not served here"
        try:
            self.policy.judge(self.principal, verb, Target(known, namespace, name, subresource))
        except ApiError as error:
            return error.message
        return ""

    def find_owner(self, reference: Object, namespace: str) -> Object | None:
        """The object of a namespace that an owner reference names; None if it is not there, or in no namespace."""
        known = self._registry.of_kind(str(reference.get("apiVersion")), str(reference.get("kind")))
        if known is None or not known.namespaced:
            return None
        found = self.find(known.qualified, namespace, str(reference.get("name")))
        return found if found is not None and found["metadata"]["uid"] == reference.get("uid") else None

    def find(self, resource: str, namespace: str, name: str) -> Object | None:
        """Another object, by qualified resource; not to be changed."""
        known = self._registry.stored(resource)
        record = self._store.latest(known.key(namespace, name)) if known else None
        return msgspec.json.decode(record.value) if record else None

    def list(self, resource: str, namespace: str) -> Iterable[Object]:
        """All objects of a resource, in a namespace or (``""``) everywhere; not to be changed."""
        known = self._registry.stored(resource)
        return self._lists.latest(known.prefix(namespace)) if known is not None else ()
