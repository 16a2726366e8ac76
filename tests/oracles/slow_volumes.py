"""Which nodes a pod with claims may use: kube-scheduler's rules on whole objects of the API, one node at a time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from kubebase.label_selector import matches
from kubebase.quantity import parse

Object = dict[str, Any]
SELECTED = "volume.kubernetes.io/selected-node"
COMPLETED = "pv.kubernetes.io/bind-completed"


@dataclass
class Objects:
    """The objects of a cluster, by name."""

    nodes: dict[str, Mapping[str, str]] = field(default_factory=dict)  # labels
    claims: dict[str, Object] = field(default_factory=dict)
    volumes: dict[str, Object] = field(default_factory=dict)
    classes: dict[str, Object] = field(default_factory=dict)
    drivers: dict[str, Object] = field(default_factory=dict)
    capacities: dict[str, Object] = field(default_factory=dict)


def may_use(objects: Objects, names: Sequence[str], node: str) -> bool:
    """Whether a pod with these claims may use a node."""
    claims = [objects.claims.get(name) for name in names]
    if any(claim is None for claim in claims):
        return False
    labels = objects.nodes[node]
    unbound = []
    for claim in {claim["metadata"]["name"]: claim for claim in claims if claim is not None}.values():
        volume_name, annotations = claim["spec"].get("volumeName"), claim["metadata"].get("annotations", {})
        if volume_name and COMPLETED in annotations:
            volume = objects.volumes.get(volume_name)
            if volume is None or not _reaches(volume, labels):
                return False
            continue
        storage_class = objects.classes.get(claim["spec"].get("storageClassName", ""))
        if volume_name or storage_class is None or storage_class["volumeBindingMode"] == "Immediate":
            return False
        if annotations.get(SELECTED, node) != node:
            return False
        if SELECTED not in annotations:
            unbound.append(claim)
    return _can_get_volumes(objects, unbound, labels)


def _can_get_volumes(objects: Objects, claims: list[Object], labels: Mapping[str, str]) -> bool:
    taken: set[str] = set()
    for claim in sorted(claims, key=lambda claim: (_request(claim), claim["metadata"]["name"])):
        volume = _matching_volume(objects, claim, labels, taken)
        if volume is not None:
            taken.add(volume)
        elif not _can_provision(objects, claim, labels):
            return False
    return True


def _matching_volume(objects: Objects, claim: Object, labels: Mapping[str, str], taken: set[str]) -> str | None:
    best: tuple[int, str] | None = None
    for name, volume in objects.volumes.items():
        spec = volume["spec"]
        size = parse(spec["capacity"]["storage"]).value()
        reference = spec.get("claimRef")
        if name in taken or spec.get("storageClassName", "") != claim["spec"]["storageClassName"]:
            continue
        if size < _request(claim):
            continue
        if reference is not None:
            if reference["name"] == claim["metadata"]["name"]:
                return name if _reaches(volume, labels) else None
            continue
        selector = claim["spec"].get("selector", {})
        fits = set(claim["spec"]["accessModes"]) <= set(spec["accessModes"])
        if not fits or volume["status"]["phase"] != "Available":
            continue
        if not matches(selector, volume["metadata"].get("labels", {})) or not _reaches(volume, labels):
            continue
        best = min(best, (size, name)) if best is not None else (size, name)
    return best[1] if best is not None else None


def _can_provision(objects: Objects, claim: Object, labels: Mapping[str, str]) -> bool:
    storage_class = objects.classes[claim["spec"]["storageClassName"]]
    provisioner = storage_class["provisioner"]
    if provisioner == "kubernetes.io/no-provisioner":
        return False
    terms = storage_class.get("allowedTopologies", [])
    allowed = [
        all(labels.get(each["key"]) in each["values"] for each in term["matchLabelExpressions"]) for term in terms
    ]
    if terms and not any(allowed):
        return False
    if not objects.drivers.get(provisioner, {}).get("spec", {}).get("storageCapacity"):
        return True
    for capacity in objects.capacities.values():
        free = capacity.get("maximumVolumeSize", capacity.get("capacity"))
        reaches = "nodeTopology" in capacity and matches(capacity["nodeTopology"], labels)
        same = capacity["storageClassName"] == storage_class["metadata"]["name"]
        if same and reaches and free is not None and parse(free).value() >= _request(claim):
            return True
    return False


def _reaches(volume: Object, labels: Mapping[str, str]) -> bool:
    affinity = volume["spec"].get("nodeAffinity")
    if affinity is None:
        return True
    terms = affinity["required"]["nodeSelectorTerms"]
    return any(term.get("matchExpressions") and matches(term, labels) for term in terms)


def _request(claim: Object) -> int:
    return parse(claim["spec"]["resources"]["requests"]["storage"]).value()
