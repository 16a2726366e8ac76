"""What each component may do: everything it does, and nothing else.

``tests/install/test_rbac.py`` runs all of them with these rights on a real API server and compares what they asked
for with what they may. To follow a resource is to list and watch it; ``get`` is for those who look an object up.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from pumice.install.options import NAME, Choices, labels

Object = dict[str, Any]

SCHEDULER, CONTROLLERS, WEBHOOKS = "scheduler", "controllers", "webhooks"
SECRET = f"{NAME}-webhooks"
"""The Secret with the certificate of the webhooks."""

FOLLOW = ("list", "watch")
_VOLCANO, _JOBS, _BUS = "scheduling.volcano.sh", "batch.volcano.sh", "bus.volcano.sh"


class Right(NamedTuple):
    """Verbs on resources of a group; with names only on those objects."""

    group: str
    resources: tuple[str, ...]
    verbs: tuple[str, ...]
    names: tuple[str, ...] = ()

    def rule(self) -> Object:
        """As RBAC writes it."""
        rule: Object = {"apiGroups": [self.group], "resources": [*self.resources], "verbs": [*self.verbs]}
        return {**rule, "resourceNames": [*self.names]} if self.names else rule


SAYING = Right("pumice.dev", ("users",), ("name",))
"""To say whose pods and podgroups are, whoever that is: no kind of any API, but a right that policies look for."""
IDENTITY = Right("", ("namespaces",), ("get",), ("kube-system",))
"""Its uid tells clusters apart."""

EVERYWHERE: dict[str, tuple[Right, ...]] = {
    SCHEDULER: (
        IDENTITY,
        Right("", ("nodes", "resourcequotas"), FOLLOW),
        Right("", ("pods",), ("get", *FOLLOW)),
        Right("", ("pods/binding", "pods/eviction"), ("create",)),
        Right("", ("events",), ("create", "patch")),
        Right("policy", ("poddisruptionbudgets",), FOLLOW),
        Right("scheduling.k8s.io", ("priorityclasses",), FOLLOW),
        Right(_VOLCANO, ("queues",), FOLLOW),
        Right(_VOLCANO, ("queues/status",), ("patch",)),
        Right(_VOLCANO, ("podgroups",), (*FOLLOW, "patch")),
    ),
    CONTROLLERS: (
        IDENTITY,
        SAYING,
        Right("", ("pods",), (*FOLLOW, "create", "patch", "delete")),
        Right("", ("events",), ("create",)),
        Right("", ("configmaps",), ("get", "create", "patch")),
        Right("", ("services",), ("get", "create")),
        Right("apps", ("replicasets", "statefulsets"), ("get",)),
        Right("batch", ("jobs",), ("get",)),
        Right(_VOLCANO, ("queues",), ("get", *FOLLOW, "create", "patch", "delete")),
        Right(_VOLCANO, ("queues/status",), ("patch",)),
        Right(_VOLCANO, ("podgroups",), (*FOLLOW, "create", "patch", "delete")),
        Right(_JOBS, ("jobs",), ("get", *FOLLOW, "delete")),
        Right(_JOBS, ("jobs/status",), ("update",)),
        # Asked for by the server where owners are guarded (OwnerReferencesPermissionEnforcement): who deletes a job in
        # the foreground waits for its pods.
        Right(_JOBS, ("jobs/finalizers",), ("update",)),
        Right(_BUS, ("commands",), (*FOLLOW, "delete")),
    ),
    WEBHOOKS: (
        IDENTITY,
        Right("", ("namespaces", "nodes"), FOLLOW),
        Right(_VOLCANO, ("queues", "podgroups"), FOLLOW),
        Right(_JOBS, ("jobs",), FOLLOW),
        Right("authorization.k8s.io", ("subjectaccessreviews",), ("create",)),
        Right(
            "admissionregistration.k8s.io",
            ("mutatingwebhookconfigurations", "validatingwebhookconfigurations"),
            ("get", "patch"),
            (NAME,),
        ),
    ),
}
"""Rights in the whole cluster."""

_JOBS_ONLY = frozenset({("", "configmaps"), ("", "services"), (_JOBS, "jobs/status"), (_JOBS, "jobs/finalizers")})
"""What the controllers need for nothing but Volcano Jobs."""


def _lead(component: str) -> tuple[Right, ...]:
    lease = (f"{NAME}-{component}",)
    return (
        Right("coordination.k8s.io", ("leases",), ("create",)),  # which cannot be told by a name
        Right("coordination.k8s.io", ("leases",), ("get", "update"), lease),
    )


AT_HOME: dict[str, tuple[Right, ...]] = {
    SCHEDULER: _lead(SCHEDULER),
    CONTROLLERS: _lead(CONTROLLERS),
    WEBHOOKS: (
        Right("", ("secrets",), ("create",)),
        Right("", ("secrets",), ("get", "update"), (SECRET,)),
    ),
}
"""Rights in our own namespace."""


def components(choices: Choices) -> list[str]:
    """Who is installed."""
    return [SCHEDULER, CONTROLLERS, *([WEBHOOKS] if choices.webhooks else [])]


def rights_of(component: str, choices: Choices) -> tuple[Sequence[Right], Sequence[Right]]:
    """What a component may do everywhere, and at home."""
    everywhere: Sequence[Right] = EVERYWHERE[component]
    if component == CONTROLLERS and choices.beside_volcano:
        everywhere = [one for one in everywhere if not any((one.group, name) in _JOBS_ONLY for name in one.resources)]
    return everywhere, AT_HOME[component]


def accounts(component: str, choices: Choices) -> list[Object]:
    """The account of a component, and its rights."""
    name, home = f"{NAME}-{component}", choices.namespace
    subject = [{"kind": "ServiceAccount", "name": name, "namespace": home}]
    everywhere, at_home = rights_of(component, choices)
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
