"""Everything that is installed, in the order in which it can be."""

from __future__ import annotations

from typing import Any

from pumice import crds
from pumice.install.install_options import InstallOptions, labels
from pumice.install.rbac import account_manifests, components
from pumice.install.user_admission_policies import user_policies
from pumice.install.webhook_configurations import both_configurations
from pumice.install.workloads import all_workloads

Object = dict[str, Any]

CREATE_ONLY_KINDS = frozenset({"Namespace", "ConfigMap", "Queue"})
"""What is only made where it is missing: from then on it is the administrator's, as is a namespace that was there."""

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
"""What works, or is judged by others who do. The rest changes nothing for anybody."""


def namespace(choices: InstallOptions) -> Object:
    """Where we live. What runs there must be harmless."""
    marks = {**labels(), "pod-security.kubernetes.io/enforce": "restricted"}
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": choices.namespace, "labels": marks}}


def definitions() -> list[Object]:
    """Our kinds."""
    found = []
    for definition in crds.definitions():
        about = definition["metadata"]
        found.append({**definition, "metadata": {**about, "labels": {**(about.get("labels") or {}), **labels()}}})
    return found


def first_queues() -> list[Object]:
    """The queues that every cluster has."""
    return list(crds.first_queues())


def all_manifests(choices: InstallOptions) -> list[Object]:
    """All of it. The webhooks come last: before, everything else can be written although nobody answers yet."""
    own = [] if choices.beside_volcano else definitions()
    found = [namespace(choices), *own]
    for component in components(choices):
        found += account_manifests(component, choices)
    found += [*first_queues(), *all_workloads(choices)]
    return [*found, *both_configurations(choices), *user_policies(choices)] if choices.webhooks else found
