"""Admission: what is filled in, and what is refused, before an object is stored.

    request ──► mutate (defaults, in order) ──► validate (every rule) ──► verdict
                          └─────── ClusterView: what rules may look up ───────┘

Pure functions over objects as JSON has them, one a rule, each with its own message; ``rules`` says which apply to what.
The embedded API server calls them in its write path, a webhook for a real one behind HTTP, the simulator when it reads
a scenario.

What is *not* admission's part: it writes one object at a time, the one it is asked about. Expanding a hierarchy,
deleting what is below a deleted queue, giving a plain pod its podgroup (it has no uid to be named after yet), settling
the user limits of a queue whose first child came or whose last child went, and making an Event of the annotation
``pumice.dev/routed`` are left to controllers, which use ``with_user_limits_settled``, ``cascade_plan`` and ``route``.
"""

from __future__ import annotations

from pumice.admission.cluster_view import FOLLOWED, ClusterView
from pumice.admission.queues.new_queues import admit_queues
from pumice.admission.queues.queue_deletion import PROTECTED, CascadePlan, cascade_plan
from pumice.admission.request import (
    CREATE,
    DELETE,
    QUEUE_FINALIZER,
    UPDATE,
    Object,
    Refusal,
    Request,
    Settings,
    Verdict,
)
from pumice.admission.routing import ROUTED, Route, route
from pumice.admission.rules import ADMITTED, admit, mutate, validate
from pumice.admission.user_limits import USER_LIMITS, with_user_limits_settled

__all__ = [
    "ADMITTED",
    "CREATE",
    "DELETE",
    "FOLLOWED",
    "PROTECTED",
    "QUEUE_FINALIZER",
    "ROUTED",
    "UPDATE",
    "USER_LIMITS",
    "CascadePlan",
    "ClusterView",
    "Object",
    "Refusal",
    "Request",
    "Route",
    "Settings",
    "Verdict",
    "admit",
    "admit_queues",
    "cascade_plan",
    "mutate",
    "route",
    "validate",
    "with_user_limits_settled",
]
