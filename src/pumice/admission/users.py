"""Whose an object is (docs/fairness.md, section 8.4): whoever made the request, or whom they may act for.

Our controllers make objects for others and copy the user from the owner, which was judged when it was made. What those
of Kubernetes make comes from templates that were not: a user named there is left out, and then the namespace counts as
the user.
"""

from __future__ import annotations

from collections.abc import Iterator

from pumice.admission.request import PODS, Object, Refusal, Request, annotate, annotations_of, spec_of
from pumice.admission.world import World
from pumice.kube.policies import USER


def user_is_printable(request: Request, world: World) -> Iterator[Refusal]:
    """Whose an object is can be shown: in logs, on terminals, as a label of metrics."""
    user = annotations_of(request.object).get(USER) or ""
    if not user.isprintable() and (request.old is None or annotations_of(request.old).get(USER) != user):
        message = f"{user[:60]!r} contains control characters; write the name of a user without them"
        yield Refusal(message, f"metadata.annotations[{USER}]")


def stamp_user(new: Object, request: Request, world: World) -> None:
    """Write down whose the object is. A value that is given counts only if the caller may act as that user."""
    settings = world.settings
    if request.resource == PODS and spec_of(new).get("schedulerName") not in settings.schedulers:
        return
    given = annotations_of(new).get(USER)
    if request.resource == PODS and given and not given.isprintable():
        given = None  # a pod is filled in and never refused: that would take a second webhook for every pod
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
