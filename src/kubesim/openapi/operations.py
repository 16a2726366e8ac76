"""The paths of an OpenAPI document: methods, parameters and responses."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final

from kubesim.openapi.components import META, gvk, name_of, reference
from kubesim.registry.discovery import SUBRESOURCES
from kubesim.registry.registry import Object, Resource

JSON: Final = "application/json"
MEDIA: Final = (JSON, "application/yaml")


def _query(name: str, kind: str, description: str, **more: Any) -> Object:
    return {"name": name, "in": "query", "description": description, "schema": {"type": kind, **more}}


def _in_path(name: str, description: str) -> Object:
    return {"name": name, "in": "path", "required": True, "description": description, "schema": {"type": "string"}}


NAME: Final = _in_path("name", "Name of the object.")
NAMESPACE: Final = _in_path("namespace", "The namespace it is in.")
WRITING: Final = [
    _query("dryRun", "string", "All: process the request without storing the result.", enum=["All"]),
    _query("fieldManager", "string", "The field manager of the change; required for apply."),
    _query(
        "fieldValidation",
        "string",
        "Handling of unknown fields. Ignore: dropped. Warn: dropped, with a warning. Strict: an error.",
        enum=["Ignore", "Warn", "Strict"],
    ),
]
DELETING: Final = [
    WRITING[0],
    _query("gracePeriodSeconds", "integer", "The grace period before the object is removed."),
    _query("orphanDependents", "boolean", "The older form of propagationPolicy."),
    _query(
        "propagationPolicy",
        "string",
        "Whether and how dependents are deleted.",
        enum=["Orphan", "Background", "Foreground"],
    ),
]
CHOOSING: Final = [
    _query("labelSelector", "string", "Only objects with these labels."),
    _query("fieldSelector", "string", "Only objects with these fields."),
    _query("limit", "integer", "The maximum number of objects in the response."),
    _query("continue", "string", "The continue token of the previous page."),
    _query("resourceVersion", "string", "The revision to read from."),
    _query("resourceVersionMatch", "string", "How resourceVersion is matched.", enum=["Exact", "NotOlderThan"]),
    _query("timeoutSeconds", "integer", "How long the request may take."),
]
WATCHING: Final = [
    _query("watch", "boolean", "Stream changes, one JSON document per line."),
    _query("allowWatchBookmarks", "boolean", "Send bookmark events."),
    _query("sendInitialEvents", "boolean", "Start a watch with the existing objects."),
]
LOGGING: Final = [
    _query("container", "string", "Which container of the pod."),
    _query("follow", "boolean", "Go on until the container ends."),
    _query("tailLines", "integer", "Only the last lines."),
]


def paths(resources: Iterable[Resource]) -> Object:
    """All paths of these resources."""
    return dict(sorted(entry for resource in resources for entry in _paths(resource)))


def _paths(resource: Resource) -> Iterator[tuple[str, Object]]:
    root = f"/apis/{resource.group}/{resource.version}" if resource.group else f"/api/{resource.version}"
    where: list[Object] = []
    if resource.namespaced:
        if "list" in resource.verbs:
            yield f"{root}/{resource.plural}", {"get": _operation(resource, "list", "ForAllNamespaces")}
        root, where = f"{root}/namespaces/{{namespace}}", [NAMESPACE]
    collection = {
        method: _operation(resource, verb)
        for verb, method in (("list", "get"), ("create", "post"), ("deletecollection", "delete"))
        if verb in resource.verbs
    }
    yield f"{root}/{resource.plural}", _at(where, collection)
    single = {
        method: _operation(resource, verb)
        for verb, method in (("get", "get"), ("update", "put"), ("patch", "patch"), ("delete", "delete"))
        if verb in resource.verbs
    }
    if single:
        yield f"{root}/{resource.plural}/{{name}}", _at([*where, NAME], single)
    for name in sorted(resource.subresources):
        methods = {"get": "get", "update": "put", "patch": "patch", "create": "post"}
        found = {methods[verb]: _operation(resource, verb, name) for verb in SUBRESOURCES[name]["verbs"]}
        yield f"{root}/{resource.plural}/{{name}}/{name}", _at([*where, NAME], found)


def _at(parameters: list[Object], operations: Object) -> Object:
    return {"parameters": parameters, **operations} if parameters else operations


def _operation(resource: Resource, verb: str, part: str = "") -> Object:
    """One method of one path. ``part`` is a subresource, or marks a path outside of namespaces."""
    action = {"create": "post", "update": "put"}.get(verb, verb)
    place = "".join(piece.capitalize() for piece in (resource.group or "core").replace("-", ".").split("."))
    sub = "" if part in {"", "ForAllNamespaces"} else part
    one = f"the {sub} of one {resource.kind}" if sub else f"one {resource.kind}"
    what = {"list": f"List {resource.plural}.", "deletecollection": f"Delete {resource.plural}."}
    operation: Object = {
        "operationId": f"{verb}{place}{resource.version.capitalize()}{resource.kind}{part[:1].upper()}{part[1:]}",
        "tags": [f"{resource.group or 'core'}_{resource.version}"],
        "description": what.get(verb, f"{verb.capitalize()} {one}."),
        "parameters": _parameters(verb, sub),
        "responses": _responses(resource, verb, sub),
        "x-kubernetes-action": action,
        "x-kubernetes-group-version-kind": _subject(resource, sub),
    }
    body = _body(resource, verb, sub)
    if body:
        operation["requestBody"] = body
    return operation


def _subject(resource: Resource, sub: str) -> Object:
    other = SUBRESOURCES.get(sub, {})
    return {**gvk(resource), **{word: other[word] for word in ("group", "version", "kind") if word in other}}


def _parameters(verb: str, sub: str) -> list[Object]:
    match verb:
        case "list":
            return CHOOSING + WATCHING
        case "deletecollection":
            return CHOOSING + DELETING
        case "delete":
            return DELETING
        case "get":
            return LOGGING if sub == "log" else []
        case "patch":
            return [*WRITING, _query("force", "boolean", "Take over fields of other managers.")]
        case _:
            return WRITING


def _body(resource: Resource, verb: str, sub: str) -> Object | None:
    if verb in {"delete", "deletecollection"}:
        return {"content": _content(reference(f"{META}.DeleteOptions"))}
    if verb in {"create", "update"}:
        kind = SUBRESOURCES.get(sub, {}).get("kind")
        schema = reference(f"{META}.{kind}" if kind else name_of(resource))
        return {"content": _content(schema), "required": True}
    if verb == "patch":
        content = {
            "application/json-patch+json": {"schema": reference(f"{META}.PatchOperations")},
            "application/merge-patch+json": {"schema": reference(f"{META}.Patch")},
            "application/apply-patch+yaml": {"schema": reference(f"{META}.Patch")},
        }
        if not resource.custom:
            content["application/strategic-merge-patch+json"] = {"schema": reference(f"{META}.Patch")}
        return {"content": content, "required": True}
    return None


def _responses(resource: Resource, verb: str, sub: str) -> Object:
    name = name_of(resource)
    refused = {"description": "Refused; the Status says why.", "content": _content(reference(f"{META}.Status"))}
    if sub == "log":
        return {
            "200": {"description": "The log.", "content": {"text/plain": {"schema": {"type": "string"}}}},
            "default": refused,
        }
    match verb:
        case "list" | "deletecollection":
            answer = reference(f"{name}List")
        case "delete":  # what is gone at once is confirmed by a Status, what is not is shown
            answer = {"anyOf": [reference(f"{META}.Status"), reference(name)]}
        case _:
            others = {"binding": f"{META}.Status", "eviction": f"{META}.Status", "scale": f"{META}.Scale"}
            answer = reference(others.get(sub, name))
    codes = {"create": ["201"], "delete": ["200", "202"]}.get(verb, ["200"])
    done = {"description": "Done.", "content": _content(answer)}
    return {**dict.fromkeys(codes, done), "default": refused}


def _content(schema: Object) -> Object:
    return {media: {"schema": schema} for media in MEDIA}
