"""The admission hook: takes the place of admission webhooks, as a call in this process.

The program that starts a server may hand in a hook. The hook sees each object after Kubernetes' own defaults and
validation and before quotas are charged, and raises ``ApiError`` to reject a write.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from kubesim.api.request_context import RequestContext
from kubesim.registry.registry import Object, Resource
from kubesim.storage import Store


class AdmissionHook(Protocol):
    """Modifies or rejects objects before they are stored.

    A hook may have an attribute ``judged``, the qualified resources (``pods``, ``jobs.batch``) of the objects that it
    looks at; without it, it is asked about all. Those in ``judged_alone`` it judges without a look at the cluster: it
    may be called for them in another thread.
    """

    def admit(
        self, resource: Resource, new: Object, old: Object | None, call: RequestContext, *, dry_run: bool
    ) -> Object:
        """Return the object to store. ``old`` is None on create. Raise ``ApiError`` to reject it."""

    def admit_deletion(self, resource: Resource, old: Object, call: RequestContext, *, dry_run: bool) -> None:
        """Raise ``ApiError`` if the object must not be deleted."""


AdmissionFactory = Callable[[Store], AdmissionHook]
"""Creates the hook of a server over its store, so that the hook can follow the newest state."""
