"""The simulated provisioner: the volume that a storage class makes for a claim. Pure.

It answers for every provisioner but ``kubernetes.io/no-provisioner``, so that manifests with the classes of a cloud
work. A class with the annotation ``simulated: "false"`` is left to a provisioner outside.

A volume can be used from every node, unless the class says otherwise: the parameter ``topologyKey`` names a label of
nodes (such as ``kubernetes.io/hostname`` or ``topology.kubernetes.io/zone``) whose value the volume shares with the
node of its first consumer, and ``allowedTopologies`` limits where volumes are.
"""

from __future__ import annotations

from kubesim.identity import ServerIdentity
from kubesim.registry.registry import Object

NO_PROVISIONER = "kubernetes.io/no-provisioner"
PROVISIONED_BY = "pv.kubernetes.io/provisioned-by"
SIMULATED = "simulated"
TOPOLOGY_KEY = "topologyKey"


class ProvisionError(Exception):
    """A volume cannot be made; says why."""


def is_simulated(storage_class: Object, identity: ServerIdentity) -> bool:
    """Whether this process makes the volumes of a class."""
    annotations = storage_class["metadata"].get("annotations") or {}
    wanted = annotations.get(identity.annotation(SIMULATED), "true") != "false"
    return bool(wanted and storage_class["provisioner"] != NO_PROVISIONER)


def provisioned_volume(claim: Object, storage_class: Object, node: Object | None) -> Object:
    """The volume for a claim. ``node``: where its first consumer will run; None if the class binds at once."""
    if claim["spec"].get("selector"):
        raise ProvisionError("claim.spec.selector is not supported for dynamic provisioning")
    about, asks = claim["metadata"], claim["spec"]
    name = f"pvc-{about['uid']}"
    driver = storage_class["provisioner"]
    spec: Object = {
        "capacity": {"storage": asks["resources"]["requests"]["storage"]},
        "accessModes": asks["accessModes"],
        "volumeMode": asks["volumeMode"],
        "storageClassName": storage_class["metadata"]["name"],
        "persistentVolumeReclaimPolicy": storage_class["reclaimPolicy"],
        "mountOptions": storage_class.get("mountOptions") or [],
        "csi": {"driver": driver, "volumeHandle": name},
        "claimRef": claim_reference(claim),
    }
    terms = _topologies(storage_class, node)
    if terms:
        spec["nodeAffinity"] = {"required": {"nodeSelectorTerms": terms}}
    return {"metadata": {"name": name, "annotations": {PROVISIONED_BY: driver}}, "spec": spec}


def claim_reference(claim: Object) -> Object:
    """The claimRef of a volume that is bound to a claim."""
    about = claim["metadata"]
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "namespace": about["namespace"],
        "name": about["name"],
        "uid": about["uid"],
        "resourceVersion": about["resourceVersion"],
    }


def _topologies(storage_class: Object, node: Object | None) -> list[Object]:
    """The node selector terms of a new volume; none: it can be used everywhere."""
    terms = [_term(allowed) for allowed in storage_class.get("allowedTopologies") or ()]
    labels: dict[str, str] = (node["metadata"].get("labels") or {}) if node is not None else {}
    if node is not None and terms:
        terms = [term for term in terms if _matches(term, labels)]
        if not terms:
            name = node["metadata"]["name"]
            raise ProvisionError(f"node {name} is in no allowed topology of class {storage_class['metadata']['name']}")
    key = (storage_class.get("parameters") or {}).get(TOPOLOGY_KEY)
    if key and node is not None:
        if key not in labels:
            raise ProvisionError(f"node {node['metadata']['name']} has no label {key}")
        return [{"matchExpressions": [{"key": key, "operator": "In", "values": [labels[key]]}]}]
    return terms


def _term(allowed: Object) -> Object:
    requirements = allowed.get("matchLabelExpressions") or ()
    return {"matchExpressions": [{"key": r["key"], "operator": "In", "values": r["values"]} for r in requirements]}


def _matches(term: Object, labels: dict[str, str]) -> bool:
    return all(labels.get(wanted["key"]) in wanted["values"] for wanted in term["matchExpressions"])
