"""The permissions of each component: exactly those that it uses.

``tests/install/test_rbac.py`` runs all components with these permissions on a real API server and compares the
requests with the rules. A watched resource needs ``list`` and ``watch``; a resource that is read by name needs ``get``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from pumice.install.install_options import INSTALL_NAME, InstallOptions, labels

Object = dict[str, Any]

SCHEDULER, CONTROLLERS, WEBHOOKS, UI = "scheduler", "controllers", "webhooks", "ui"
CERTIFICATE_SECRET = f"{INSTALL_NAME}-webhooks"
"""The Secret with the certificate of the webhooks."""

CONFIG_MAP = f"{INSTALL_NAME}-scheduler"
"""The ConfigMap with the scheduler's configuration."""

LIST_WATCH = ("list", "watch")
STORAGE_KINDS = ("storageclasses", "csinodes", "csidrivers", "csistoragecapacities")
"""The resources of storage.k8s.io that say where volumes can be used and made."""
_VOLCANO, _JOBS, _BUS, _FLOWS = "scheduling.volcano.sh", "batch.volcano.sh", "bus.volcano.sh", "flow.volcano.sh"
_TOPOLOGY = "topology.volcano.sh"


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
PROTECT_RULE = PolicyRule("pumice.dev", ("pods",), ("protect",))
"""Permission to make pods that are never evicted, in a namespace (``tenant_policies``)."""
WEIGH_RULE = PolicyRule("pumice.dev", ("namespaces",), ("weigh",))
"""Permission to set the weight of a namespace (``tenant_policies``)."""
STATUS_RULE = PolicyRule("scheduling.volcano.sh", ("podgroups/status",), ("update",))
"""Permission to write the status of podgroups, which is no subresource (``tenant_policies``)."""
CLUSTER_UID_RULE = PolicyRule("", ("namespaces",), ("get",), ("kube-system",))
"""The uid of this namespace identifies the cluster."""

CLUSTER_RULES: dict[str, tuple[PolicyRule, ...]] = {
    SCHEDULER: (
        CLUSTER_UID_RULE,
        PolicyRule("", ("nodes", "resourcequotas"), LIST_WATCH),
        PolicyRule("", ("pods",), ("get", *LIST_WATCH, "delete")),  # deleted against a budget that does not count
        PolicyRule("", ("pods/binding", "pods/eviction"), ("create",)),
        PolicyRule("", ("pods/status",), ("patch",)),
        PolicyRule("", ("events",), ("create", "patch")),
        # To choose volumes and nodes for claims that wait for their first consumer.
        PolicyRule("", ("persistentvolumes", "persistentvolumeclaims"), (*LIST_WATCH, "patch")),
        PolicyRule("storage.k8s.io", STORAGE_KINDS, LIST_WATCH),
        PolicyRule("policy", ("poddisruptionbudgets",), LIST_WATCH),
        PolicyRule("scheduling.k8s.io", ("priorityclasses",), LIST_WATCH),
        PolicyRule(_VOLCANO, ("queues",), LIST_WATCH),
        PolicyRule(_VOLCANO, ("queues/status",), ("patch",)),
        PolicyRule(_VOLCANO, ("podgroups",), (*LIST_WATCH, "patch")),
        STATUS_RULE,
        PolicyRule(_TOPOLOGY, ("hypernodes",), LIST_WATCH),
    ),
    CONTROLLERS: (
        CLUSTER_UID_RULE,
        SET_USER_RULE,
        PROTECT_RULE,  # they copy what a user was allowed to write into a job
        STATUS_RULE,
        PolicyRule("", ("pods",), (*LIST_WATCH, "create", "patch", "delete")),
        PolicyRule("", ("events",), ("create",)),
        PolicyRule("", ("configmaps",), ("get", "create", "patch")),
        PolicyRule("", ("persistentvolumeclaims",), ("get", "create")),
        # For the plugins of jobs. Reading Secrets adds nothing to creating pods, which may mount them.
        PolicyRule("", ("services", "secrets"), ("get", "create")),
        PolicyRule("networking.k8s.io", ("networkpolicies",), ("get", "create")),
        PolicyRule("apps", ("replicasets", "statefulsets"), ("get",)),
        PolicyRule("batch", ("jobs",), ("get",)),
        PolicyRule(_VOLCANO, ("queues",), ("get", *LIST_WATCH, "create", "patch", "delete")),
        PolicyRule(_VOLCANO, ("queues/status",), ("patch",)),
        PolicyRule(_VOLCANO, ("podgroups",), (*LIST_WATCH, "create", "patch", "delete")),
        PolicyRule(_JOBS, ("jobs",), ("get", *LIST_WATCH, "delete")),
        PolicyRule(_JOBS, ("jobs",), ("create",)),  # of JobFlows and CronJobs
        PolicyRule(_JOBS, ("jobs/status",), ("update",)),
        # Asked for by the server where owners are guarded (OwnerReferencesPermissionEnforcement): who deletes a job in
        # the foreground waits for its pods.
        PolicyRule(_JOBS, ("jobs/finalizers", "cronjobs/finalizers"), ("update",)),
        PolicyRule(_JOBS, ("cronjobs",), LIST_WATCH),
        PolicyRule(_JOBS, ("cronjobs/status",), ("update",)),
        PolicyRule(_FLOWS, ("jobflows", "jobtemplates"), LIST_WATCH),
        PolicyRule(_FLOWS, ("jobflows/status", "jobtemplates/status", "jobflows/finalizers"), ("update",)),
        PolicyRule(_BUS, ("commands",), (*LIST_WATCH, "delete")),
    ),
    WEBHOOKS: (
        CLUSTER_UID_RULE,
        PolicyRule("", ("namespaces", "nodes"), LIST_WATCH),
        PolicyRule(_VOLCANO, ("queues", "podgroups"), LIST_WATCH),
        PolicyRule(_JOBS, ("jobs",), LIST_WATCH),
        PolicyRule(_FLOWS, ("jobtemplates",), LIST_WATCH),
        PolicyRule(_TOPOLOGY, ("hypernodes",), LIST_WATCH),
        PolicyRule("authorization.k8s.io", ("subjectaccessreviews",), ("create",)),
        PolicyRule(
            "admissionregistration.k8s.io",
            ("mutatingwebhookconfigurations", "validatingwebhookconfigurations"),
            ("get", "patch"),
            (INSTALL_NAME,),
        ),
    ),
    UI: (
        CLUSTER_UID_RULE,
        PolicyRule("", ("nodes", "pods", "events"), LIST_WATCH),
        PolicyRule(_VOLCANO, ("queues", "podgroups"), LIST_WATCH),
        # To explain why a job waits, as the scheduler would decide.
        PolicyRule("", ("resourcequotas", "persistentvolumes", "persistentvolumeclaims"), ("list",)),
        PolicyRule("storage.k8s.io", STORAGE_KINDS, ("list",)),
        PolicyRule("policy", ("poddisruptionbudgets",), ("list",)),
        PolicyRule("scheduling.k8s.io", ("priorityclasses",), ("list",)),
        PolicyRule(_TOPOLOGY, ("hypernodes",), ("list",)),
        # To ask whose token a viewer shows, and what that user may read.
        PolicyRule("authentication.k8s.io", ("tokenreviews",), ("create",)),
        PolicyRule("authorization.k8s.io", ("subjectaccessreviews",), ("create",)),
    ),
}
"""Rights in the whole cluster."""

_JOBS_ONLY = frozenset(
    {
        ("", "configmaps"),
        ("", "services"),
        ("", "persistentvolumeclaims"),
        ("networking.k8s.io", "networkpolicies"),
        (_JOBS, "jobs/status"),
        (_JOBS, "jobs/finalizers"),
        (_JOBS, "cronjobs"),
        (_JOBS, "cronjobs/status"),
        (_FLOWS, "jobflows"),
        (_FLOWS, "jobflows/status"),
    }
)
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
    UI: (),
}
"""Rules in the namespace of the installation."""


def components(choices: InstallOptions) -> list[str]:
    """The installed components."""
    return [SCHEDULER, CONTROLLERS, *([WEBHOOKS] if choices.webhooks else []), *([UI] if choices.ui else [])]


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

    found = [
        one("ServiceAccount", home),
        one("ClusterRole", rules=[right.rule() for right in everywhere]),
        one(
            "ClusterRoleBinding",
            roleRef={"apiGroup": rbac, "kind": "ClusterRole", "name": name},
            subjects=subject,
        ),
    ]
    if at_home:
        found += [
            one("Role", home, rules=[right.rule() for right in at_home]),
            one("RoleBinding", home, roleRef={"apiGroup": rbac, "kind": "Role", "name": name}, subjects=subject),
        ]
    return found
