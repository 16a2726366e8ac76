"""Review handler: runs the rules in the two steps of an API server, with impersonation checks.

Rules are pure. Only the cluster knows whether a caller may impersonate a user: if a rule needs that, the handler sends
a SubjectAccessReview, and runs the rules again with the result.
"""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import Any, Protocol

from pumice.admission.request import CREATE, Object, Request
from pumice.admission.rules import ADMITTED, mutate, validate, warnings
from pumice.admission.webhooks.informer_view import InformerView
from pumice.admission.webhooks.json_patch import json_patch_between
from pumice.admission.webhooks.reviews import ReviewRequest, ReviewResponse, User
from pumice.kube.client.api import Api
from pumice.kube.client.api_errors import ApiError, UnreachableError
from pumice.kube.resources import Resource

log = logging.getLogger(__name__)

ACCESS_REVIEWS: Resource[dict[str, Any]] = Resource(
    "authorization.k8s.io/v1", "subjectaccessreviews", "SubjectAccessReview", dict, namespaced=False
)
NOTHING = ReviewResponse()


class ImpersonationCheck(Protocol):
    """Decides which caller may impersonate which user."""

    async def may_impersonate(self, caller: User, user: str) -> bool:
        """Whether a caller may impersonate a user."""


class ClusterImpersonationCheck:
    """Asks the cluster."""

    def __init__(self, api: Api) -> None:
        self._api = api

    async def may_impersonate(self, caller: User, user: str) -> bool:
        """Whether the cluster allows it. No answer means no."""
        asked: Object = {"verb": "impersonate", "resource": "users", "name": user}
        spec: Object = {"resourceAttributes": asked, "user": caller.username, "uid": caller.uid}
        spec |= {"groups": caller.groups or [], "extra": caller.extra or {}}
        review = {"apiVersion": ACCESS_REVIEWS.api_version, "kind": ACCESS_REVIEWS.kind, "spec": spec}
        try:
            found = await self._api.create(ACCESS_REVIEWS, review)
        except (ApiError, UnreachableError) as error:
            log.warning(
                'SubjectAccessReview failed, denying impersonation: user=%r impersonated=%r error="%s"',
                caller.username,
                user,
                error,
            )
            return False
        return bool((found.get("status") or {}).get("allowed"))


class AdmissionHandler:
    """Handles reviews."""

    def __init__(self, view: InformerView, rights: ImpersonationCheck) -> None:
        self._view = view
        self._rights = rights

    async def fill_in(self, asked: ReviewRequest) -> ReviewResponse:
        """Fill in defaults. Never rejects."""
        request = asked.request
        if request.new is None or asked.sub_resource or request.resource not in ADMITTED:
            return NOTHING
        try:
            return ReviewResponse(
                patch=list(json_patch_between(request.new, await self._filled(request, asked.user_info)))
            )
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            # The API server validates the schema only after this, and its error message is better.
            log.warning(
                'Failed to set defaults, leaving the object unchanged: resource=%s error="%r"', request.resource, error
            )
            return NOTHING

    async def _filled(self, request: Request, caller: User) -> Object:
        wanted: dict[str, bool] = {}

        def may(user: str) -> bool:
            return wanted.setdefault(user, False)

        filled = mutate(replace(request, may_impersonate=may), self._view.now())
        if not wanted:
            return filled
        for user in wanted:
            wanted[user] = await self._rights.may_impersonate(caller, user)
        return mutate(replace(request, may_impersonate=may), self._view.now())

    async def check(self, asked: ReviewRequest) -> ReviewResponse:
        """Validate the object."""
        request = asked.request
        if asked.sub_resource or request.resource not in ADMITTED:
            return NOTHING
        world = self._view.now()
        refusals = validate(request, world)
        if refusals:
            return ReviewResponse(refusals)
        if request.operation == CREATE and request.new is not None and not request.dry_run:
            self._view.expect(request.resource, request.new)
        return ReviewResponse(warnings=warnings(request, world))
