"""Discovery in both forms. What is expected is what a real kube-apiserver 1.36 answers about the same resources."""

from typing import Any

import pytest

from kubesim import kinds
from kubesim.identity import ServerIdentity
from kubesim.kinds import custom_resources
from kubesim.kinds.crds import custom_resource_definitions
from kubesim.kubelet.node_template import KUBELET
from kubesim.registry import discovery
from kubesim.registry.registry import Resource, ResourceRegistry
from kubesim.schema import Schema
from pumice import crds
from tests.kubesim.kinds.strategy_writes import create

EVERY = ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"]


@pytest.fixture(scope="module")
def registry() -> ResourceRegistry:
    found = ResourceRegistry(kinds.resources())
    for definition in crds.definitions():
        custom_resources.install(found, create(custom_resource_definitions(), definition))
    return found


def listed(registry: ResourceRegistry, group: str, version: str) -> dict[str, Any]:
    page = discovery.resource_list(registry, group, version)
    assert page is not None
    return {entry["name"]: entry for entry in page["resources"]}


def test_the_core_group(registry: ResourceRegistry) -> None:
    assert discovery.core("127.0.0.1:8080") == {
        "kind": "APIVersions",
        "versions": ["v1"],
        "serverAddressByClientCIDRs": [{"clientCIDR": "0.0.0.0/0", "serverAddress": "127.0.0.1:8080"}],
    }
    core = listed(registry, "", "v1")
    assert core["configmaps"] == {
        "name": "configmaps",
        "singularName": "configmap",
        "namespaced": True,
        "kind": "ConfigMap",
        "verbs": EVERY,
        "shortNames": ["cm"],
    }
    assert core["pods/eviction"] == {
        "name": "pods/eviction",
        "singularName": "",
        "namespaced": True,
        "group": "policy",
        "version": "v1",
        "kind": "Eviction",
        "verbs": ["create"],
    }
    assert core["pods"]["categories"] == ["all"]
    assert core["pods/binding"]["kind"] == "Binding"
    assert core["namespaces/finalize"]["verbs"] == ["update"]
    assert core["namespaces"]["verbs"] == ["create", "delete", "get", "list", "patch", "update", "watch"]
    assert list(core) == sorted(core)


def test_short_names(registry: ResourceRegistry) -> None:
    short = {
        ("volcano " if resource.qualified == "cronjobs.batch.volcano.sh" else "")
        + resource.plural: resource.short_names
        for resource in registry
        if resource.short_names
    }
    assert short == {
        "namespaces": ("ns",),
        "nodes": ("no",),
        "pods": ("po",),
        "configmaps": ("cm",),
        "serviceaccounts": ("sa",),
        "deployments": ("deploy",),
        "replicasets": ("rs",),
        "statefulsets": ("sts",),
        "daemonsets": ("ds",),
        "cronjobs": ("cj",),
        "services": ("svc",),
        "endpoints": ("ep",),
        "replicationcontrollers": ("rc",),
        "events": ("ev",),
        "persistentvolumeclaims": ("pvc",),
        "persistentvolumes": ("pv",),
        "resourcequotas": ("quota",),
        "storageclasses": ("sc",),
        "priorityclasses": ("pc",),
        "poddisruptionbudgets": ("pdb",),
        "customresourcedefinitions": ("crd", "crds"),
        "queues": ("q", "queue-v1beta1"),
        "podgroups": ("pg", "podgroup-v1beta1"),
        "jobs": ("vcjob", "vj"),  # those of batch/v1 have none
        "volcano cronjobs": ("cronvcjob", "cronvj"),
        "jobflows": ("jf",),
        "jobtemplates": ("jt",),
        "hypernodes": ("hn",),
        "networkpolicies": ("netpol",),
    }


def test_groups(registry: ResourceRegistry) -> None:
    page = discovery.group_list(registry)
    names = [group["name"] for group in page["groups"]]
    assert names[:4] == ["apps", "batch", "networking.k8s.io", "policy"]
    ours = ["batch.volcano.sh", "bus.volcano.sh", "flow.volcano.sh", "scheduling.volcano.sh", "topology.volcano.sh"]
    assert names[-5:] == ours
    assert names.index("batch") < names.index("batch.volcano.sh"), "kubectl get jobs means those of Kubernetes"
    assert discovery.group(registry, "policy") == {
        "kind": "APIGroup",
        "apiVersion": "v1",
        "name": "policy",
        "versions": [{"groupVersion": "policy/v1", "version": "v1"}],
        "preferredVersion": {"groupVersion": "policy/v1", "version": "v1"},
    }


def test_discovery_returns_none_for_unserved_groups_and_versions(registry: ResourceRegistry) -> None:
    assert discovery.group(registry, "autoscaling") is None
    assert discovery.group(registry, "") is None
    assert discovery.resource_list(registry, "apps", "v1beta1") is None
    assert discovery.resource_list(registry, "", "v2") is None
    assert discovery.group(registry, "events.k8s.io") is None


def test_custom_resources(registry: ResourceRegistry) -> None:
    custom = listed(registry, "scheduling.volcano.sh", "v1beta1")
    assert set(custom) == {"queues", "queues/status", "podgroups"}
    assert custom["queues/status"]["verbs"] == ["get", "patch", "update"]
    assert custom["queues"]["shortNames"] == ["q", "queue-v1beta1"]


@pytest.mark.parametrize("version", ["v2", "v2beta1"])
def test_aggregated(registry: ResourceRegistry, version: str) -> None:
    core = discovery.aggregated(registry, version, core=True)
    assert (core["kind"], core["apiVersion"]) == ("APIGroupDiscoveryList", f"apidiscovery.k8s.io/{version}")
    (only,) = core["items"]
    assert only["metadata"] == {}
    assert only["versions"][0]["freshness"] == "Current"
    rest = discovery.aggregated(registry, version, core=False)
    groups = {item["metadata"]["name"]: item for item in rest["items"]}
    assert groups["policy"]["versions"][0]["resources"] == [
        {
            "resource": "poddisruptionbudgets",
            "responseKind": {"group": "policy", "version": "v1", "kind": "PodDisruptionBudget"},
            "scope": "Namespaced",
            "singularResource": "poddisruptionbudget",
            "verbs": EVERY,
            "shortNames": ["pdb"],
            "subresources": [
                {
                    "subresource": "status",
                    "responseKind": {"group": "policy", "version": "v1", "kind": "PodDisruptionBudget"},
                    "verbs": ["get", "patch", "update"],
                }
            ],
        }
    ]


def test_both_forms_say_the_same(registry: ResourceRegistry) -> None:
    aggregated = discovery.aggregated(registry, "v2", core=True)["items"]
    aggregated += discovery.aggregated(registry, "v2", core=False)["items"]
    for item in aggregated:
        group = item["metadata"].get("name", "")
        for version in item["versions"]:
            plain = listed(registry, group, version["version"])
            names = {resource["resource"] for resource in version["resources"]}
            names |= {
                f"{resource['resource']}/{sub['subresource']}"
                for resource in version["resources"]
                for sub in resource.get("subresources", ())
            }
            assert names == set(plain)


def test_the_preferred_version_comes_first() -> None:
    schema = Schema({"type": "object"})
    names = ["v1alpha1", "v2beta1", "v10", "odd", "v2", "v1beta2", "v2beta3"]
    made = [Resource("a.com", name, "foos", "Foo", True, schema, custom=True) for name in names]
    assert discovery.versions(ResourceRegistry(made), "a.com") == [
        "v10", "v2", "v2beta3", "v2beta1", "v1beta2", "v1alpha1", "odd",
    ]  # fmt: skip


def test_version() -> None:
    page = discovery.version(ServerIdentity(name="acme", version="7.1"))
    assert page["gitVersion"] == f"{KUBELET}+acme.7.1"  # as nodes say
    assert (page["major"], page["minor"]) == ("1", "36")
