"""The webhook configurations: what the API server asks us about, and what it does if we do not answer.

Which kinds and operations those are follows from the tables of the rules. Queues, podgroups and jobs are nobody's but
ours, so while nobody judges them they cannot be written (``Fail``): a tree of queues that is unsound hurts everybody.
Pods are everybody's. Nobody's pod may wait for us (``Ignore``, and soon): all that is lost is whose it is, and then its
namespace counts. Meanwhile a policy keeps users from naming others (``user_admission_policies``). Kubernetes' own pods
and ours are not asked about at all.

Conditions spare calls, and see to it that a webhook which is down keeps nobody from working: the scheduler writes the
status of podgroups, which have no separate one, and what is being deleted may let go.
"""

from __future__ import annotations

from typing import Any

from pumice.admission.request import JOBS, PODGROUPS, PODS, QUEUES
from pumice.admission.rules import DEFAULTS, RULES
from pumice.install.install_options import INSTALL_NAME, InstallOptions, labels
from pumice.kube import resources
from pumice.kube.decode.preemption_annotations import USER

Object = dict[str, Any]

WEBHOOK_SERVICE = f"{INSTALL_NAME}-webhooks"
MUTATE, VALIDATE = "/mutate", "/validate"  # as admission.webhooks.server has them
TIMEOUT_SECONDS, POD_TIMEOUT_SECONDS = 5, 2
"""Seconds that the API server waits for us: with what is ours, and with pods."""

_RESOURCES: dict[str, resources.Resource[Any]] = {
    QUEUES: resources.QUEUES,
    PODGROUPS: resources.POD_GROUPS,
    JOBS: resources.JOBS,
    PODS: resources.PODS,
}
_ORDER = ("CREATE", "UPDATE", "DELETE")


def _differ(part: str) -> str:
    """Whether a part of an object has become another, or has come or gone."""
    return f"has(object.{part}) != has(oldObject.{part}) || (has(object.{part}) && object.{part} != oldObject.{part})"


def named_user(place: str) -> str:
    """The user that an object names; empty if none."""
    there = f"has({place}.metadata.annotations) && '{USER}' in {place}.metadata.annotations"
    return f"({there} ? {place}.metadata.annotations['{USER}'] : '')"


_STAYS = "request.operation != 'UPDATE' || !has(object.metadata.deletionTimestamp)"
_MEANT = f"request.operation != 'UPDATE' || {_differ('spec')} || {_differ('metadata.annotations')}"
_OWNED = f"request.operation != 'UPDATE' || {named_user('object')} != {named_user('oldObject')}"


def own_pods_condition(choices: InstallOptions) -> Object:
    """The condition that a pod is placed by us."""
    names = ", ".join(f"'{name}'" for name in choices.schedulers)
    return {"name": "ours", "expression": f"object.spec.schedulerName in [{names}]"}


def _namespace_selector(choices: InstallOptions) -> Object:
    """Namespaces that are neither ours nor Kubernetes' own."""
    home = {"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": ["kube-system", choices.namespace]}
    return {"matchExpressions": [home]}


def _conditions(resource: str, choices: InstallOptions) -> list[Object]:
    """When it is worth asking."""
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
        if not (choices.beside_volcano and resource == JOBS):
            operations.setdefault(resource, []).append(operation)
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": kind,
        "metadata": {"name": INSTALL_NAME, "labels": labels("webhooks")},
        "webhooks": [_webhook(resource, operations[resource], path, choices) for resource in sorted(operations)],
    }
