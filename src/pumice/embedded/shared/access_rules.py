"""What users of a shared machine may do: everything in their own namespace, and look at the rest without its secrets.

| who | may |
|---|---|
| root, the cluster's own processes | everything |
| the owner of a namespace | read all of it; create, change and delete what users make (``OWN``) |
| administrators | read and delete everything; change what is in no namespace, and ``ADMINISTERED`` in every one |
| everybody | read what is in no namespace (queues, nodes ...), ``PUBLIC``, and others' ``REDUCED`` in reduced form |

Administrators do not create or change what runs in the namespace of another user, because it would run as that user.
"""

from __future__ import annotations

from kubesim.api import status
from kubesim.api.access import Principal
from kubesim.api.requests import Target
from pumice.embedded.shared.reduced_objects import REDUCED

LOOKING = frozenset({"get", "list", "watch"})
REMOVING = frozenset({"delete", "deletecollection"})
OWN = frozenset(
    {
        "pods",
        "configmaps",
        "secrets",
        "services",
        "persistentvolumeclaims",
        "replicationcontrollers",
        "deployments.apps",
        "replicasets.apps",
        "statefulsets.apps",
        "daemonsets.apps",
        "jobs.batch",
        "cronjobs.batch",
        "poddisruptionbudgets.policy",
        "networkpolicies.networking.k8s.io",
        "jobs.batch.volcano.sh",
        "cronjobs.batch.volcano.sh",
        "jobtemplates.flow.volcano.sh",
        "jobflows.flow.volcano.sh",
        "podgroups.scheduling.volcano.sh",
        "commands.bus.volcano.sh",
    }
)
"""What users create in their namespaces. Quotas, Events, Leases and service accounts are not among them."""
OWN_SUBRESOURCES = frozenset({"", "scale", "eviction"})
"""Not ``status`` and ``binding``, which are the agent's and the scheduler's."""
ADMINISTERED = frozenset(
    {
        "podgroups.scheduling.volcano.sh",
        "commands.bus.volcano.sh",
        "resourcequotas",
        "poddisruptionbudgets.policy",
        "events",
    }
)
"""What administrators change in namespaces of others: it says when something runs, not what."""
PUBLIC = frozenset({"resourcequotas", "csistoragecapacities.storage.k8s.io"})


def judge(who: Principal, verb: str, target: Target) -> bool:
    """Whether a request sees objects whole; False: reduced. ``ApiError`` if it is refused."""
    resource = target.resource
    if who.privileged or resource.verbs == ("create",):  # a question about oneself
        return True
    if not resource.namespaced:
        if verb in LOOKING or (who.administrator and not _reaches_owner(target)):
            return True
        raise refusal(who, verb, target)
    if target.namespace and target.namespace == who.namespace:
        if verb in LOOKING or _is_own_write(verb, target):
            return True
        raise refusal(who, verb, target)
    if who.administrator and _may_administrate(verb, target):
        return True
    if verb in LOOKING and resource.qualified in PUBLIC:
        return True
    if verb in LOOKING and resource.qualified in REDUCED and target.subresource in {"", "status"}:
        return False
    raise refusal(who, verb, target)


def _reaches_owner(target: Target) -> bool:
    """Whether a write could change whose a namespace is past admission: subresources take annotations too."""
    return target.resource.qualified == "namespaces" and bool(target.subresource)


def _is_own_write(verb: str, target: Target) -> bool:
    return target.resource.qualified in OWN and target.subresource in OWN_SUBRESOURCES


def _may_administrate(verb: str, target: Target) -> bool:
    if verb in LOOKING or (verb in REMOVING and not target.subresource) or target.subresource == "eviction":
        return True
    return target.resource.qualified in ADMINISTERED and target.subresource in {"", "status"}


def refusal(who: Principal, verb: str, target: Target) -> status.ApiError:
    """The refusal, as RBAC words it."""
    resource = target.resource
    named = f"{resource.plural}/{target.subresource}" if target.subresource else resource.plural
    where = f'in the namespace "{target.namespace}"' if target.namespace else "at the cluster scope"
    message = f'User "{who.name}" cannot {verb} resource "{named}" in API group "{resource.group}" {where}'
    return status.forbidden(resource.plural, resource.group, target.name, message)
