"""Policies that keep users from holding what is another's share: evaluated by the API server, without a webhook.

A user who may create jobs and pods could otherwise keep them for ever, declare its jobs pending, or give its namespace
any weight. Each policy asks the authorizer for a right, in the namespace of the object:

- ``protect`` on ``pods`` of group pumice.dev: pods that are never evicted (``volcano.sh/preemptable: "false"``, a
  system-critical priority class), in whatever they are made from;
- ``update`` on ``podgroups/status``: the phase of a podgroup, which decides whether it may change its queue;
- ``weigh`` on ``namespaces`` of group pumice.dev: the weight of a namespace in its ResourceQuotas.

Resources of group pumice.dev are no kinds of an API: RBAC grants rights on any name. So an administrator opens what a
policy closes with a binding, for a user, a group or everyone (docs/who-may-do-what.md). A policy looks at what a
request changes: an object that was allowed before can be written by others.

Budgets need no policy: the scheduler lets them hold off evictions only with the plugin pdb (``scheduler.binder``).
"""

from __future__ import annotations

from typing import Any, Final

from pumice.install.install_options import INSTALL_NAME, VOLCANO_ACCOUNTS, InstallOptions, labels
from pumice.install.rbac import PROTECT_RULE, STATUS_RULE, WEIGH_RULE, PolicyRule
from pumice.install.user_roles import USERS
from pumice.install.webhook_configurations import own_pods_condition
from pumice.kube import resources
from pumice.kube.decode.convert import NAMESPACE_WEIGHT
from pumice.kube.decode.preemption_annotations import PREEMPTABLE
from pumice.kube.resources import Resource

Object = dict[str, Any]

PROTECTED, STATUS, WEIGHT = (
    f"{INSTALL_NAME}-protected",
    f"{INSTALL_NAME}-podgroup-status",
    f"{INSTALL_NAME}-namespace-weight",
)
"""The policies; those of protection are named after the resource too, as ``pumice-protected-pods``."""

_GROUP: Final = "admissionregistration.k8s.io/v1"
_CRITICAL: Final = ("system-cluster-critical", "system-node-critical")
_USER: Final = "request.userInfo.username"


def _keeps(place: str) -> str:
    """A CEL expression: whether the metadata at a place say that pods are not to be evicted."""
    texts = [
        f"{place}.?metadata.?{part}[?'{PREEMPTABLE}'].orValue('').lowerAscii()" for part in ("annotations", "labels")
    ]
    return " || ".join(f"{text} in ['false', 'f', '0']" for text in texts)


def _is_critical(spec: str) -> str:
    """A CEL expression: whether a spec names a priority class whose pods are never evicted."""
    return f"{spec}.?priorityClassName.orValue('') in [{', '.join(map(repr, _CRITICAL))}]"


def _in_job(spec: str) -> str:
    """A CEL expression: whether the spec of a Volcano Job protects pods."""
    template = "task.?template"
    in_task = f"{_keeps(template)} || {_is_critical(f'{template}.?spec')}"
    return f"{_is_critical(spec)} || {spec}.?tasks.orValue([]).exists(task, {in_task})"


def _protects(resource: Resource[Any], place: str) -> str:
    """A CEL expression: whether an object protects pods from eviction, itself or by what is made from it."""
    spec = _job_spec(resource, place)
    if resource is resources.JOBS:
        return f"{_keeps(place)} || {_in_job(spec)}"
    if resource is resources.CRON_JOBS:
        return f"{_keeps(spec.removesuffix('.?spec'))} || {_in_job(spec)}"
    if resource is resources.JOB_TEMPLATES:
        return _in_job(spec)
    if resource is resources.JOB_FLOWS:
        return f"{spec}.?flows.orValue([]).exists(flow, {_in_job('flow.?patch.?jobSpec')})"
    return f"{_keeps(place)} || {_is_critical(spec)}"


def _job_spec(resource: Resource[Any], place: str) -> str:
    """Where an object has the spec of a job; its own spec, unless it is a cron job."""
    return f"{place}.?spec.?jobTemplate.?spec" if resource is resources.CRON_JOBS else f"{place}.?spec"


def tenant_policies(choices: InstallOptions) -> list[Object]:
    """The policies, and what puts each into force."""
    found = _protection(resources.PODS, choices) + _protection(resources.POD_GROUPS, choices)
    for resource in (resources.JOBS, resources.CRON_JOBS, resources.JOB_TEMPLATES):
        found += _protection(resource, choices)
    if not choices.beside_volcano:  # there a patch does not say for which scheduler its job is
        found += _protection(resources.JOB_FLOWS, choices)
    return [*found, *_podgroup_status(choices), *_namespace_weight(choices)]


def _protection(resource: Resource[Any], choices: InstallOptions) -> list[Object]:
    condition = f"({_protects(resource, 'object')}) && !{_before(_protects(resource, 'oldObject'))}"
    message = f"{_USER} + ' may not protect pods from eviction: {PREEMPTABLE}, priorityClassName of the system'"
    conditions = [{"name": "protects", "expression": condition}]
    if resource is resources.PODS:
        conditions.insert(0, own_pods_condition(choices))
    elif choices.beside_volcano and resource is not resources.POD_GROUPS:  # jobs for Volcano are left to Volcano
        names = ", ".join(f"'{name}'" for name in choices.schedulers)
        ours = f"{_job_spec(resource, 'object')}.?schedulerName.orValue('') in [{names}]"
        conditions.insert(0, {"name": "ours", "expression": ours})
    return _policy(f"{PROTECTED}-{resource.plural}", resource, conditions, PROTECT_RULE, message, choices)


def _podgroup_status(choices: InstallOptions) -> list[Object]:
    """PodGroups have no status subresource, as in Volcano, so who may update them could write their status."""
    status = "{}.?status.orValue({{}})".format
    changes = f"{status('object')} != (request.operation == 'UPDATE' ? {status('oldObject')} : {{}})"
    message = f"'status: ' + {_USER} + ' may not set this; the scheduler does'"
    conditions = [{"name": "status-changes", "expression": changes}]
    return _policy(STATUS, resources.POD_GROUPS, conditions, STATUS_RULE, message, choices)


def _namespace_weight(choices: InstallOptions) -> list[Object]:
    weight = f"{{}}.?spec.?hard[?'{NAMESPACE_WEIGHT}'].orValue('')".format
    changes = f"string({weight('object')}) != (request.operation == 'UPDATE' ? string({weight('oldObject')}) : '')"
    message = f"'spec.hard[{NAMESPACE_WEIGHT}]: ' + {_USER} + ' may not set the weight of a namespace'"
    conditions = [{"name": "weight-changes", "expression": changes}]
    return _policy(WEIGHT, resources.RESOURCE_QUOTAS, conditions, WEIGH_RULE, message, choices)


def _before(expression: str) -> str:
    """Whether something was so before a request; never on CREATE."""
    return f"(request.operation == 'UPDATE' && ({expression}))"


def _policy(
    name: str,
    resource: Resource[Any],
    conditions: list[Object],
    right: PolicyRule,
    message: str,
    choices: InstallOptions,
) -> list[Object]:
    """A policy for the requests that meet all conditions: the user needs a right in the namespace."""
    group, _, version = resource.api_version.rpartition("/")
    (verb,), (asked,) = right.verbs, right.resources
    main, _, part = asked.partition("/")
    check = f"authorizer.group('{right.group}').resource('{main}')"
    check += f".subresource('{part}')" if part else ""
    allowed = f"{check}.namespace(request.namespace).check('{verb}').allowed()"
    if choices.beside_volcano:
        allowed += f" || {_USER}.startsWith('{VOLCANO_ACCOUNTS}')"
    rule = {
        "apiGroups": [group],
        "apiVersions": [version],
        "resources": [resource.plural],
        "operations": ["CREATE", "UPDATE"],
        "scope": "Namespaced",
    }
    home = {"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": ["kube-system", choices.namespace]}
    remedy = f" (needs verb {verb} on {asked} of group {right.group} in this namespace)"
    about = {"metadata": {"name": name, "labels": labels(USERS)}}
    policy = {
        "failurePolicy": "Fail",
        "matchConstraints": {
            "matchPolicy": "Equivalent",
            "namespaceSelector": {"matchExpressions": [home]},
            "resourceRules": [rule],
        },
        "matchConditions": conditions,
        "validations": [{"expression": allowed, "messageExpression": f"{message} + '{remedy}'", "reason": "Forbidden"}],
    }
    return [
        {"apiVersion": _GROUP, "kind": "ValidatingAdmissionPolicy", **about, "spec": policy},
        {
            "apiVersion": _GROUP,
            "kind": "ValidatingAdmissionPolicyBinding",
            **about,
            "spec": {"policyName": name, "validationActions": ["Deny"]},
        },
    ]
