"""Values that are rare, wrong or both: words, numbers, documents, and what may stand in a request."""

from __future__ import annotations

import base64
import copy
from random import Random
from typing import Any

from tests.kubesim.http.request_places import APPLY_PATCH, JSON_PATCH, MERGE_PATCH, PROTOBUF, REVISION, STRATEGIC_PATCH

WORDS = [
    "", " ", "a", "A_", "it", "-", ".", "..", "/", "a/b", "a/b/c", "a=b", "\x00", "\u2028", "é", "日本", "\U0001f600",
    "\ufffe", "1", "-1", "0", "500m", "1Gi", "1e3", "1e400", "0x1", "99999999999999999999", "1.5.5", "100%", "-5%",
    "1000%", "%s", "Always", "Never", "OnFailure", "Exists", "In", "Equal", "NoExecute", "True", "true", "null",
    "Orphan", "Guaranteed", "cpu", "memory", "nvidia.com/gpu", "hugepages-2Mi", "pods", "requests.cpu", "count/pods",
    "kubernetes", "foregroundDeletion", "orphan", "example.com/keep", "10.0.0.1", "::1", "2026-01-01T00:00:00Z",
    "2026-13-45T99:99:99Z", "0001-01-01T00:00:00Z", "9999-12-31T23:59:59Z", "2026-01-01T00:00:00+99:00", "AAAA", "Yg",
    "!!", "x" * 300, "é" * 70000, ".spec.size", "{.a[", "^(a+)+$", "[", "string", "integer", "object", "array",
    "Namespaced", "Cluster", "kubernetes.io/service-account-token", "default", "root", "AbortJob", "v1", "v1beta1",
    "example.com", REVISION,
]  # fmt: skip
NUMBERS = [
    0, 1, -1, 2, 30, 80, 65536, 2**31 - 1, 2**31, -(2**31), 2**53, 2**63 - 1, 2**63, -(2**63) - 1, 10**30, 0.5, -0.0,
    1e300, 1e-300,
]  # fmt: skip
OTHERS: list[Any] = [
    None,
    True,
    False,
    [],
    {},
    [[]],
    [None],
    {"": ""},
    {"a": None},
    [{}],
    ["a", "a"],
    {"name": "a"},
    [{"name": "main"}] * 2,
]


def nested(depth: int, *, lists: bool) -> Any:
    """So many lists or objects in each other."""
    found: Any = "x"
    for _ in range(depth):
        found = [found] if lists else {"a": found}
    return found


DEEP = [nested(50, lists=False), nested(50, lists=True), nested(199, lists=True), nested(210, lists=False)]
WIDE = [{f"k{i}": "v" for i in range(2000)}, ["a"] * 5000, [{"name": f"n{i}"} for i in range(500)]]

_SCALARS = [*WORDS, *NUMBERS, *OTHERS]


def scalar(chance: Random) -> Any:
    """A small value."""
    return copy.deepcopy(chance.choice(_SCALARS))  # who gets it may change it


def some(chance: Random, most: int = 3) -> list[Any]:
    """A few small values."""
    return [scalar(chance) for _ in range(chance.randint(0, most))]


def pairs(chance: Random, most: int = 3) -> dict[str, Any]:
    """A few small values, by name."""
    return {chance.choice(WORDS): scalar(chance) for _ in range(chance.randint(0, most))}


def junk(chance: Random) -> Any:
    """Any value at all."""
    match chance.randint(0, 9):
        case 0:
            return copy.deepcopy(chance.choice([*DEEP, *WIDE]))
        case 1:
            return "".join(chr(chance.choice([chance.randint(0, 127), chance.randint(0, 0xD7FF)])) for _ in range(5))
        case 2:
            return chance.randint(-(2**70), 2**70)
        case 3:
            return some(chance)
        case 4:
            return pairs(chance)
    return scalar(chance)


# ---- what may stand in a request ---------------------------------------------------------------------------

METADATA = [
    "name", "generateName", "namespace", "uid", "resourceVersion", "generation", "creationTimestamp",
    "deletionTimestamp", "deletionGracePeriodSeconds", "labels", "annotations", "ownerReferences", "finalizers",
    "managedFields", "selfLink", "x",
]  # fmt: skip
DELETION = [
    "gracePeriodSeconds", "preconditions", "propagationPolicy", "orphanDependents", "dryRun", "kind", "apiVersion",
    "x",
]  # fmt: skip
DIRECTIVES = [
    "$patch", "$retainKeys", "$deleteFromPrimitiveList/finalizers", "$setElementOrder/containers",
    "$setElementOrder/x", "$x", "$patch/",
]  # fmt: skip
BOMB = b"a: &a [x,x,x,x,x,x,x,x,x,x]\n" + b"".join(
    b"%c: &%c [%b]\n" % (c, c, b",".join([b"*%c" % (c - 1)] * 10)) for c in range(ord("b"), ord("k"))
)
YAML_ODDITIES = [
    BOMB, b"&a [*a]", b"metadata: &a {name: it, labels: *a}", b"a: 1\n---\nb: 2", b"!!python/object:os.system x",
    b"a: !!bool x", b"a: !!timestamp x", b"a: !!int ''", b"a: !!float x", b"a: !!binary '*'", b"!!set {a, b}",
    b"? [a]\n: b", b"a: [", b"%YAML 9.9\n---\na", b"<<: {metadata: {name: x}}\nkind: ConfigMap", b"- a\n- b", b"*a",
    b"a: 0x" + b"f" * 40, b"a: .inf", b"a: 2026-13-45", b"\t", b"a: b: c", b"{" * 3000, b"1: 2", b"null: null",
    b"a: 2026-01-01", b"=: 1", b"a: 190:20:30", b"a: !!null x", b"a: !!str [b]", b"a: !!map []", b"a: 1_0",
]  # fmt: skip
ODD_BYTES = [
    b"", b"\x00", b"null", b"[]", b'""', b"0", b"{", b'{"', b'{"a":', b"}", b"{}{}", b"nan", b"Infinity",
    b"\xff\xfe{\x00}\x00", b"\xef\xbb\xbf{}", b'{"a":"\xff"}', b'{"a":"\\ud800"}',
    b'{"metadata":{"name":"it","annotations":{"a":"\\udc00x"}}}', b'{"metadata":{"name":"a","name":"b"}}',
    b'{"metadata":{"name":"it"},"metadata":null}', b"[" * 100_000, b'{"a":' * 100_000, b'{"a":' + b"9" * 5000 + b"}",
    b'{"a":1e9999}', b'{"a":-}', b'{"a":01}', b"{'a':1}", b"k8s\x00", b"k8s\x00" + bytes(range(256)),
    b"k8s\x00\x0a\xff\xff\xff\xff\x0f", b" " * 70_000, b"<xml/>", b'{"metadata":{"name":"' + b"a" * 300_000 + b'"}}',
]  # fmt: skip
TYPES = [
    "", "application/json", "application/json; charset=utf-16", "application/json;", ";", "text/plain",
    "application/yaml", PROTOBUF, JSON_PATCH, MERGE_PATCH, STRATEGIC_PATCH, APPLY_PATCH,
    "multipart/form-data; boundary=x", "application/x-www-form-urlencoded", "a" * 3000, "\xff", "APPLICATION/JSON",
]  # fmt: skip
ACCEPTS = [
    "", "*/*", "application/json", "application/yaml", PROTOBUF, f"{PROTOBUF},application/json", "text/html", ",",
    ";;", "application/json;q=0", "application/json;as=Table;v=v1;g=meta.k8s.io",
    "application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json",
    "application/json;as=Table;v=v9;g=meta.k8s.io", "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io",
    "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io",
    "application/yaml;as=Table;v=v1;g=meta.k8s.io", "application/json;as=",
    "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList", "\xff\xfe", "application/*", "a" * 5000,
]  # fmt: skip
_ISSUED = [
    '{"rv":1,"start":"a\\u0000"}', '{"rv":-1,"start":"a\\u0000"}', '{"rv":0,"start":"../x"}', '{"rv":true,"start":"a"}',
    '{"rv":9999999999999999999999,"start":"a"}', '{"rv":18,"start":"it\\u0000"}', '{"rv":2,"start":""}',
    '{"rv":1.5,"start":"a"}',
    '{"rv":30,"start":"\\u0000"}', '{"rv":"1","start":1}', '{"rv":18,"start":"' + "a" * 3000 + '"}',
]  # fmt: skip
_FOREIGN = ["{}", "[]", "null", "x", '{"v":1,"rv":1,"start":"a"}']
TOKENS = ["", "x", "e30", "====", "\x00", "é"] + [
    base64.urlsafe_b64encode(text.encode()).decode()
    for text in [*_FOREIGN, *(text.replace("{", '{"v":"meta.k8s.io/v1",', 1) for text in _ISSUED)]
]
COUNTS = [
    "", "0", "1", "-1", "2", "x", "1.5", "1_0", "+1", " 1", "٣", "0x1", "9" * 19, "9" * 25, "9" * 5000,
    "-" + "9" * 18, "1e3", "NaN", "\x00",
]  # fmt: skip
SELECTORS = [
    "app=it", "app!=it", "app in (it,b)", "app notin (it)", "!app", "app", "app in ()", "app in (", "a=b=c", "=", ",",
    "a,,b", "a in b", "é=1", "app=" + "x" * 300, "app>1", "app<x", "x" * 3000, "(" * 500, "a=b," * 500,
    "metadata.name=it", "metadata.name!=it", "metadata.namespace=default", "status.phase=Running", "spec.nodeName=",
    "spec.unschedulable=true", "type=Opaque", "a\\=b=c", "metadata.name=a\\", "\x00", "involvedObject.kind=Pod",
]  # fmt: skip
QUERY: dict[str, list[str]] = {
    "resourceVersion": COUNTS,
    "resourceVersionMatch": ["", "Exact", "NotOlderThan", "x"],
    "continue": TOKENS,
    "limit": COUNTS,
    "labelSelector": SELECTORS,
    "fieldSelector": SELECTORS,
    "watch": ["", "1", "0", "true", "false", "x"],
    "timeoutSeconds": COUNTS,
    "allowWatchBookmarks": ["1", "x", ""],
    "sendInitialEvents": ["true", "false", ""],
    "dryRun": ["All", "", "x", "All,All"],
    "fieldValidation": ["Strict", "Warn", "Ignore", "", "x"],
    "fieldManager": ["me", "", "x" * 300],
    "force": ["true", "false", "", "x"],
    "gracePeriodSeconds": COUNTS,
    "propagationPolicy": ["Orphan", "Foreground", "Background", "", "x"],
    "orphanDependents": ["true", "false", "x"],
    "includeObject": ["None", "Metadata", "Object", "x"],
    "pretty": ["1", "x"],
    "tailLines": COUNTS,
    "sinceSeconds": COUNTS,
    "sinceTime": [*COUNTS, "2026-01-01T00:00:00Z", "0001-01-01T00:00:00Z", "9999-12-31T23:59:59+14:00"],
    "limitBytes": COUNTS,
    "container": ["main", "", "x"],
    "previous": ["1"],
    "follow": ["false"],
    "timestamps": ["1"],
    "é\x00": ["x"],
}
ODD_QUERIES = [
    "&&&", "=", "%", "%zz=%zz", "a" * 3000, "?", ";", "a;b=c", "limit=1&limit=x", "\xff=\xfe", "+", "%ff=%fe",
    "a" + "&a" * 3000,
]  # fmt: skip
SEGMENTS = [
    "", ".", "..", "%00", "%2F", "%2e%2e", "%ff", "%zz", "a b".replace(" ", "+"), "x" * 3000, "status", "log",
    "binding", "scale", "*", "%20", "it", "\xe9", "IT", "namespaces", "v2", "a;b", "default",
]  # fmt: skip
ODD_PATHS = [
    "/", "//", "/api", "/apis", "/api/", "/apis/", "/api/v1", "/api/v2", "/apis/batch", "/apis/batch/v1", "/version",
    "/openapi", "/openapi/v2", "/openapi/v3", "/openapi/v3/api/v1", "/openapi/v3/apis/batch/v1",
    "/openapi/v3/apis/x/y", "/openapi/v3/apis/batch", "/healthz", "/readyz/x", "/livez?verbose", "*", "/metrics",
    "/logs", "/favicon.ico", "/api/v1/watch/pods", "/api/v1/namespaces/default/pods/it/exec",
    "/api/v1/namespaces/default/pods/it/proxy/x", "/api/v1/namespaces/nowhere/configmaps", "/apis//v1/x",
    "/api/v1//pods", "/api/v1/componentstatuses", "/apis/apps/v1/deployments", "/api/v1/namespaces/default",
    "/api/v1/namespaces/kube-system", "/" + "a/" * 3000,
]  # fmt: skip
