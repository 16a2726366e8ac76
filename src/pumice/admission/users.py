"""Whose an object is (fairness.md 8): whoever made the request, or whom they may act for.

Our controllers make objects for others and copy the user from the owner, which was judged when it was made. What those
of Kubernetes make comes from templates that were not: a user named there is left out, and then the namespace counts as
the user.
"""

from __future__ import annotations

from pumice.admission.request import PODS, Object, Request, annotate, annotations_of, spec_of
from pumice.admission.world import World
from pumice.kube.policies import USER


def stamp_user(new: Object, request: Request, world: World) -> None:
    """Write down whose the object is. A value that is given counts only if the caller may act as that user."""
    settings = world.settings
    if request.resource == PODS and spec_of(new).get("schedulerName") not in settings.schedulers:
        return
    given = annotations_of(new).get(USER)
    known = annotations_of(request.old).get(USER) if request.old else None
    controller, builder = settings.acts_for_others(request.user), settings.builds_for_others(request.user)
    if given and (given in (known, request.user) or controller or (not builder and request.may_impersonate(given))):
        return
    if request.old is not None:
        user = known
    else:
        user = None if controller or builder else request.user or None
    if user != given:
        annotate(new, USER, user)
