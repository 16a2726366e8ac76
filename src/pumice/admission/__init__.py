"""Admission: fill in defaults and reject invalid objects before they are stored.

    request ──► mutate (defaults, in order) ──► validate (every rule) ──► verdict
                          └─────── ClusterView: what rules may look up ───────┘

Pure functions over JSON objects, one per rule, each with its own message; ``rules`` maps resources to rules. The
embedded API server calls them in its write path, a webhook calls them for a real API server, and the simulator when it
reads a scenario.

What admission does *not* do: it writes one object at a time, the one under review. Controllers expand hierarchies,
delete what is below a deleted queue, create the podgroup of a plain pod (which has no uid to derive a name from yet),
settle the user limits of a queue that got its first child or lost its last one, and turn the annotation
``pumice.dev/routed`` into an Event; they use ``with_user_limits_settled``, ``cascade_plan`` and ``route``.
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
