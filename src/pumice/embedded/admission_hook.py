"""Admission in the write path of the embedded server, in place of the webhooks of a real cluster.

The rules are those of ``pumice.admission``; this module gives them a view of the cluster. The view includes commits in
progress: the store reports every write when it is admitted, and the view applies the reported writes before the next
rule reads it. So each write is checked against all writes before it: of two queues that only fit one at a time, the
second is refused. A failed commit rolls the state back, and the view is rebuilt from the store, as after a start.

A refusal is answered like that of a webhook with the reason Forbidden: 403, because the object is well-formed and its
author is known, but the rules of the cluster do not allow it. (A webhook without a code results in 400 without a
reason, which clients cannot interpret.) Each refusal is a cause in the details of the status.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import msgspec

from kubesim.api import status
from kubesim.api.request_context import RequestContext
from kubesim.api.status import ApiError
from kubesim.registry.registry import Resource
from kubesim.storage import Store
from pumice.admission import (
    ADMITTED,
    CREATE,
    DELETE,
    FOLLOWED,
    UPDATE,
    ClusterView,
    Object,
    Request,
    Settings,
    Verdict,
    admit,
)
from pumice.admission.request import PODS
from pumice.embedded.identity import PUMICE

WEBHOOKS: Final = "admission.pumice.dev"  # of each kind one, as they are installed on a real cluster

_decode = msgspec.json.Decoder().decode


class EmbeddedAdmission:
    """The rules, over a store."""

    judged: Final = ADMITTED
    judged_alone: Final = frozenset({PODS})

    def __init__(self, store: Store, settings: Settings | None = None) -> None:
        self.settings = settings or Settings()
        self._store = store
        self._view = ClusterView(self.settings)
        self._failures = -1
        self._pending_changes: dict[str, bytes | None] = {}  # by key: what it becomes; None: it is deleted
        store.write_observers.append(self._note)

    def admit(
        self, resource: Resource, new: Object, old: Object | None, call: RequestContext, *, dry_run: bool
    ) -> Object:
        """Return the object to store, with defaults; raise ``ApiError`` if it is refused. ``old`` is stored now."""
        if resource.qualified not in ADMITTED:
            return new
        admitted = self._review(CREATE if old is None else UPDATE, resource, new, old, call, dry_run).object or new
        resource.schema.default(admitted, new)  # of what admission has added: the rest has its defaults
        return admitted

    def admit_deletion(self, resource: Resource, old: Object, call: RequestContext, *, dry_run: bool) -> None:
        """Raise ``ApiError`` if an object must not be deleted.

        Deletions by the server itself, for example of the objects of a deleted CRD, are not checked.
        """
        if resource.qualified in ADMITTED and call.user != PUMICE.system_user:
            self._review(DELETE, resource, None, old, call, dry_run)

    def _review(
        self,
        operation: str,
        resource: Resource,
        new: Object | None,
        old: Object | None,
        call: RequestContext,
        dry_run: bool,
    ) -> Verdict:
        request = Request(
            operation,
            resource.qualified,
            new,
            old,
            call.user,
            _may_impersonate(call),
            dry_run,
            int(call.moment * 10**6),
        )
        world = self._view if resource.qualified in self.judged_alone else self.view
        verdict = admit(request, world)
        if verdict.refusals:
            raise _denied(resource, request.name, verdict)
        call.warnings += verdict.warnings
        return verdict

    @property
    def view(self) -> ClusterView:
        """The newest state, as rules see it."""
        if self._failures != self._store.failures:
            self._failures = self._store.failures
            self._view = ClusterView(self.settings)
            self._pending_changes = {
                record.key: record.value
                for resource in sorted(FOLLOWED)
                for record in self._store.list_latest(f"{resource}/")
            }
        if self._pending_changes:
            news, self._pending_changes = self._pending_changes, {}
            for key, value in news.items():
                resource, *namespace, name = key.split("/")
                self._view.note(resource, "".join(namespace), name, None if value is None else _decode(value))
        return self._view

    def _note(self, key: str, value: bytes | None) -> None:
        if key.partition("/")[0] in FOLLOWED:
            self._pending_changes[key] = value


def _denied(resource: Resource, name: str, verdict: Verdict) -> ApiError:
    causes = [{"reason": "Forbidden", "message": r.message, "field": r.field} for r in verdict.refusals]
    refused = status.forbidden(resource.plural, resource.group, name, "", causes)
    message = f'admission webhook "{resource.plural}.{WEBHOOKS}" denied the request: {verdict.message}'
    return ApiError(refused.code, refused.reason, message, refused.details)


def _may_impersonate(call: RequestContext) -> Callable[[str], bool]:
    """Administrators may act as any user."""
    return lambda _: call.privileged
