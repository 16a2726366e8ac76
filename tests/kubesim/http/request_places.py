"""Where objects live, and one for each place: what a client asks for when everything is right."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Any

NAME = "it"
REVISION = "@revision"  # in a body: replaced by the object's own, as a client would have read it
JSON_PATCH = "application/json-patch+json"
MERGE_PATCH = "application/merge-patch+json"
STRATEGIC_PATCH = "application/strategic-merge-patch+json"
APPLY_PATCH = "application/apply-patch+yaml"
PROTOBUF = "application/vnd.kubernetes.protobuf"


@dataclass(frozen=True)
class Place:
    """A collection, and an object that it takes."""

    label: str
    group: str
    version: str
    plural: str
    kind: str
    body: dict[str, Any]
    namespaced: bool = True
    parts: tuple[str, ...] = ()
    kept: bool = True  # False: a question, which is answered and not stored
    draw: int = 1  # in which draw random requests are compared with a real server; 0: by written exchanges only

    @property
    def collection(self) -> str:
        root = f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"
        return f"{root}/namespaces/default/{self.plural}" if self.namespaced else f"{root}/{self.plural}"

    @property
    def key(self) -> str:
        qualified = f"{self.plural}.{self.group}" if self.group else self.plural
        return f"{qualified}/default/{NAME}" if self.namespaced else f"{qualified}/{NAME}"

    def object(self, name: str = NAME) -> dict[str, Any]:
        version = f"{self.group}/{self.version}" if self.group else self.version
        about = {"name": name, "labels": {"app": "it"}, "annotations": {"example.com/note": "x"}}
        body = copy.deepcopy(self.body)
        return {"apiVersion": version, "kind": self.kind, "metadata": {**about, **body.pop("metadata", {})}, **body}


CONTAINER = {
    "name": "main",
    "image": "i:1",
    "resources": {"requests": {"cpu": "500m"}, "limits": {"cpu": "1", "memory": "1Gi"}},
    "ports": [{"containerPort": 80, "name": "http"}],
    "env": [{"name": "A", "value": "b"}],
    "livenessProbe": {"httpGet": {"path": "/", "port": "http"}},
}
POD_SPEC = {"containers": [CONTAINER], "tolerations": [{"key": "a", "operator": "Exists"}], "restartPolicy": "Never"}
WORKLOAD = {
    "replicas": 2,
    "selector": {"matchLabels": {"app": "workload"}},
    "template": {"metadata": {"labels": {"app": "workload"}}, "spec": {"containers": [CONTAINER]}},
}
CONDITION = {"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}
DEFINITION = {
    "metadata": {"name": "its.example.com"},
    "spec": {
        "group": "example.com",
        "scope": "Namespaced",
        "names": {"plural": "its", "kind": "It", "singular": "it", "shortNames": ["i"]},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "subresources": {
                    "status": {},
                    "scale": {
                        "specReplicasPath": ".spec.size",
                        "statusReplicasPath": ".status.size",
                        "labelSelectorPath": ".status.selector",
                    },
                },
                "additionalPrinterColumns": [{"name": "Size", "type": "integer", "jsonPath": ".spec.size"}],
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "properties": {
                            "spec": {
                                "type": "object",
                                "properties": {
                                    "size": {"type": "integer", "default": 1, "minimum": 0},
                                    "any": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
                                },
                            },
                            "status": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
                        },
                    }
                },
            }
        ],
    },
}
VOLCANO_JOB = {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job"}
TASK = {"name": "worker", "replicas": 2, "template": {"spec": POD_SPEC}}
ACCESS = {"resourceAttributes": {"verb": "get", "resource": "pods", "namespace": "default"}}
AUTHORIZATION, AUTHENTICATION, VOLCANO = "authorization.k8s.io", "authentication.k8s.io", "scheduling.volcano.sh"

PLACES = (
    Place("configmaps", "", "v1", "configmaps", "ConfigMap", {"data": {"a": "b"}, "binaryData": {"c": "AAAA"}}),
    Place("secrets", "", "v1", "secrets", "Secret", {"data": {"a": "Yg=="}, "stringData": {"c": "d"}}),
    Place("serviceaccounts", "", "v1", "serviceaccounts", "ServiceAccount", {"secrets": [{"name": "s"}]}),
    Place(
        "pods", "", "v1", "pods", "Pod",
        {"spec": POD_SPEC, "status": {"phase": "Running", "conditions": [CONDITION], "podIP": "10.0.0.1"}},
        parts=("status", "binding", "eviction", "log"),
    ),
    Place(
        "events", "", "v1", "events", "Event",
        {
            "involvedObject": {"kind": "Pod", "name": "it", "namespace": "default"},
            "reason": "R", "message": "m", "type": "Normal", "count": 1,
            "firstTimestamp": "2026-01-01T00:00:00Z", "lastTimestamp": "2026-01-01T00:00:00Z",
        },
    ),
    Place(
        "resourcequotas", "", "v1", "resourcequotas", "ResourceQuota",
        {"spec": {"hard": {"pods": "100", "requests.cpu": "100"}, "scopes": ["NotTerminating"]}},
        parts=("status",),
    ),
    Place("namespaces", "", "v1", "namespaces", "Namespace", {}, namespaced=False, parts=("status", "finalize")),
    Place(
        "nodes", "", "v1", "nodes", "Node",
        {
            "spec": {"unschedulable": True, "taints": [{"key": "a", "effect": "NoSchedule"}]},
            "status": {"capacity": {"cpu": "8", "memory": "1Gi"}, "conditions": [CONDITION]},
        },
        namespaced=False, parts=("status",),
    ),
    Place(
        "deployments", "apps", "v1", "deployments", "Deployment",
        {"spec": {**WORKLOAD, "strategy": {"rollingUpdate": {"maxSurge": "50%", "maxUnavailable": 1}}}},
        parts=("status", "scale", "scale"),
    ),
    Place("replicasets", "apps", "v1", "replicasets", "ReplicaSet", {"spec": WORKLOAD}, parts=("status", "scale")),
    Place(
        "statefulsets", "apps", "v1", "statefulsets", "StatefulSet",
        {"spec": {**WORKLOAD, "serviceName": "it", "updateStrategy": {"rollingUpdate": {"partition": 1}}}},
        parts=("status", "scale"), draw=2,
    ),
    Place(
        "daemonsets", "apps", "v1", "daemonsets", "DaemonSet",
        {"spec": {key: value for key, value in WORKLOAD.items() if key != "replicas"}},
        parts=("status",), draw=2,
    ),
    Place(
        "replicationcontrollers", "", "v1", "replicationcontrollers", "ReplicationController",
        {"spec": {**WORKLOAD, "selector": {"app": "workload"}}}, parts=("status", "scale"), draw=2,
    ),
    Place(
        "controllerrevisions", "apps", "v1", "controllerrevisions", "ControllerRevision",
        {"revision": 1, "data": {"spec": {"a": 1}}}, draw=0,  # its data is compared byte by byte
    ),
    Place(
        "cronjobs", "batch", "v1", "cronjobs", "CronJob",
        {"spec": {"schedule": "0 3 * * *", "suspend": True, "jobTemplate": {"spec": {"template": {"spec": POD_SPEC}}}}},
        parts=("status",), draw=2,
    ),
    Place(
        "endpoints", "", "v1", "endpoints", "Endpoints",
        {"subsets": [{"addresses": [{"ip": "10.9.0.1"}], "ports": [{"port": 80}]}]}, draw=2,
    ),
    Place(
        "services", "", "v1", "services", "Service",
        {"spec": {"clusterIP": "None", "selector": {"app": "it"}, "ports": [{"port": 80, "targetPort": "http"}]}},
        parts=("status",), draw=2,
    ),
    Place(
        "endpointslices", "discovery.k8s.io", "v1", "endpointslices", "EndpointSlice",
        {"addressType": "IPv4", "endpoints": [{"addresses": ["10.9.0.1"]}], "ports": [{"port": 80}]}, draw=2,
    ),
    Place(
        "jobs", "batch", "v1", "jobs", "Job",
        {"spec": {"completions": 2, "parallelism": 1, "backoffLimit": 3, "template": {"spec": POD_SPEC}}},
        parts=("status",),
    ),
    Place(
        "poddisruptionbudgets", "policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget",
        {"spec": {"maxUnavailable": 1, "selector": {"matchLabels": {"app": "other"}}}}, parts=("status",),
    ),
    Place(
        "priorityclasses", "scheduling.k8s.io", "v1", "priorityclasses", "PriorityClass",
        {"value": 100, "description": "d", "preemptionPolicy": "Never"}, namespaced=False,
    ),
    Place(
        "leases", "coordination.k8s.io", "v1", "leases", "Lease",
        {"spec": {"holderIdentity": "a", "leaseDurationSeconds": 10, "renewTime": "2026-01-01T00:00:00.000000Z"}},
    ),
    Place(
        "definitions", "apiextensions.k8s.io", "v1", "customresourcedefinitions", "CustomResourceDefinition",
        DEFINITION, namespaced=False, parts=("status",),
    ),
    Place("accessreviews", AUTHORIZATION, "v1", "selfsubjectaccessreviews", "SelfSubjectAccessReview",
          {"spec": ACCESS}, namespaced=False, kept=False),
    Place("rulesreviews", AUTHORIZATION, "v1", "selfsubjectrulesreviews", "SelfSubjectRulesReview",
          {"spec": {"namespace": "default"}}, namespaced=False, kept=False),
    Place("reviews", AUTHENTICATION, "v1", "selfsubjectreviews", "SelfSubjectReview", {}, namespaced=False, kept=False),
    Place(
        "queues", VOLCANO, "v1beta1", "queues", "Queue",
        {"spec": {"weight": 2, "parent": "root", "capability": {"cpu": "10"}}}, namespaced=False, parts=("status",),
    ),
    Place(
        "podgroups", VOLCANO, "v1beta1", "podgroups", "PodGroup",
        {"spec": {"minMember": 2, "queue": "default", "minResources": {"cpu": "1"}}}, parts=("status",),
    ),
    Place(
        "volcanojobs", "batch.volcano.sh", "v1alpha1", "jobs", "Job",
        {"spec": {"minAvailable": 1, "queue": "default", "tasks": [TASK]}}, parts=("status",),
    ),
    Place(
        "commands", "bus.volcano.sh", "v1alpha1", "commands", "Command",
        {"action": "AbortJob", "target": {**VOLCANO_JOB, "name": "it", "uid": "1"}},
    ),
    Place("its", "example.com", "v1", "its", "It", {"spec": {"size": 3, "any": {"a": [1]}}}, parts=("status", "scale")),
)  # fmt: skip
DRAWS = {draw: tuple(place for place in PLACES if place.draw == draw) for draw in (1, 2)}
"""Where random requests are compared with a real server: kinds of a later draw leave those of the first alone."""
