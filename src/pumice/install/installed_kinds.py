"""The kinds that an installation creates or reads, with their API paths."""

from __future__ import annotations

from typing import Any

from pumice.kube.resources import Document, Resource

_RBAC = "rbac.authorization.k8s.io/v1"
DEFINITION = "CustomResourceDefinition"
_ADMISSION = "admissionregistration.k8s.io/v1"


def _plain(version: str, plural: str, kind: str, *, namespaced: bool = True) -> Resource[Document]:
    return Resource(version, plural, kind, dict, namespaced=namespaced)


DEFINITIONS = _plain(
    "apiextensions.k8s.io/v1", "customresourcedefinitions", "CustomResourceDefinition", namespaced=False
)
DEPLOYMENTS = _plain("apps/v1", "deployments", "Deployment")
QUEUES = _plain("scheduling.volcano.sh/v1beta1", "queues", "Queue", namespaced=False)
SECRETS = _plain("v1", "secrets", "Secret")
LEASES = _plain("coordination.k8s.io/v1", "leases", "Lease")
PODS = _plain("v1", "pods", "Pod")
MUTATING = _plain(_ADMISSION, "mutatingwebhookconfigurations", "MutatingWebhookConfiguration", namespaced=False)
VALIDATING = _plain(_ADMISSION, "validatingwebhookconfigurations", "ValidatingWebhookConfiguration", namespaced=False)

CLUSTER_ROLE_BINDINGS = _plain(_RBAC, "clusterrolebindings", "ClusterRoleBinding", namespaced=False)

KINDS = {
    resource.kind: resource
    for resource in (
        _plain("v1", "namespaces", "Namespace", namespaced=False),
        DEFINITIONS,
        _plain("v1", "serviceaccounts", "ServiceAccount"),
        _plain(_RBAC, "clusterroles", "ClusterRole", namespaced=False),
        CLUSTER_ROLE_BINDINGS,
        _plain(_RBAC, "roles", "Role"),
        _plain(_RBAC, "rolebindings", "RoleBinding"),
        QUEUES,
        _plain("v1", "configmaps", "ConfigMap"),
        _plain("v1", "services", "Service"),
        _plain("policy/v1", "poddisruptionbudgets", "PodDisruptionBudget"),
        _plain("networking.k8s.io/v1", "networkpolicies", "NetworkPolicy"),
        DEPLOYMENTS,
        _plain("monitoring.coreos.com/v1", "servicemonitors", "ServiceMonitor"),
        MUTATING,
        VALIDATING,
        _plain(_ADMISSION, "validatingadmissionpolicies", "ValidatingAdmissionPolicy", namespaced=False),
        _plain(_ADMISSION, "validatingadmissionpolicybindings", "ValidatingAdmissionPolicyBinding", namespaced=False),
    )
}


def path_of(wanted: dict[str, Any]) -> str:
    """The API path of an object."""
    about = wanted["metadata"]
    return KINDS[wanted["kind"]].path(about.get("namespace", ""), about["name"])


def display_name(wanted: dict[str, Any]) -> str:
    """The name of an object as kubectl prints it: ``deployment.apps/pumice-scheduler``."""
    resource = KINDS[wanted["kind"]]
    group = resource.api_version.rpartition("/")[0]
    return f"{resource.kind.lower()}{'.' + group if group else ''}/{wanted['metadata']['name']}"
