"""Discovery: the served groups, their versions, and the resources of each.

There are two formats. The old one is a page for each group and version; the aggregated one has everything in two pages,
and kubectl prefers it. Built-in groups come first, in the order of their declaration: of two resources with the same
name (``jobs``) clients take the first.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from kubesim.identity import ServerIdentity
from kubesim.registry.registry import Object, Resource, ResourceRegistry

KUBERNETES: Final = ("1", "36", "4")  # the release whose answers ours are compared with, and that nodes claim to be
AGGREGATED: Final = "apidiscovery.k8s.io"
AGGREGATED_VERSIONS: Final = ("v2", "v2beta1")

SUBRESOURCES: Final[dict[str, Object]] = {
    "binding": {"kind": "Binding", "verbs": ["create"]},
    "eviction": {"group": "policy", "version": "v1", "kind": "Eviction", "verbs": ["create"]},
    "finalize": {"verbs": ["update"]},
    "log": {"verbs": ["get"]},
    "scale": {"group": "autoscaling", "version": "v1", "kind": "Scale", "verbs": ["get", "patch", "update"]},
    "status": {"verbs": ["get", "patch", "update"]},
}
"""Kind and verbs of each subresource; the default kind is that of the resource."""

_VERSION = re.compile(r"v([1-9][0-9]*)(?:(alpha|beta)([1-9][0-9]*))?")


def version(identity: ServerIdentity) -> Object:
    """The page ``/version``: the Kubernetes release whose API this is, and which product serves it."""
    major, minor, patch = KUBERNETES
    return {
        "major": major,
        "minor": minor,
        "gitVersion": f"v{major}.{minor}.{patch}+{identity.name}.{identity.version}",
        "gitCommit": "",
        "gitTreeState": "",
        "buildDate": "1970-01-01T00:00:00Z",
        "goVersion": "",
        "compiler": "",
        "platform": "",
    }


# ---- groups -----------------------------------------------------------------------------------------------


def groups(registry: ResourceRegistry) -> list[str]:
    """The groups except core: built-in ones in order of registration, then those of custom resources by name."""
    own = list(dict.fromkeys(resource.group for resource in registry if not resource.custom and resource.group))
    return own + sorted({resource.group for resource in registry} - {*own, ""})


def versions(registry: ResourceRegistry, group: str) -> list[str]:
    """The versions of a group, the preferred one first: stable before beta before alpha, later before earlier."""
    return sorted({resource.version for resource in registry if resource.group == group}, key=rank)


def rank(version: str) -> tuple[int, int, int, str]:
    """The place of a version among others, as a sort key."""
    match = _VERSION.fullmatch(version)
    if match is None:
        return (3, 0, 0, version)
    stage = {None: 0, "beta": 1, "alpha": 2}[match[2]]
    return (stage, -int(match[1]), -int(match[3] or 0), version)


def core(address: str) -> Object:
    """The page ``/api``."""
    return {
        "kind": "APIVersions",
        "versions": ["v1"],
        "serverAddressByClientCIDRs": [{"clientCIDR": "0.0.0.0/0", "serverAddress": address}],
    }


def group_list(registry: ResourceRegistry) -> Object:
    """The page ``/apis``."""
    return {
        "kind": "APIGroupList",
        "apiVersion": "v1",
        "groups": [_group(registry, name) for name in groups(registry)],
    }


def group(registry: ResourceRegistry, name: str) -> Object | None:
    """The page ``/apis/GROUP``, or None if there is no such group."""
    if not name or not versions(registry, name):
        return None
    return {"kind": "APIGroup", "apiVersion": "v1", **_group(registry, name)}


def _group(registry: ResourceRegistry, name: str) -> Object:
    listed = [{"groupVersion": f"{name}/{one}", "version": one} for one in versions(registry, name)]
    return {"name": name, "versions": listed, "preferredVersion": listed[0]}


# ---- resources --------------------------------------------------------------------------------------------


def resource_list(registry: ResourceRegistry, group: str, version: str) -> Object | None:
    """The page ``/api/v1`` or ``/apis/GROUP/VERSION``, or None if there is no such version."""
    found = _resources(registry, group, version)
    if not found:
        return None
    listed = [page for resource in found for page in _pages(resource)]
    name = f"{group}/{version}" if group else version
    return {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": name, "resources": listed}


def _resources(registry: ResourceRegistry, group: str, version: str) -> list[Resource]:
    found = [resource for resource in registry if resource.group == group and resource.version == version]
    return sorted(found, key=lambda resource: resource.plural)


def _pages(resource: Resource) -> Iterator[Object]:
    page: Object = {
        "name": resource.plural,
        "singularName": resource.singular,
        "namespaced": resource.namespaced,
        "kind": resource.kind,
        "verbs": _verbs(resource),
    }
    if resource.short_names:
        page["shortNames"] = list(resource.short_names)
    if resource.categories:
        page["categories"] = list(resource.categories)
    yield page
    for name in _subresources(resource):
        yield {
            "name": f"{resource.plural}/{name}",
            "singularName": "",
            "namespaced": resource.namespaced,
            "kind": resource.kind,
            **SUBRESOURCES[name],
        }


# ---- aggregated -------------------------------------------------------------------------------------------


def aggregated(registry: ResourceRegistry, version: str, *, core: bool) -> Object:
    """All groups besides the core (or the core alone) with all their resources: ``/apis`` (``/api``) in one page."""
    items = [_aggregated_group(registry, name) for name in ([""] if core else groups(registry))]
    return {"kind": "APIGroupDiscoveryList", "apiVersion": f"{AGGREGATED}/{version}", "metadata": {}, "items": items}


def _aggregated_group(registry: ResourceRegistry, name: str) -> Object:
    listed = [
        {
            "version": one,
            "resources": [_aggregated(resource) for resource in _resources(registry, name, one)],
            "freshness": "Current",
        }
        for one in versions(registry, name)
    ]
    return {"metadata": {"name": name} if name else {}, "versions": listed}


def _aggregated(resource: Resource) -> Object:
    page: Object = {
        "resource": resource.plural,
        "responseKind": _kind(resource, {}),
        "scope": "Namespaced" if resource.namespaced else "Cluster",
        "singularResource": resource.singular,
        "verbs": _verbs(resource),
    }
    if resource.short_names:
        page["shortNames"] = list(resource.short_names)
    if resource.categories:
        page["categories"] = list(resource.categories)
    if resource.subresources:
        page["subresources"] = [
            {
                "subresource": name,
                "responseKind": _kind(resource, SUBRESOURCES[name]),
                "verbs": SUBRESOURCES[name]["verbs"],
            }
            for name in _subresources(resource)
        ]
    return page


def _verbs(resource: Resource) -> list[str]:
    """The verbs by name; for custom resources in the order of kube-apiserver."""
    if not resource.custom:
        return list(resource.verbs)
    return sorted(resource.verbs, key=lambda verb: "u" if verb == "create" else verb)


def _subresources(resource: Resource) -> list[str]:
    """By name; those of custom resources the other way round, as there."""
    return sorted(resource.subresources, reverse=resource.custom)


def _kind(resource: Resource, subresource: Object) -> Object:
    return {
        "group": subresource.get("group", resource.group),
        "version": subresource.get("version", resource.version),
        "kind": subresource.get("kind", resource.kind),
    }
