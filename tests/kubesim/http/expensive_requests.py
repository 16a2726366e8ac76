"""Requests that cost the server as much as a client can make them cost, each within the limit of a body."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"
PODS = "/api/v1/namespaces/default/pods"
SERVICES = "/api/v1/namespaces/default/services"
QUOTAS = "/api/v1/namespaces/default/resourcequotas"
POLICIES = "/apis/networking.k8s.io/v1/namespaces/default/networkpolicies"
DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"
JOBS = "/apis/batch.volcano.sh/v1alpha1/namespaces/default/jobs"
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"

JSON, YAML = "application/json", "application/yaml"
JSON_PATCH, MERGE_PATCH = "application/json-patch+json", "application/merge-patch+json"
STRATEGIC, APPLY = "application/strategic-merge-patch+json", "application/apply-patch+yaml"

Object = dict[str, Any]


@dataclass(frozen=True)
class Sent:
    """A request, and the status of its answer."""

    method: str
    path: str
    code: int
    body: bytes = b""
    media: str = JSON
    accept: str = JSON


def post(path: str, found: Object | bytes, code: int = 201, media: str = JSON) -> Sent:
    return Sent("POST", path, code, found if isinstance(found, bytes) else json.dumps(found).encode(), media)


def patch(path: str, found: object, media: str, code: int = 200) -> Sent:
    return Sent("PATCH", path, code, json.dumps(found).encode(), media)


def config_map(name: str = "c", keys: int = 0, value: str = "", **about: object) -> Object:
    found: Object = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, **about}}
    return found | ({"data": {f"k{n}": value for n in range(keys)}} if keys else {})


def pod(name: str = "p", **spec: object) -> Object:
    about = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}}
    return {**about, "spec": {"containers": [{"name": "c", "image": "i"}], **spec}}


def containers(number: int, **more: object) -> list[Object]:
    return [{"name": f"c{n}", **more} for n in range(number)]


def tolerations(number: int, letter: str = "k") -> list[Object]:
    return [{"key": f"{letter}{n}", "operator": "Exists"} for n in range(number)]


def deployment(number: int) -> Object:
    labels = {"app": "x"}
    template = {"metadata": {"labels": labels}, "spec": {"containers": containers(number, image="i")}}
    return {"metadata": {"name": "d"}, "spec": {"selector": {"matchLabels": labels}, "template": template}}


def job(tasks: Iterable[Object]) -> Object:
    about = {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "metadata": {"name": "j"}}
    return {**about, "spec": {"minAvailable": 1, "tasks": list(tasks)}}


def task(number: int, *after: int) -> Object:
    found: Object = {
        "name": f"t{number}",
        "replicas": 1,
        "template": {"spec": {"containers": containers(1, image="i")}},
    }
    return found | ({"dependsOn": {"name": [f"t{n}" for n in after]}} if after else {})


def definition(spec: Object) -> Object:
    schema = {"type": "object", "properties": {"spec": spec}}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    names = {"plural": "costs", "singular": "cost", "kind": "Cost"}
    about = {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition"}
    spec = {"group": "x.io", "scope": "Namespaced", "names": names, "versions": [version]}
    return {**about, "metadata": {"name": "costs.x.io"}, "spec": spec}


def patterns(number: int) -> Object:
    fields = {f"f{n}": {"type": "string", "pattern": f"^[a-z]{{1,{n % 100 + 1}}}{n}$"} for n in range(number)}
    return {"type": "object", "properties": fields}


def plain_fields(number: int) -> Object:
    return {"type": "object", "properties": {f"field{n}": {"type": "string"} for n in range(number)}}


DOUBLED = (
    json.dumps(config_map() | {"data": {}}).encode().replace(b"{}", b"{" + b",".join([b'"a":"b"'] * 250_000) + b"}")
)
LONG_YAML = b"metadata: {name: y}\ndata:\n" + b"  ? a\n" * 20_000
AMOUNTS = {f"x.io/k{n}": "1" for n in range(30_000)}
FINALIZERS = [f"a.b/k{n}" for n in range(20_000)]
OWNER = {"apiVersion": "v1", "kind": "Pod"}
WROTE = {"operation": "Update", "apiVersion": "v1", "fieldsType": "FieldsV1", "fieldsV1": {"f:data": {}}}
SELECTED = ",".join(f"a{n}%3Db" for n in range(2000))

EXPENSIVE: dict[str, Callable[[], list[Sent]]] = {
    "definition with too many patterns": lambda: [post(DEFINITIONS, definition(patterns(20_000)), 422)],
    "definition with many patterns": lambda: [post(DEFINITIONS, definition(patterns(1000)))],
    "definition with many fields": lambda: [
        post(DEFINITIONS, definition(plain_fields(20_000))),
        post(
            "/apis/x.io/v1/namespaces/default/costs",
            {"apiVersion": "x.io/v1", "kind": "Cost", "metadata": {"name": "a"}, "spec": {"field1": "b"}},
        ),
        Sent("GET", "/openapi/v3/apis/x.io/v1", 200),
    ],
    "doubled keys": lambda: [post(CONFIG_MAPS, DOUBLED)],
    "many keys": lambda: [post(CONFIG_MAPS, config_map(keys=180_000))],
    "unknown fields": lambda: [post(CONFIG_MAPS, config_map() | {f"u{n}": 1 for n in range(150_000)})],
    "YAML": lambda: [post(CONFIG_MAPS, LONG_YAML, media=YAML)],
    "long text": lambda: [post(CONFIG_MAPS, config_map(keys=1, value="x" * 1_000_000))],
    "labels": lambda: [post(CONFIG_MAPS, config_map(labels={f"k{n}": "" for n in range(120_000)}))],
    "wrong labels": lambda: [post(CONFIG_MAPS, config_map(labels={f"k{n}/": "" for n in range(5_000)}), 422)],
    "annotations": lambda: [post(CONFIG_MAPS, config_map(annotations={f"k{n}": "" for n in range(150_000)}), 422)],
    "finalizers": lambda: [post(CONFIG_MAPS, config_map(finalizers=[f"a.b/k{n}" for n in range(120_000)]))],
    "owners": lambda: [
        post(
            CONFIG_MAPS, config_map(ownerReferences=[OWNER | {"name": f"x{n}", "uid": f"u{n}"} for n in range(40_000)])
        )
    ],
    "managed fields": lambda: [
        post(CONFIG_MAPS, config_map(managedFields=[WROTE | {"manager": f"m{n}"} for n in range(15_000)])),
        patch(f"{CONFIG_MAPS}/c", {"data": {"a": "b"}}, MERGE_PATCH),
    ],
    "containers without images": lambda: [post(PODS, pod(containers=containers(20_000)), 422)],
    "containers": lambda: [post(PODS, pod(containers=containers(50_000, image="i")))],
    "containers of a template": lambda: [post(DEPLOYMENTS, deployment(20_000))],
    "tolerations": lambda: [post(PODS, pod(tolerations=tolerations(40_000)))],
    "volumes": lambda: [post(PODS, pod(volumes=[{"name": f"v{n}", "emptyDir": {}} for n in range(40_000)]))],
    "resources": lambda: [
        post(PODS, pod(containers=containers(1, image="i", resources={"requests": AMOUNTS, "limits": AMOUNTS})))
    ],
    "ports": lambda: [
        post(
            SERVICES,
            {"metadata": {"name": "s"}, "spec": {"ports": [{"name": f"p{n}", "port": n + 1} for n in range(30_000)]}},
        )
    ],
    "network policy": lambda: [
        post(
            POLICIES,
            {
                "metadata": {"name": "n"},
                "spec": {
                    "podSelector": {},
                    "ingress": [{"from": [{"ipBlock": {"cidr": "10.0.0.0/8"}}]} for _ in range(20_000)],
                },
            },
        )
    ],
    "quota": lambda: [
        post(QUOTAS, {"metadata": {"name": "q"}, "spec": {"hard": {f"count/x{n}.y": "1" for n in range(40_000)}}})
    ],
    "tasks": lambda: [post(JOBS, job(task(n) for n in range(5_000)), 403)],
    "dependencies": lambda: [post(JOBS, job(task(n, *range(max(0, n - 50), n)) for n in range(450)))],
    "operations of a JSON patch": lambda: [
        post(CONFIG_MAPS, config_map(keys=10_000)),
        patch(
            f"{CONFIG_MAPS}/c",
            [{"op": "add", "path": f"/data/n{n}", "value": "x"} for n in range(10_000)],
            JSON_PATCH,
        ),
    ],
    "insertions into a list": lambda: [
        post(PODS, pod(tolerations=tolerations(10_000))),
        patch(
            f"{PODS}/p",
            [{"op": "add", "path": "/spec/tolerations/0", "value": tolerations(1, "n")[0]} for _ in range(5_000)],
            JSON_PATCH,
        ),
    ],
    "copies": lambda: [
        post(CONFIG_MAPS, config_map(keys=20_000)),
        patch(f"{CONFIG_MAPS}/c", [{"op": "copy", "from": "/data", "path": "/x"}] * 10_000, JSON_PATCH, 422),
    ],
    "merge patch": lambda: [
        post(CONFIG_MAPS, config_map(keys=60_000)),
        patch(f"{CONFIG_MAPS}/c", {"data": {f"k{n}": "1" for n in range(60_000)}}, MERGE_PATCH),
        patch(f"{CONFIG_MAPS}/c", {"data": {"k1": "2"}}, MERGE_PATCH),
    ],
    "list of a strategic patch": lambda: [
        post(PODS, pod(containers=containers(4000, image="i"))),
        patch(f"{PODS}/p", {"spec": {"containers": containers(4000, image="j")[::-1]}}, STRATEGIC, 422),
    ],
    "values of a strategic patch": lambda: [
        post(CONFIG_MAPS, config_map(finalizers=FINALIZERS)),
        patch(f"{CONFIG_MAPS}/c", {"metadata": {"finalizers": [f"{name}x" for name in FINALIZERS]}}, STRATEGIC),
        patch(f"{CONFIG_MAPS}/c", {"metadata": {"$deleteFromPrimitiveList/finalizers": FINALIZERS[::-1]}}, STRATEGIC),
    ],
    "apply": lambda: [
        patch(f"{CONFIG_MAPS}/c?fieldManager=m", config_map(keys=10_000), APPLY, 201),
        patch(f"{CONFIG_MAPS}/c?fieldManager=n&force=true", config_map(keys=10_000, value="1"), APPLY),
    ],
    "conflicts of apply": lambda: [
        patch(f"{CONFIG_MAPS}/c?fieldManager=m", config_map(keys=8_000), APPLY, 201),
        patch(f"{CONFIG_MAPS}/c?fieldManager=n", config_map(keys=8_000, value="1"), APPLY, 409),
    ],
    "selector": lambda: [Sent("GET", f"{PODS}?labelSelector={SELECTED}", 200)],
    "OpenAPI": lambda: [Sent("GET", "/openapi/v2", 200)],
    "answer in YAML": lambda: [
        post(CONFIG_MAPS, config_map(keys=20_000)),
        Sent("GET", f"{CONFIG_MAPS}/c", 200, accept=YAML),
        Sent("GET", CONFIG_MAPS, 200, accept=YAML),
    ],
}
"""By name; each makes its requests when it is called, since they have megabytes."""
