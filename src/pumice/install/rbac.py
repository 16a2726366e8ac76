"""The permissions of each component: exactly those that it uses.

``tests/install/test_rbac.py`` runs all components with these permissions on a real API server and compares the
requests with the rules. A watched resource needs ``list`` and ``watch``; a resource that is read by name needs ``get``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from pumice.install.install_options import INSTALL_NAME, InstallOptions, labels

Object = dict[str, Any]

SCHEDULER, CONTROLLERS, WEBHOOKS = "scheduler", "controllers", "webhooks"
CERTIFICATE_SECRET = f"{INSTALL_NAME}-webhooks"
"""The Secret with the certificate of the webhooks."""

CONFIG_MAP = f"{INSTALL_NAME}-scheduler"
"""The ConfigMap with the scheduler's configuration."""

LIST_WATCH = ("list", "watch")
_VOLCANO, _JOBS, _BUS = "scheduling.volcano.sh", "batch.volcano.sh", "bus.volcano.sh"


class PolicyRule(NamedTuple):
    """Verbs on resources of a group; with names only on those objects."""

    group: str
    resources: tuple[str, ...]
    verbs: tuple[str, ...]
    names: tuple[str, ...] = ()

    def rule(self) -> Object:
        """As RBAC writes it."""
        rule: Object = {"apiGroups": [self.group], "resources": [*self.resources], "verbs": [*self.verbs]}
        return {**rule, "resourceNames": [*self.names]} if self.names else rule


SET_USER_RULE = PolicyRule("pumice.dev", ("users",), ("name",))
"""Permission to set the user of pods and podgroups. It is no kind of an API; the admission policies check it."""
CLUSTER_UID_RULE = PolicyRule("", ("namespaces",), ("get",), ("kube-system",))
"""The uid of this namespace identifies the cluster."""

CLUSTER_RULES: dict[str, tuple[PolicyRule, ...]] = {
    SCHEDULER: (
        CLUSTER_UID_RULE,
        PolicyRule("", ("nodes", "resourcequotas"), LIST_WATCH),
        PolicyRule("", ("pods",), ("get", *LIST_WATCH)),
        PolicyRule("", ("pods/binding", "pods/eviction"), ("create",)),
        PolicyRule("", ("pods/status",), ("patch",)),
        PolicyRule("", ("events",), ("create", "patch")),
        PolicyRule("policy", ("poddisruptionbudgets",), LIST_WATCH),
        PolicyRule("scheduling.k8s.io", ("priorityclasses",), LIST_WATCH),
        PolicyRule(_VOLCANO, ("queues",), LIST_WATCH),
        PolicyRule(_VOLCANO, ("queues/status",), ("patch",)),
        PolicyRule(_VOLCANO, ("podgroups",), (*LIST_WATCH, "patch")),
    ),
    CONTROLLERS: (
        CLUSTER_UID_RULE,
        SET_USER_RULE,
        PolicyRule("", ("pods",), (*LIST_WATCH, "create", "patch", "delete")),
        PolicyRule("", ("events",), ("create",)),
        PolicyRule("", ("configmaps",), ("get", "create", "patch")),
        PolicyRule("", ("services",), ("get", "create")),
        PolicyRule("apps", ("replicasets", "statefulsets"), ("get",)),
        PolicyRule("batch", ("jobs",), ("get",)),
        PolicyRule(_VOLCANO, ("queues",), ("get", *LIST_WATCH, "create", "patch", "delete")),
        PolicyRule(_VOLCANO, ("queues/status",), ("patch",)),
        PolicyRule(_VOLCANO, ("podgroups",), (*LIST_WATCH, "create", "patch", "delete")),
        PolicyRule(_JOBS, ("jobs",), ("get", *LIST_WATCH, "delete")),
        PolicyRule(_JOBS, ("jobs/status",), ("update",)),
        # Asked for by the server where owners are guarded (OwnerReferencesPermissionEnforcement): who deletes a job in
        # the foreground waits for its pods.
        PolicyRule(_JOBS, ("jobs/finalizers",), ("update",)),
        PolicyRule(_BUS, ("commands",), (*LIST_WATCH, "delete")),
    ),
    WEBHOOKS: (
        CLUSTER_UID_RULE,
        PolicyRule("", ("namespaces", "nodes"), LIST_WATCH),
        PolicyRule(_VOLCANO, ("queues", "podgroups"), LIST_WATCH),
        PolicyRule(_JOBS, ("jobs",), LIST_WATCH),
        PolicyRule("authorization.k8s.io", ("subjectaccessreviews",), ("create",)),
        PolicyRule(
            "admissionregistration.k8s.io",
            ("mutatingwebhookconfigurations", "validatingwebhookconfigurations"),
            ("get", "patch"),
            (INSTALL_NAME,),
        ),
    ),
}
"""Rights in the whole cluster."""

_JOBS_ONLY = frozenset({("", "configmaps"), ("", "services"), (_JOBS, "jobs/status"), (_JOBS, "jobs/finalizers")})
"""Rules that the controllers need for Volcano Jobs only."""


def _lease_rules(component: str) -> tuple[PolicyRule, ...]:
    lease = (f"{INSTALL_NAME}-{component}",)
    return (
        PolicyRule("coordination.k8s.io", ("leases",), ("create",)),  # a create request has no resource name
        PolicyRule("coordination.k8s.io", ("leases",), ("get", "update"), lease),
    )


NAMESPACE_RULES: dict[str, tuple[PolicyRule, ...]] = {
    SCHEDULER: (*_lease_rules(SCHEDULER), PolicyRule("", ("configmaps",), LIST_WATCH, (CONFIG_MAP,))),
    CONTROLLERS: _lease_rules(CONTROLLERS),
    WEBHOOKS: (
        PolicyRule("", ("secrets",), ("create",)),
        PolicyRule("", ("secrets",), ("get", "update"), (CERTIFICATE_SECRET,)),
    ),
}
"""Rules in the namespace of the installation."""


def components(choices: InstallOptions) -> list[str]:
    """The installed components."""
    return [SCHEDULER, CONTROLLERS, *([WEBHOOKS] if choices.webhooks else [])]


def policy_rules_of(component: str, choices: InstallOptions) -> tuple[Sequence[PolicyRule], Sequence[PolicyRule]]:
    """The cluster rules and the namespace rules of a component."""
    everywhere: Sequence[PolicyRule] = CLUSTER_RULES[component]
    if component == CONTROLLERS and choices.beside_volcano:
        everywhere = [one for one in everywhere if not any((one.group, name) in _JOBS_ONLY for name in one.resources)]
    return everywhere, NAMESPACE_RULES[component]


def account_manifests(component: str, choices: InstallOptions) -> list[Object]:
    """The account of a component, and its rights."""
    name, home = f"{INSTALL_NAME}-{component}", choices.namespace
    subject = [{"kind": "ServiceAccount", "name": name, "namespace": home}]
    everywhere, at_home = policy_rules_of(component, choices)
    rbac = "rbac.authorization.k8s.io"

    def one(kind: str, namespace: str = "", **rest: Any) -> Object:
        about = {"name": name, **({"namespace": namespace} if namespace else {}), "labels": labels(component)}
        version = "v1" if kind == "ServiceAccount" else f"{rbac}/v1"
        return {"apiVersion": version, "kind": kind, "metadata": about, **rest}

    return [
        one("ServiceAccount", home),
        one("ClusterRole", rules=[right.rule() for right in everywhere]),
        one(
            "ClusterRoleBinding",
            roleRef={"apiGroup": rbac, "kind": "ClusterRole", "name": name},
            subjects=subject,
        ),
        one("Role", home, rules=[right.rule() for right in at_home]),
        one("RoleBinding", home, roleRef={"apiGroup": rbac, "kind": "Role", "name": name}, subjects=subject),
    ]
