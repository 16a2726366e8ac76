"""Requests that are nearly right: a valid one for every verb of every kind, and ways to corrupt it.

``bad_request`` builds them; a ``BadRequest`` has all its bytes, so that a failing one can be sent again by hand. Its
content depends on a random generator only: the strategies of hypothesis would repeat themselves too often.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from random import Random
from typing import Any
from urllib.parse import quote

from tests.kubesim.http.bad_values import (
    ACCEPTS,
    DELETION,
    DIRECTIVES,
    METADATA,
    NUMBERS,
    ODD_BYTES,
    ODD_PATHS,
    ODD_QUERIES,
    QUERY,
    SEGMENTS,
    TYPES,
    WORDS,
    YAML_ODDITIES,
    junk,
    pairs,
    some,
)
from tests.kubesim.http.request_places import (
    APPLY_PATCH,
    JSON_PATCH,
    MERGE_PATCH,
    NAME,
    PLACES,
    PROTOBUF,
    REVISION,
    STRATEGIC_PATCH,
    Place,
)


@dataclass(repr=False)
class BadRequest:
    """A request, with all its bytes."""

    label: str
    method: str
    path: str
    query: str = ""
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""

    def wire(self) -> bytes:
        """As it goes over the wire. Its length is right: what lies about that is made elsewhere."""
        target = f"{self.path}?{self.query}" if self.query else self.path
        lines = [f"{self.method} {target} HTTP/1.1", "Host: localhost"]
        lines += [f"{name}: {value}" for name, value in self.headers.items()]
        if self.body or self.method in {"POST", "PUT", "PATCH"}:
            lines.append(f"Content-Length: {len(self.body)}")
        return "\r\n".join([*lines, "", ""]).encode("latin-1", "replace") + self.body

    def __repr__(self) -> str:
        """In brief: an example has dozens of them. What fails is shown with all its bytes."""
        return f"<{self.label}>"

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        printer.text(repr(self))

    @property
    def dry(self) -> bool:
        """Whether nothing should be written."""
        return "dryRun" in self.query or b"dryRun" in self.body


# ---- bodies -----------------------------------------------------------------------------------------------


def _paths(found: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Where something stands in a document."""
    paths = [path] if path else []
    pairs = found.items() if isinstance(found, dict) else enumerate(found) if isinstance(found, list) else ()
    if len(path) < 12:
        for step, value in pairs:
            paths += _paths(value, (*path, step))
    return paths


def _at(found: Any, path: Sequence[Any]) -> Any:
    for step in path:
        found = found[step]
    return found


def _schema_paths(schema: dict[str, Any], depth: int = 9) -> list[tuple[tuple[Any, ...], dict[str, Any]]]:
    """Every field that a schema knows, lists by their first element."""
    found: list[tuple[tuple[Any, ...], dict[str, Any]]] = []
    if depth:
        for name, below in schema.get("properties", {}).items():
            found.append(((name,), below))
            found += [((name, *path), end) for path, end in _schema_paths(below, depth - 1)]
        if isinstance(schema.get("items"), dict):
            found += [((0, *path), end) for path, end in _schema_paths(schema["items"], depth - 1)]
        if isinstance(schema.get("additionalProperties"), dict):
            found.append((("a",), schema["additionalProperties"]))
    return found


RIGHT: dict[str, Callable[[Random], Any]] = {
    "string": lambda chance: chance.choice(WORDS),
    "integer": lambda chance: chance.choice([number for number in NUMBERS if isinstance(number, int)]),
    "number": lambda chance: chance.choice(NUMBERS),
    "boolean": lambda chance: chance.random() < 0.5,
    "array": lambda chance: some(chance, 2),
    "object": lambda chance: pairs(chance, 2),
}


def set_at_path(found: Any, path: Sequence[Any], value: Any) -> None:
    """Put a value at a path, and what is missing above it."""
    for step, follower in pairwise(path):
        if isinstance(found, list):
            if not found:
                found.append([] if isinstance(follower, int) else {})
            found = found[0]
        elif isinstance(found, dict):
            if not isinstance(found.get(step), dict | list):
                found[step] = [] if isinstance(follower, int) else {}
            found = found[step]
    last = path[-1]
    if isinstance(found, dict):
        found[last] = value
    elif isinstance(found, list):
        found[:1] = [value]


class Schemas:
    """The fields of every kind, for those who want to set one that exists."""

    def __init__(self, find: Callable[[str, str, str], dict[str, Any] | None]) -> None:
        self._paths = {}
        for place in PLACES:
            schema = find(place.group, place.version, place.plural)
            self._paths[place.label] = _schema_paths(schema) if schema else []

    def of(self, place: Place) -> list[tuple[tuple[Any, ...], dict[str, Any]]]:
        """Paths and what stands there."""
        return self._paths[place.label] or [(("spec",), {})]


def corrupt_object(chance: Random, schemas: Schemas, place: Place, whole: dict[str, Any]) -> Any:
    """A document with something wrong in it, or something rare that is right."""
    found: Any = copy.deepcopy(whole)
    for _ in range(chance.randint(0, 3)):
        if not isinstance(found, dict):
            break
        how = chance.choice(["schema", "schema", "schema", "replace", "delete", "add", "metadata", "rename"])
        paths = _paths(found)
        if how == "schema":
            path, end = chance.choice(schemas.of(place))
            kind = "string" if end.get("x-kubernetes-int-or-string") else end.get("type", "")
            right = kind in RIGHT and chance.randint(0, 3) > 0
            set_at_path(found, path, RIGHT[kind](chance) if right else junk(chance))
        elif how == "metadata":
            about = found.get("metadata")
            if isinstance(about, dict):
                about[chance.choice(METADATA)] = junk(chance)
        elif paths:
            path = chance.choice(paths)
            above = _at(found, path[:-1])
            if how == "replace":
                above[path[-1]] = junk(chance)
            elif how == "delete":
                del above[path[-1]]
            elif isinstance(above, dict):
                above[chance.choice(WORDS)] = junk(chance) if how == "add" else above.pop(path[-1])
    return junk(chance) if chance.randint(0, 30) == 0 else found


def _json(found: Any) -> bytes:
    return json.dumps(found).encode()


def encoded(chance: Random, found: Any, media: str) -> tuple[bytes, str]:
    """The bytes of a document and their content type, one of them perhaps wrong."""
    how = chance.choice(["plain"] * 14 + ["yaml", "yaml odd", "bytes", "cut", "flip", "type", "protobuf", "utf-16"])
    content = _json(found)
    if how == "yaml":
        return content, chance.choice(["application/yaml", "application/x-yaml", "text/yaml"])  # JSON is YAML
    if how == "yaml odd":
        return chance.choice(YAML_ODDITIES), "application/yaml"
    if how == "bytes":
        return chance.choice(ODD_BYTES), media
    if how == "cut":
        return content[: chance.randint(0, len(content))], media
    if how == "flip":
        at = chance.randint(0, len(content) - 1)
        return content[:at] + chance.randbytes(chance.randint(1, 3)) + content[at + 1 :], media
    if how == "type":
        return content, chance.choice(TYPES)
    if how == "protobuf":
        return b"k8s\x00" + chance.randbytes(chance.randint(0, 60)), PROTOBUF
    if how == "utf-16":
        return content.decode().encode("utf-16"), chance.choice([media, "application/yaml"])
    return content, media


_PAIRS = [(name, value) for name, values in QUERY.items() for value in values]


def _query(pairs: Sequence[tuple[str, str]]) -> str:
    return "&".join(f"{quote(name)}={quote(value)}" for name, value in pairs)


# ---- patches ----------------------------------------------------------------------------------------------


def json_patch(chance: Random, whole: dict[str, Any]) -> Any:
    """Operations on what is there, and on what is not."""
    pointers = [
        "",
        "/",
        "/-",
        "/metadata/labels/x~1y",
        "/a~2b",
        "x",
        "/spec/containers/-",
        "/spec/containers/99999999999999999999",
        "/spec/containers/01",
    ]
    pointers += [
        "/" + "/".join(str(step).replace("~", "~0").replace("/", "~1") for step in path) for path in _paths(whole)
    ]
    operations = []
    for _ in range(chance.randint(0, 4)):
        operation = {"op": chance.choice(["add", "remove", "replace", "move", "copy", "test", "x", None, 1])}
        operation["path"] = chance.choice(pointers)
        if operation["op"] in {"move", "copy"}:
            operation["from"] = chance.choice(pointers)
        elif chance.randint(0, 9):
            operation["value"] = junk(chance)
        operations.append(junk(chance) if chance.randint(0, 15) == 0 else operation)
    return operations if chance.randint(0, 15) else junk(chance)


def merge_patch(chance: Random, schemas: Schemas, place: Place, *, strategic: bool = False) -> Any:
    """A few fields of an object, and directives where there should be none."""
    found: Any = {"metadata": {}}
    for _ in range(chance.randint(0, 3)):
        path, end = chance.choice([*schemas.of(place), (("metadata", chance.choice(METADATA)), {})])
        set_at_path(found, path, (RIGHT.get(end.get("type", ""), junk) if chance.random() < 0.5 else junk)(chance))
        if strategic and chance.random() < 0.5:
            below = found
            for step in path[:-1]:
                below = below.get(step) if isinstance(below, dict) else below[0] if isinstance(below, list) else None
            if isinstance(below, dict):
                told = ["delete", "replace", "merge", "x", None, 1, [], ["a"], [None], [{"name": "main"}], {}]
                below[chance.choice(DIRECTIVES)] = chance.choice(told)
    return found if chance.randint(0, 15) else junk(chance)


# ---- requests ---------------------------------------------------------------------------------------------

VERBS = ["create"] * 4 + ["update"] * 3 + ["json patch", "merge patch", "strategic patch", "apply"] * 2 + [
    "delete", "delete collection", "get", "list", "list", "watch", "part", "part", "odd",
]  # fmt: skip


def bad_request(chance: Random, schemas: Schemas, places: Sequence[Place] = PLACES) -> BadRequest:
    """One request to one of these places: valid, and then not."""
    place = chance.choice(places)
    verb = chance.choice(VERBS)
    asked = _valid(chance, schemas, place, verb)
    if chance.randint(0, 5) == 0:
        asked.headers["Accept"] = chance.choice(ACCEPTS)
    if chance.randint(0, 2) == 0:
        chosen = chance.choices(_PAIRS, k=chance.randint(0, 3))
        asked.query = "&".join(filter(None, [asked.query, _query(chosen)]))
    if chance.randint(0, 30) == 0:
        asked.query = chance.choice(ODD_QUERIES)
    if chance.randint(0, 12) == 0:
        segments = asked.path.split("/")
        at = chance.randint(1, len(segments))
        segments[at : at + chance.randint(0, 1)] = [chance.choice(SEGMENTS)]
        asked.path = "/".join(segments)
    if chance.randint(0, 30) == 0:
        asked.method = chance.choice(["GET", "HEAD", "OPTIONS", "POST", "PUT", "PATCH", "DELETE", "TRACE", "LOCK"])
    return asked


def _valid(chance: Random, schemas: Schemas, place: Place, verb: str) -> BadRequest:
    """A request as it is meant, but for its body."""
    label, one = f"{verb} {place.label}", f"{place.collection}/{place.object()['metadata']['name']}"
    match verb:
        case "create":
            body = corrupt_object(chance, schemas, place, place.object(chance.choice([NAME, "other", "third"])))
            return _with(chance, BadRequest(label, "POST", place.collection), body)
        case "update":
            whole = place.object()
            whole["metadata"]["resourceVersion"] = REVISION
            return _with(chance, BadRequest(label, "PUT", one), corrupt_object(chance, schemas, place, whole))
        case "json patch":
            return _with(chance, BadRequest(label, "PATCH", one), json_patch(chance, place.object()), JSON_PATCH)
        case "merge patch":
            return _with(chance, BadRequest(label, "PATCH", one), merge_patch(chance, schemas, place), MERGE_PATCH)
        case "strategic patch":
            body = merge_patch(chance, schemas, place, strategic=True)
            return _with(chance, BadRequest(label, "PATCH", one), body, STRATEGIC_PATCH)
        case "apply":
            whole = place.object(chance.choice([NAME, NAME, "other"]))
            asked = BadRequest(label, "PATCH", f"{place.collection}/{whole['metadata']['name']}", _applying(chance))
            return _with(chance, asked, corrupt_object(chance, schemas, place, _partly(chance, whole)), APPLY_PATCH)
        case "delete" | "delete collection":
            asked = BadRequest(label, "DELETE", one if verb == "delete" else place.collection)
            options = {chance.choice(DELETION): junk(chance) for _ in range(chance.randint(0, 3))}
            return _with(chance, asked, {"kind": "DeleteOptions", "apiVersion": "v1", **options}) if options else asked
        case "get":
            return BadRequest(label, "GET", one)
        case "list":
            return BadRequest(label, "GET", place.collection.replace("/namespaces/default", "", chance.randint(0, 1)))
        case "watch":
            return BadRequest(label, "GET", place.collection, "watch=1&timeoutSeconds=1")
        case "part":
            return _part(chance, schemas, place, one)
    return BadRequest("odd", chance.choice(["GET", "GET", "POST", "OPTIONS"]), chance.choice(ODD_PATHS))


def _applying(chance: Random) -> str:
    """Who applies, and whether they insist."""
    return f"fieldManager={chance.choice(['one', 'two', 'kubectl'])}&force={chance.choice(['true', 'true', 'false'])}"


def _partly(chance: Random, whole: dict[str, Any]) -> dict[str, Any]:
    """An object with some of its fields: who applies says only what they care about."""
    kept = {name: part for name, part in whole.items() if name in {"apiVersion", "kind"} or chance.random() < 0.8}
    return {**kept, "metadata": {"name": whole["metadata"]["name"]} if chance.random() < 0.5 else whole["metadata"]}


def _scale(chance: Random, place: Place, path: str) -> BadRequest:
    """A request to the scale of something."""
    label = f"scale {place.label}"
    whole: dict[str, Any] = {"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": NAME}}
    whole["spec"] = {"replicas": chance.choice([0, 1, 2, 5, -1])}
    found: Any = copy.deepcopy(whole)
    for _ in range(chance.randint(0, 2)):
        path_to = chance.choice(
            [*_paths(whole), ("metadata", "uid"), ("metadata", "namespace"), ("status", "replicas")]
        )
        set_at_path(found, path_to, junk(chance))
    match chance.randint(0, 4):
        case 0:
            return _with(chance, BadRequest(label, "PATCH", path), json_patch(chance, whole), JSON_PATCH)
        case 1:
            return _with(chance, BadRequest(label, "PATCH", path), found, chance.choice([MERGE_PATCH, STRATEGIC_PATCH]))
        case 2:
            return _with(chance, BadRequest(label, "PATCH", path, _applying(chance)), found, APPLY_PATCH)
    return _with(chance, BadRequest(label, "PUT", path), found)


def _part(chance: Random, schemas: Schemas, place: Place, one: str) -> BadRequest:
    """A request to a subresource."""
    part = chance.choice(place.parts or ("status",))
    path, label = f"{one}/{part}", f"{part} {place.label}"
    if part == "log" or chance.randint(0, 8) == 0:
        return BadRequest(label, "GET", path)
    if part == "scale":
        return _scale(chance, place, path)
    if part in {"binding", "eviction"}:
        whole: dict[str, Any] = {"metadata": {"name": NAME}}
        if part == "binding":
            whole["target"] = {"kind": "Node", "name": chance.choice(["it", "x", ""])}
        elif chance.random() < 0.5:
            whole["deleteOptions"] = {"gracePeriodSeconds": 0, "preconditions": {"uid": chance.choice(["x", ""])}}
        return _with(chance, BadRequest(label, "POST", path), corrupt_object(chance, schemas, place, whole))
    if chance.random() < 0.5:
        return _with(chance, BadRequest(label, "PATCH", path), merge_patch(chance, schemas, place), MERGE_PATCH)
    return _with(chance, BadRequest(label, "PUT", path), corrupt_object(chance, schemas, place, place.object()))


def _with(chance: Random, asked: BadRequest, body: Any, media: str = "application/json") -> BadRequest:
    asked.body, asked.headers["Content-Type"] = encoded(chance, body, media)
    return asked


# ---- one of each ------------------------------------------------------------------------------------------


def odd_requests() -> Iterator[BadRequest]:
    """Everything that is odd by itself, in every place where it can stand."""
    collection, one = "/api/v1/namespaces/default/configmaps", "/api/v1/namespaces/default/configmaps/it"
    pod = "/api/v1/namespaces/default/pods/it"
    for path in ODD_PATHS:
        for method in ("GET", "HEAD", "OPTIONS", "POST", "DELETE", "PATCH"):
            yield BadRequest("odd path", method, path)
    for place in (collection, one, f"{pod}/log"):
        for query in [*(_query([pair]) for pair in _PAIRS), *ODD_QUERIES]:
            yield BadRequest("odd query", "GET", place, query)
    for query in [*(_query([pair]) for pair in _PAIRS), *ODD_QUERIES]:
        yield BadRequest("odd query", "GET", collection, f"watch=1&timeoutSeconds=1&{query}")
        yield BadRequest("odd query", "POST", collection, query, {}, b'{"metadata":{"generateName":"a-"}}')
        yield BadRequest("odd query", "DELETE", collection, f"labelSelector=a&{query}")
    for accept in ACCEPTS:
        for path, query in ((one, ""), (collection, ""), (collection, "watch=1"), ("/apis", ""), ("/openapi/v2", "")):
            yield BadRequest("odd accept", "GET", path, query, {"Accept": accept})
    for content in [*ODD_BYTES, *YAML_ODDITIES]:
        for method, path in (("POST", collection), ("PUT", one), ("DELETE", pod), ("POST", f"{pod}/binding")):
            for media in ("application/json", "application/yaml", PROTOBUF):
                yield BadRequest("odd body", method, path, "dryRun=All", {"Content-Type": media}, content)
        for media in (JSON_PATCH, MERGE_PATCH, STRATEGIC_PATCH, APPLY_PATCH):
            for path in (pod, "/apis/apps/v1/namespaces/default/deployments/it/scale"):
                query = "fieldManager=me" if media == APPLY_PATCH else ""
                yield BadRequest("odd patch", "PATCH", path, query, {"Content-Type": media}, content)
    for media in TYPES:
        for method in ("POST", "PUT", "PATCH", "DELETE"):
            path = collection if method == "POST" else one
            yield BadRequest(
                "odd type", method, path, "dryRun=All", {"Content-Type": media}, b'{"metadata":{"name":"it"}}'
            )
