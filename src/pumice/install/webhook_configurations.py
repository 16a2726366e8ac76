"""The webhook configurations: the requests that the API server sends to the webhooks, and the failure policy.

Kinds and operations follow from the tables of the admission rules. Only Pumice handles queues, podgroups and jobs, so
they cannot be written while no webhook answers (``Fail``): an inconsistent queue tree would harm all users. Pods belong
to all users of the cluster and must not wait for Pumice (``Ignore``, with a short timeout): without the webhook only
their user annotation is missing, and then their namespace counts. Meanwhile a policy keeps users from naming other
users (``user_admission_policies``). Pods of kube-system and of Pumice are not sent to the webhooks.

The match conditions save calls, and keep components working while the webhooks are down: the scheduler can write the
status of podgroups, which have no status subresource, and finalizers can be removed from objects in deletion.
"""

from __future__ import annotations

from typing import Any

from pumice.admission.request import CRON_JOBS, HYPER_NODES, JOB_FLOWS, JOB_TEMPLATES, JOBS, PODGROUPS, PODS, QUEUES
from pumice.admission.rules import DEFAULTS, RULES
from pumice.install.install_options import INSTALL_NAME, InstallOptions, labels
from pumice.kube import resources
from pumice.kube.decode.preemption_annotations import USER

Object = dict[str, Any]

WEBHOOK_SERVICE = f"{INSTALL_NAME}-webhooks"
MUTATE, VALIDATE = "/mutate", "/validate"  # as admission.webhooks.server has them
TIMEOUT_SECONDS, POD_TIMEOUT_SECONDS = 5, 2
"""Timeout of the API server for a call, in seconds; a shorter one for pods."""

_RESOURCES: dict[str, resources.Resource[Any]] = {
    QUEUES: resources.QUEUES,
    PODGROUPS: resources.POD_GROUPS,
    JOBS: resources.JOBS,
    JOB_TEMPLATES: resources.JOB_TEMPLATES,
    JOB_FLOWS: resources.JOB_FLOWS,
    CRON_JOBS: resources.CRON_JOBS,
    PODS: resources.PODS,
    HYPER_NODES: resources.HYPER_NODES,
}
_OF_VOLCANO = frozenset({JOBS, JOB_TEMPLATES, JOB_FLOWS, CRON_JOBS, HYPER_NODES})
"""Resources that are left to Volcano's webhooks beside Volcano."""
_ORDER = ("CREATE", "UPDATE", "DELETE")


def _differ(part: str) -> str:
    """A CEL expression: whether a field has changed, was added or was removed."""
    return f"has(object.{part}) != has(oldObject.{part}) || (has(object.{part}) && object.{part} != oldObject.{part})"


def named_user(place: str) -> str:
    """The user that an object names; empty if none."""
    there = f"has({place}.metadata.annotations) && '{USER}' in {place}.metadata.annotations"
    return f"({there} ? {place}.metadata.annotations['{USER}'] : '')"


_STAYS = "request.operation != 'UPDATE' || !has(object.metadata.deletionTimestamp)"
_MEANT = f"request.operation != 'UPDATE' || {_differ('spec')} || {_differ('metadata.annotations')}"
_OWNED = f"request.operation != 'UPDATE' || {named_user('object')} != {named_user('oldObject')}"


def own_pods_condition(choices: InstallOptions) -> Object:
    """The match condition for pods that Pumice places."""
    names = ", ".join(f"'{name}'" for name in choices.schedulers)
    return {"name": "ours", "expression": f"object.spec.schedulerName in [{names}]"}


def _namespace_selector(choices: InstallOptions) -> Object:
    """All namespaces except kube-system and that of the installation."""
    home = {"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": ["kube-system", choices.namespace]}
    return {"matchExpressions": [home]}


def _conditions(resource: str, choices: InstallOptions) -> list[Object]:
    """The match conditions of a webhook."""
    stays = {"name": "stays", "expression": _STAYS}
    if resource == PODS:
        return [own_pods_condition(choices), stays, {"name": "user-changes", "expression": _OWNED}]
    return [stays, {"name": "more-than-status-changes", "expression": _MEANT}]


def _client(path: str, choices: InstallOptions) -> Object:
    if choices.webhook_url:
        return {"url": f"{choices.webhook_url.rstrip('/')}{path}"}
    return {"service": {"name": WEBHOOK_SERVICE, "namespace": choices.namespace, "path": path, "port": 443}}


def _webhook(resource: str, operations: list[str], path: str, choices: InstallOptions) -> Object:
    found = _RESOURCES[resource]
    group, _, version = found.api_version.rpartition("/")
    foreign = resource == PODS or choices.beside_volcano
    return {
        "name": f"{found.plural}.admission.pumice.dev",
        "clientConfig": _client(path, choices),
        "rules": [
            {
                "apiGroups": [group],
                "apiVersions": [version],
                "resources": [found.plural],
                "operations": operations,
                "scope": "Namespaced" if found.namespaced else "Cluster",
            }
        ],
        "admissionReviewVersions": ["v1"],
        "failurePolicy": "Ignore" if foreign else "Fail",
        "matchConditions": _conditions(resource, choices),
        "matchPolicy": "Equivalent",
        "namespaceSelector": _namespace_selector(choices),
        "sideEffects": "None",
        "timeoutSeconds": POD_TIMEOUT_SECONDS if resource == PODS else TIMEOUT_SECONDS,
    }


def both_configurations(choices: InstallOptions) -> list[Object]:
    """Both of them."""
    return [
        _configuration("MutatingWebhookConfiguration", list(DEFAULTS), MUTATE, choices),
        _configuration("ValidatingWebhookConfiguration", list(RULES), VALIDATE, choices),
    ]


def _configuration(kind: str, judged: list[tuple[str, str]], path: str, choices: InstallOptions) -> Object:
    operations: dict[str, list[str]] = {}
    for resource, operation in sorted(judged, key=lambda one: _ORDER.index(one[1])):
        if not (choices.beside_volcano and resource in _OF_VOLCANO):
            operations.setdefault(resource, []).append(operation)
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": kind,
        "metadata": {"name": INSTALL_NAME, "labels": labels("webhooks")},
        "webhooks": [_webhook(resource, operations[resource], path, choices) for resource in sorted(operations)],
    }
