"""All manifests of an installation, in the order in which they can be applied."""

from __future__ import annotations

from typing import Any

from pumice import crds
from pumice.install.install_options import InstallOptions, labels
from pumice.install.rbac import account_manifests, components
from pumice.install.tenant_policies import tenant_policies
from pumice.install.user_admission_policies import user_policies
from pumice.install.user_roles import command_policy, user_roles
from pumice.install.webhook_configurations import both_configurations
from pumice.install.workloads import all_workloads

Object = dict[str, Any]

CREATE_ONLY_KINDS = frozenset({"Namespace", "ConfigMap", "Queue"})
"""Kinds that are only created if missing; the administrator owns them afterwards, as well as an existing namespace."""

ACTIVE_KINDS = frozenset(
    {
        "Queue",
        "Deployment",
        "MutatingWebhookConfiguration",
        "ValidatingWebhookConfiguration",
        "ValidatingAdmissionPolicy",
        "ValidatingAdmissionPolicyBinding",
    }
)
"""Kinds that run, or that running components act on. Applying the other kinds has no effect on workloads."""


def namespace(choices: InstallOptions) -> Object:
    """The namespace of the components. Its pods must meet the restricted pod security standard."""
    marks = {**labels(), "pod-security.kubernetes.io/enforce": "restricted"}
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": choices.namespace, "labels": marks}}


def definitions() -> list[Object]:
    """The CRDs of Pumice."""
    found = []
    for definition in crds.definitions():
        about = definition["metadata"]
        found.append({**definition, "metadata": {**about, "labels": {**(about.get("labels") or {}), **labels()}}})
    return found


def first_queues() -> list[Object]:
    """The queues that every cluster has."""
    return list(crds.first_queues())


def all_manifests(choices: InstallOptions) -> list[Object]:
    """All manifests. The webhook configurations come last, so that other objects can be written before webhooks run."""
    own = [] if choices.beside_volcano else definitions()
    found = [namespace(choices), *own]
    for component in components(choices):
        found += account_manifests(component, choices)
    found += [*user_roles(), *first_queues(), *all_workloads(choices), *command_policy(), *tenant_policies(choices)]
    return [*found, *both_configurations(choices), *user_policies(choices)] if choices.webhooks else found
