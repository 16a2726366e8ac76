"""Admission in the write path: what a webhook would do on a real cluster, without the way there and back.

The rules are those of ``pumice.admission``; here they get their world. It follows the newest state, commits under way
included: the store tells of every write in the moment at which it is judged, and what it told is read when the next
rule asks. So a write is judged by everything before it, and of two queues that would fit alone the second is refused.
After a failed commit the state went back, and the world is made anew; a start begins that way too.

A refusal is answered as a webhook's that says Forbidden: 403, because the object is well formed and its author known,
and yet the cluster's rules do not let it in. (A webhook that gives no code at all comes out as 400 without a reason,
of which no client can tell anything.) Every refusal is a cause in the details.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import msgspec

from kubesim.api import status
from kubesim.api.client import ITSELF
from kubesim.api.request_context import ADMIN, RequestContext
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

WEBHOOKS: Final = "admission.pumice.dev"  # of each kind one, as they are installed on a real cluster

_decode = msgspec.json.Decoder().decode


class EmbeddedAdmission:
    """The rules, over a store."""

    def __init__(self, store: Store, settings: Settings | None = None) -> None:
        self.settings = settings or Settings()
        self._store = store
        self._view = ClusterView(self.settings)
        self._failures = -1
        self._pending_changes: dict[str, bytes | None] = {}  # by key: what it becomes; None: it is deleted
        store.witnesses.append(self._note)

    def admit(
        self, resource: Resource, new: Object, old: Object | None, call: RequestContext, *, dry_run: bool
    ) -> Object:
        """What to store of a new object, or of a later version of ``old``. ``ApiError`` if it is refused."""
        if resource.qualified not in ADMITTED:
            return new
        admitted = self._review(CREATE if old is None else UPDATE, resource, new, old, call, dry_run).object or new
        resource.schema.default(admitted)  # of what admission has added
        return admitted

    def admit_deletion(self, resource: Resource, old: Object, call: RequestContext, *, dry_run: bool) -> None:
        """``ApiError`` if an object must stay.

        What the server itself deletes (the objects of a definition that goes, say) was decided elsewhere.
        """
        if resource.qualified in ADMITTED and call.user != ITSELF:
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
        world = self._view if resource.qualified not in FOLLOWED else self.view
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
                for record in self._store.newest(f"{resource}/")
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
    """Administrators may act as anybody."""
    return lambda _: call.user in {ADMIN, ITSELF}
