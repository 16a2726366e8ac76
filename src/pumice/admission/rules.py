"""Which rules apply to which resource: one table of defaults, one of checks.

``admit`` is the whole of admission: it fills in defaults, then validates the result. It reads only the ``ClusterView``
and has no side effects: the caller that stores the object updates the view.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from pumice.admission import queue_admission
from pumice.admission.cluster_view import ClusterView
from pumice.admission.effectless_fields import effectless_fields
from pumice.admission.jobs import (
    cron_jobs,
    job_arrays,
    job_defaults,
    job_flows,
    job_order,
    job_plugins,
    job_policies,
    job_tasks,
    job_templates,
    job_update,
)
from pumice.admission.queues import queue_defaults, queue_deletion, queue_parent, queue_quotas
from pumice.admission.queues.queue_change import QueueChange, queue_change
from pumice.admission.request import (
    CREATE,
    CRON_JOBS,
    DELETE,
    HYPER_NODES,
    JOB_FLOWS,
    JOB_TEMPLATES,
    JOBS,
    OPERATIONS,
    PODGROUPS,
    PODS,
    QUEUES,
    UPDATE,
    Object,
    Refusal,
    Request,
    Verdict,
    metadata_of,
    spec_of,
)
from pumice.admission.routing import route_to_leaf
from pumice.admission.topology_rules import hyper_node_is_sound, topology_names_one_tier
from pumice.admission.user_attribution import stamp_user, user_is_printable

Default = Callable[[Object, Request, ClusterView], None]
"""Fills in a default. It may edit ``new``, its metadata and its spec; deeper values must be replaced."""

Rule = Callable[[Request, ClusterView], Iterable[Refusal]]
"""Returns the violations."""

PLACE_RULES: tuple[Callable[[QueueChange], Iterable[Refusal]], ...] = (*queue_parent.RULES, *queue_quotas.RULES)
"""The rules for a queue that is created or changed."""


def queue_is_sound(request: Request, world: ClusterView) -> Iterator[Refusal]:
    """The queue can be parsed, and the tree with it is valid: every rule about places and amounts, in turn."""
    change = queue_change(request, world)
    if isinstance(change, list):
        yield from change
    elif change is not None:
        for rule in PLACE_RULES:
            yield from rule(change)


DEFAULTS: dict[tuple[str, str], tuple[Default, ...]] = {
    (QUEUES, CREATE): queue_defaults.RULES,
    (QUEUES, UPDATE): queue_defaults.RULES,
    (PODGROUPS, CREATE): (stamp_user, route_to_leaf),
    (PODGROUPS, UPDATE): (stamp_user, route_to_leaf),
    (JOBS, CREATE): (stamp_user, route_to_leaf, *job_defaults.RULES, *job_plugins.DEFAULTS),
    (JOBS, UPDATE): (stamp_user, route_to_leaf, *job_defaults.RULES, *job_plugins.DEFAULTS),
    (JOB_FLOWS, CREATE): (stamp_user,),
    (JOB_FLOWS, UPDATE): (stamp_user,),
    (CRON_JOBS, CREATE): (stamp_user,),
    (CRON_JOBS, UPDATE): (stamp_user,),
    (PODS, CREATE): (stamp_user,),
    (PODS, UPDATE): (stamp_user,),
}

JOB_RULES: tuple[Rule, ...] = (*job_tasks.RULES, *job_policies.RULES, *job_plugins.RULES)
"""The rules for the spec of a job by itself."""

ANNOTATED: tuple[Rule, ...] = (*job_arrays.RULES, *job_order.RULES)
"""The rules for what annotations of a job ask for."""

RULES: dict[tuple[str, str], tuple[Rule, ...]] = {
    (QUEUES, CREATE): (queue_is_sound,),
    (QUEUES, UPDATE): (queue_is_sound,),
    (QUEUES, DELETE): queue_deletion.RULES,
    (PODGROUPS, CREATE): (*queue_admission.RULES, topology_names_one_tier, user_is_printable),
    (PODGROUPS, UPDATE): (
        *queue_admission.RULES,
        queue_admission.moves_only_while_pending,
        topology_names_one_tier,
        user_is_printable,
    ),
    (JOBS, CREATE): (*queue_admission.RULES, *JOB_RULES, *ANNOTATED, topology_names_one_tier, user_is_printable),
    (JOBS, UPDATE): (*job_update.RULES, *JOB_RULES, *ANNOTATED, topology_names_one_tier, user_is_printable),
    (JOB_TEMPLATES, CREATE): job_templates.RULES,
    (JOB_TEMPLATES, UPDATE): job_templates.RULES,
    (JOB_FLOWS, CREATE): (*job_flows.RULES, user_is_printable),
    (JOB_FLOWS, UPDATE): (*job_flows.RULES, user_is_printable),
    (CRON_JOBS, CREATE): (*cron_jobs.RULES, user_is_printable),
    (CRON_JOBS, UPDATE): (*cron_jobs.RULES, user_is_printable),
    (HYPER_NODES, CREATE): (hyper_node_is_sound,),
    (HYPER_NODES, UPDATE): (hyper_node_is_sound,),
}

ADMITTED = frozenset(resource for resource, _ in (*DEFAULTS, *RULES))
"""The resources that admission handles."""


def admit(request: Request, world: ClusterView) -> Verdict:
    """The verdict on a request."""
    if request.operation not in OPERATIONS:
        known = ", ".join(OPERATIONS)
        return Verdict(None, [Refusal(f"Unsupported value: {request.operation!r}: supported operations: {known}")])
    if request.resource in {JOBS, CRON_JOBS} and (too_many := job_tasks.too_many_tasks(request)):
        return Verdict(None, too_many)
    filled = request if request.new is None else request.with_defaults(mutate(request, world))
    return Verdict(filled.new, validate(filled, world), warnings(filled, world))


def mutate(request: Request, world: ClusterView) -> Object:
    """The object with all defaults: a new one, or the same if nothing changed."""
    if request.new is None:
        raise ValueError(f"{request.operation}: no object to set defaults in")
    rules = DEFAULTS.get((request.resource, request.operation), ())
    if not rules or _is_leaving(request):
        return request.new
    new = {**request.new, "metadata": dict(metadata_of(request.new)), "spec": dict(spec_of(request.new))}
    for rule in rules:
        rule(new, request, world)
    return new if new != request.new else request.new


def validate(request: Request, world: ClusterView) -> list[Refusal]:
    """All violations of a request whose object has its defaults."""
    if _is_leaving(request):
        return []
    found = (
        refusal for rule in RULES.get((request.resource, request.operation), ()) for refusal in rule(request, world)
    )
    return list(dict.fromkeys(found))  # two rules may report the same: for root, both limits are the cluster


def warnings(request: Request, world: ClusterView) -> list[str]:
    """Warnings for the caller of an admitted request."""
    if request.operation == DELETE or _is_leaving(request):
        return []
    found = list(effectless_fields(request.resource, request.object, request.old))
    if request.operation != CREATE:
        return found
    spec, settings = spec_of(request.object), world.settings
    if request.resource == JOBS:
        found += job_plugins.plugin_warnings(request.object)
    if request.resource == JOB_FLOWS:
        found += job_flows.flow_warnings(request.object, world)
    if request.resource == PODS and settings.alone and not spec.get("nodeName"):
        named = spec.get("schedulerName") or ""
        if named not in settings.schedulers:
            found.append(
                f"spec.schedulerName: no scheduler named '{named}' runs in this cluster; use "
                f"'{settings.default_scheduler}'"
            )
    return found


def _is_leaving(request: Request) -> bool:
    """Whether an update concerns a terminating object: nothing may block the removal of its finalizers."""
    return request.operation == UPDATE and "deletionTimestamp" in metadata_of(request.object)
