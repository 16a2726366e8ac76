"""The user of an object (docs/fairness.md, section 8.4): the author of the request, or a user they may impersonate.

Our controllers create objects for others and copy the user from the owner, which was verified on creation. Those of
Kubernetes create objects from templates that were not: a user named there is ignored, and the namespace counts as the
user.
"""

from __future__ import annotations

from collections.abc import Iterator

from pumice.admission.cluster_view import ClusterView
from pumice.admission.request import PODS, Object, Refusal, Request, annotate, annotations_of, spec_of
from pumice.kube.decode.preemption_annotations import USER


def user_is_printable(request: Request, world: ClusterView) -> Iterator[Refusal]:
    """The user is printable: it appears in logs, on terminals and as a label of metrics."""
    user = annotations_of(request.object).get(USER) or ""
    if not user.isprintable() and (request.old is None or annotations_of(request.old).get(USER) != user):
        message = f"Invalid value: {user[:60]!r}: may not contain control characters"
        yield Refusal(message, f"metadata.annotations[{USER}]")


def stamp_user(new: Object, request: Request, world: ClusterView) -> None:
    """Record the user of the object. A given value counts only if the caller may impersonate that user."""
    settings = world.settings
    if request.resource == PODS and spec_of(new).get("schedulerName") not in settings.schedulers:
        return
    given = annotations_of(new).get(USER)
    if request.resource == PODS and given and not given.isprintable():
        given = None  # pods get defaults only and are never rejected: that would take a second webhook for every pod
    known = annotations_of(request.old).get(USER) if request.old else None
    controller, builder = settings.acts_for_others(request.user), settings.builds_for_others(request.user)
    if given and (given in (known, request.user) or controller or (not builder and request.may_impersonate(given))):
        return
    if request.old is not None:
        user = known
    else:
        user = None if controller or builder else request.user or None
    if user != annotations_of(new).get(USER):
        annotate(new, USER, user)
