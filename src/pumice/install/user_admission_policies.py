"""Policies on the user annotation of pods and podgroups, evaluated by the API server even while no webhook answers.

The webhook sets the user who created a pod, and removes a user that the caller may not impersonate (docs/fairness.md,
section 8.4). Pods are admitted without the webhook when it is down, and could then name any user. A policy runs after
all webhooks: while the webhook answers, the policy finds nothing to refuse. Podgroups get the same policy, because
beside Volcano they are admitted without the webhook too, and their user counts. The policies apply in all namespaces,
also where the webhooks are not called: they depend on no running component.

Only the controllers of Pumice have the right to name other users (``SET_USER_RULE``). The policies do not name their
service account, so an overlay for another namespace needs no change here. Volcano's service accounts are matched by
name.
"""

from __future__ import annotations

from typing import Any

from pumice.install.install_options import INSTALL_NAME, VOLCANO_ACCOUNTS, InstallOptions, labels
from pumice.install.rbac import SET_USER_RULE
from pumice.install.webhook_configurations import named_user, own_pods_condition
from pumice.kube.decode.preemption_annotations import USER
from pumice.kube.resources import POD_GROUPS, PODS, Resource

Object = dict[str, Any]

_GROUP = "admissionregistration.k8s.io/v1"
_BEFORE = f"(request.operation == 'UPDATE' ? {named_user('oldObject')} : '')"
_MESSAGE = (
    f"'metadata.annotations[{USER}]: ' + request.userInfo.username + ' may not set this to \"' + variables.said + '\"; "
    "name yourself or nobody, leave it as it is afterwards, or ask for the right to impersonate that user'"
)


def user_policies(choices: InstallOptions) -> list[Object]:
    """For pods and for podgroups, a policy and what puts it into force."""
    return [made for resource in (PODS, POD_GROUPS) for made in (_policy(resource, choices), _binding(resource))]


def _policy(resource: Resource[Any], choices: InstallOptions) -> Object:
    group, _, version = resource.api_version.rpartition("/")
    rule = {
        "apiGroups": [group],
        "apiVersions": [version],
        "resources": [resource.plural],
        "operations": ["CREATE", "UPDATE"],
        "scope": "Namespaced",
    }
    named = {"name": "user-changes", "expression": f"{named_user('object')} != {_BEFORE}"}
    return {
        **_head("ValidatingAdmissionPolicy", resource),
        "spec": {
            "failurePolicy": "Fail",
            "matchConstraints": {
                "matchPolicy": "Equivalent",
                "resourceRules": [rule],
            },
            "matchConditions": [*([own_pods_condition(choices)] if resource is PODS else []), named],
            "variables": [
                {"name": "said", "expression": named_user("object")},
                {"name": "user", "expression": f"variables.said != '' ? variables.said : {_BEFORE}"},
            ],
            "validations": [{"expression": _allowed(choices), "messageExpression": _MESSAGE, "reason": "Forbidden"}],
        },
    }


def _allowed(choices: InstallOptions) -> str:
    """Allowed: callers that name themselves, may impersonate the user (or the previous user), or may set any user."""
    (verb,), (resource,) = SET_USER_RULE.verbs, SET_USER_RULE.resources
    ways = [
        "variables.said == request.userInfo.username",
        "authorizer.group('').resource('users').name(variables.user).check('impersonate').allowed()",
        f"authorizer.group('{SET_USER_RULE.group}').resource('{resource}').check('{verb}').allowed()",
    ]
    if choices.beside_volcano:
        ways.append(f"request.userInfo.username.startsWith('{VOLCANO_ACCOUNTS}')")
    return " || ".join(ways)


def _binding(resource: Resource[Any]) -> Object:
    spec = {"policyName": _name(resource), "validationActions": ["Deny"]}
    return {**_head("ValidatingAdmissionPolicyBinding", resource), "spec": spec}


def _head(kind: str, resource: Resource[Any]) -> Object:
    return {"apiVersion": _GROUP, "kind": kind, "metadata": {"name": _name(resource), "labels": labels("webhooks")}}


def _name(resource: Resource[Any]) -> str:
    return f"{INSTALL_NAME}-users-of-{resource.plural}"
