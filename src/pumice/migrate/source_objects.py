"""The objects of the cluster that is to be migrated, read from files or from its API."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import yaml

from pumice.admission.volcano_support import KINDS, Feature
from pumice.kube.client.sync_client import Client
from pumice.kube.resources import Document, Resource
from pumice.sim.manifest_files import read_manifests

KUEUE_GROUP = "kueue.x-k8s.io"
VOLCANO_DOMAIN = "volcano.sh"
CONFIG_KEY = re.compile(r"volcano-scheduler[\w-]*\.conf")
"""Keys of the ConfigMap from which Volcano's scheduler reads its configuration."""

_KIND_NAME = re.compile(r"(?P<kind>\w+) \((?P<group>[\w.-]+)/(?P<version>\w+)\)")
_DEFINITIONS: Resource[Document] = Resource(
    "apiextensions.k8s.io/v1", "customresourcedefinitions", "CustomResourceDefinition", dict, namespaced=False
)
_CORE: tuple[Resource[Document], ...] = (
    Resource("v1", "nodes", "Node", dict, namespaced=False),
    Resource("v1", "namespaces", "Namespace", dict, namespaced=False),
    Resource("v1", "pods", "Pod", dict),
)
_DEPLOYMENTS: Resource[Document] = Resource("apps/v1", "deployments", "Deployment", dict)
_CONFIG_MAPS: Resource[Document] = Resource("v1", "configmaps", "ConfigMap", dict)
_SCHEDULER_LABEL = {"labelSelector": "app=volcano-scheduler"}

GroupKind = tuple[str, str]
"""The API group, empty for the core group, and the kind."""


def supported_kinds() -> dict[GroupKind, Feature]:
    """The entries of the support table for Volcano's kinds."""
    found = {}
    for feature in KINDS:
        match = _KIND_NAME.fullmatch(feature.name)
        if match is None:
            raise ValueError(f"volcano_support.KINDS: {feature.name!r}: must be KIND (GROUP/VERSION)")
        found[match["group"], match["kind"]] = feature
    return found


def display_name(document: Mapping[str, Any]) -> str:
    """``namespace/name`` of an object, or its name alone."""
    about = document.get("metadata") or {}
    return "/".join(str(about[part]) for part in ("namespace", "name") if about.get(part))


@dataclass(slots=True)
class SourceObjects:
    """Objects by group and kind, and the configurations of Volcano's scheduler by their source."""

    objects: dict[GroupKind, list[Document]] = field(default_factory=dict)
    configurations: dict[str, str] = field(default_factory=dict)

    def of(self, group: str, kind: str) -> list[Document]:
        """The objects of a kind."""
        return self.objects.get((group, kind), [])

    def add(self, document: Document, source: str = "") -> None:
        """Add an object. A scheduler configuration is taken from its ConfigMap, or from a file of its own."""
        if not document.get("kind") and "actions" in document:
            self.configurations[source] = yaml.safe_dump(document, sort_keys=False)
            return
        group = str(document.get("apiVersion") or "").rpartition("/")[0]
        kind = str(document.get("kind") or "")
        self.objects.setdefault((group, kind), []).append(document)
        if (group, kind) == ("", "ConfigMap"):
            data = document.get("data") or {}
            texts = {f"{display_name(document)} {key}": data[key] for key in data if _is_config(key)}
            self.configurations |= texts


def _is_config(key: str) -> bool:
    return CONFIG_KEY.fullmatch(key) is not None


def objects_from_files(paths: Iterable[str]) -> SourceObjects:
    """Read manifests as ``kubectl get -o yaml`` and ``kubectl apply`` know them; raises BadInput."""
    found = SourceObjects()
    for manifest in read_manifests(list(paths)):
        found.add(dict(manifest.document), manifest.file)
    return found


def objects_from_cluster(client: Client) -> SourceObjects:
    """Read all objects of Volcano's and Kueue's kinds, nodes, namespaces, pods, and Volcano's configuration.

    Raises ``ApiError`` where the user may not list one of them: a check of a part would promise too much.
    """
    found = SourceObjects()
    for resource in (*_custom_resources(client), *_CORE):
        for one in client.list(resource.path()).items:
            found.add({"apiVersion": resource.api_version, "kind": resource.kind, **one})
    namespaces = set()
    for one in client.list(_DEPLOYMENTS.path(), _SCHEDULER_LABEL).items:
        found.add({"apiVersion": _DEPLOYMENTS.api_version, "kind": _DEPLOYMENTS.kind, **one})
        namespaces.add(str(one["metadata"].get("namespace") or ""))
    for namespace in sorted(namespaces):
        for one in client.list(_CONFIG_MAPS.path(namespace)).items:
            if any(map(_is_config, one.get("data") or {})):
                found.add({"apiVersion": _CONFIG_MAPS.api_version, "kind": _CONFIG_MAPS.kind, **one})
    return found


def _custom_resources(client: Client) -> Iterator[Resource[Document]]:
    """The served resources in the groups of Volcano and Kueue: the cluster says which it has."""
    for definition in client.list(_DEFINITIONS.path()).items:
        spec = definition.get("spec") or {}
        group, names = str(spec.get("group") or ""), spec.get("names") or {}
        if group != KUEUE_GROUP and not group.endswith(f".{VOLCANO_DOMAIN}"):
            continue
        served = [one for one in spec.get("versions") or () if one.get("served")]
        stored = next((one for one in served if one.get("storage")), served[0] if served else None)
        if stored is not None:
            version = f"{group}/{stored['name']}"
            yield Resource(version, names["plural"], names["kind"], dict, namespaced=spec.get("scope") == "Namespaced")
