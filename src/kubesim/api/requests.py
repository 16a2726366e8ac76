"""Parsing of requests: the resource in the path and the options in the query.

``/apis/GROUP/VERSION/namespaces/NS/RESOURCE/NAME/SUBRESOURCE`` becomes a ``Target``; the verb follows from the method
and from whether there is a name. This module does not read stored objects.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple
from urllib.parse import unquote

import msgspec

from kubesim.api import status
from kubesim.api.field_errors import FieldProblem, forbidden, invalid, required, unsupported
from kubesim.api.selectors import FieldSelector, Selector, field_selector, label_selector
from kubesim.registry.registry import Object, Resource, ResourceRegistry

LONGEST_NUMBER = 20  # digits and a sign; what is longer is out of any range
_WHOLE = re.compile(r"[+-]?[0-9]+", re.ASCII)


class Target(NamedTuple):
    """What a path names. Without a name it is the collection."""

    resource: Resource
    namespace: str = ""
    name: str = ""
    subresource: str = ""

    @property
    def key(self) -> str:
        """Where the object is stored."""
        return self.resource.key(self.namespace, self.name)


def parse_target(path: str, registry: ResourceRegistry) -> Target | None:
    """What a path names, or None if nothing of that name is served."""
    parts = path.split("/")[1:]
    if "%" in path:
        parts = [unquote(part) for part in parts]
    if len(parts) > 1 and parts[-1] == "":
        parts.pop()
    if "" in parts:
        return None
    match parts:
        case ["api", version, *rest]:
            group = ""
        case ["apis", group, version, *rest]:
            pass
        case _:
            return None
    namespace = ""
    # /namespaces/NS/pods is in a namespace; /namespaces/NS and /namespaces/NS/status are about the namespace.
    if len(rest) >= 3 and rest[0] == "namespaces" and not (not group and rest[2] in {"status", "finalize"}):
        _, namespace, *rest = rest
    if not rest or len(rest) > 3:
        return None
    plural, name, subresource = (*rest, "", "")[:3]
    resource = registry.find(group, version, plural)
    if resource is None or (namespace and not resource.namespaced):
        return None
    if name and resource.namespaced and not namespace:
        return None
    if subresource in resource.refused_subresources:
        raise status.bad_request(resource.refused_subresources[subresource])
    if subresource and subresource not in resource.subresources:
        if resource.custom and subresource in {"status", "scale"}:
            raise status.not_found(resource.plural, resource.group, name)
        return None
    return Target(resource, namespace, name, subresource)


def request_verb(method: str, target: Target, watch: bool) -> str:
    """The verb of a request, as ``kubectl auth can-i`` would name it."""
    named = {"GET": "get", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}
    whole = {"GET": "watch" if watch else "list", "POST": "create", "DELETE": "deletecollection"}
    if target.name:
        found = "create" if method == "POST" and target.subresource else named.get(method, "")
    else:
        found = whole.get(method, "")
    if not found:
        raise status.method_not_allowed()
    return found


def as_object(body: object) -> Object:
    """The body of a write, which must be an object."""
    if not isinstance(body, dict):
        raise status.bad_request("the body of the request is not an object")
    return body


def require_same_name(body: object, target: Target) -> Object:
    """The body of an update, which must be about the object in the path."""
    new = as_object(body)
    name = given_name(new)
    if not name:
        raise name_missing(target)
    if name != target.name:
        raise name_mismatch(name, target)
    return new


def given_name(body: Object) -> object:
    """The name in a body, of whatever type; None if there is none."""
    about = body.get("metadata")
    return about.get("name") if isinstance(about, dict) else None


def name_missing(target: Target) -> status.ApiError:
    """The error for a body without a name."""
    return status.bad_request(
        f"the name of the object ({target.name} based on URL) was undeterminable: name must be provided"
    )


def name_mismatch(name: object, target: Target) -> status.ApiError:
    """The error for a body whose name differs from the path."""
    return status.bad_request(f"the name of the object ({name}) does not match the name on the URL ({target.name})")


# ---- query ------------------------------------------------------------------------------------------------


def parse_bool(query: Mapping[str, str], name: str) -> bool:
    """A boolean parameter: present means true, unless it is false or 0."""
    return name in query and query[name].lower() not in {"false", "0"}


def parse_int(query: Mapping[str, str], name: str) -> int | None:
    """An integer parameter, or None if it is missing."""
    text = query.get(name, "")
    if not text:
        return None
    if not _WHOLE.fullmatch(text):
        raise status.bad_request(f'strconv.ParseInt: parsing "{text}": invalid syntax')
    if len(text) > LONGEST_NUMBER or not -(2**63) <= int(text) < 2**63:
        raise status.bad_request(f'strconv.ParseInt: parsing "{text}": value out of range')
    return int(text)


@dataclass(frozen=True, slots=True)
class ObjectSelection:
    """The label and field selectors of a request."""

    labels: Selector | None = None
    fields: FieldSelector | None = None

    @property
    def everything(self) -> bool:
        """Whether all objects are selected."""
        return self.labels is None and self.fields is None

    def matches(self, resource: Resource, found: Object) -> bool:
        """Whether an object is selected."""
        if self.labels is not None and not self.labels.matches(found["metadata"].get("labels", {})):
            return False
        return self.fields is None or self.fields.matches(_field_values(resource, found, self.fields))


def _field_values(resource: Resource, found: Object, selector: FieldSelector) -> dict[str, str]:
    metadata = found["metadata"]
    values: dict[str, str] = {}
    for name in selector.names():
        match name:
            case "metadata.name":
                values[name] = metadata["name"]
            case "metadata.namespace":
                values[name] = metadata.get("namespace", "")
            case _:
                values[name] = _text_at(found, resource.fields[name]) or _absent(resource, resource.fields[name])
    return values


def _text_at(found: Object, path: tuple[str, ...]) -> str:
    value: Any = found
    for step in path:
        if not isinstance(value, dict):
            return ""
        value = value.get(step)
    if value is None:
        return ""
    return ("true" if value else "false") if isinstance(value, bool) else str(value)


def _absent(resource: Resource, path: tuple[str, ...]) -> str:
    """The text of a missing field: false for a boolean of a built-in kind."""
    schema = resource.schema.openapi
    for step in path:
        schema = schema.get("properties", {}).get(step, {})
    return "false" if schema.get("type") == "boolean" and not resource.custom else ""


def parse_selection(resource: Resource, query: Mapping[str, str]) -> ObjectSelection:
    """Parse the selectors of a query."""
    try:
        labels = label_selector(query["labelSelector"]) if query.get("labelSelector") else None
        fields = field_selector(query["fieldSelector"]) if query.get("fieldSelector") else None
    except ValueError as error:
        raise status.bad_request(str(error)) from None
    if fields is not None:
        for name in fields.names():
            if name == "metadata.name" or (name == "metadata.namespace" and resource.namespaced):
                continue
            if name not in resource.fields:
                raise status.bad_request(_unknown_field(resource, name))
    return ObjectSelection(labels, fields)


def _unknown_field(resource: Resource, name: str) -> str:
    if resource.custom or resource.fields:
        return f"field label not supported: {name}"
    return f'"{name}" is not a known field selector: only "metadata.name", "metadata.namespace"'


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """The revision and paging options of a list or watch."""

    revision: int | None = None  # None: the newest
    match: str = ""
    limit: int = 0
    start: str = ""  # the key to go on after
    send_initial_events: bool | None = None  # sendInitialEvents

    @property
    def exact(self) -> bool:
        """Whether the response must show exactly that revision."""
        return bool(self.start) or (self.match == "Exact")


def parse_read_options(target: Target, query: Mapping[str, str], *, watch: bool) -> ReadOptions:
    """Parse the revision options of a list or watch; invalid combinations are rejected as kube-apiserver does."""
    text, match = query.get("resourceVersion", ""), query.get("resourceVersionMatch", "")
    token = query.get("continue", "")
    initial = parse_bool(query, "sendInitialEvents") if "sendInitialEvents" in query else None
    problems = list(_read_option_problems(text, match, token, initial, watch=watch))
    if problems:
        raise status.invalid("ListOptions", "meta.k8s.io", "", problems)
    limit = parse_int(query, "limit") or 0
    parse_int(query, "timeoutSeconds")  # of a list it is only checked: none takes long
    if token:
        at, start = _parse_continue_token(token, target)
        if text and text != "0":
            raise status.bad_request("specifying resource version is not allowed when using continue")
        return ReadOptions(at, "", limit, start)
    return ReadOptions(parse_resource_version(text), match, max(limit, 0), "", initial)


def _read_option_problems(
    text: str, match: str, token: str, initial: bool | None, *, watch: bool
) -> Iterator[FieldProblem]:
    field = "resourceVersionMatch"
    if watch:
        if initial is not None and match != "NotOlderThan":
            yield forbidden(field, "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan")
        if match and initial is None:
            yield forbidden(field, "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided")
        if match and match != "NotOlderThan":
            yield unsupported(field, match, ["NotOlderThan"])
        if token:
            yield forbidden(field, "resourceVersionMatch is forbidden when continue is provided")
        return
    if match and not text:
        yield forbidden(field, "resourceVersionMatch is forbidden unless resourceVersion is provided")
    if match and token:
        yield forbidden(field, "resourceVersionMatch is forbidden when continue is provided")
    if match not in {"", "Exact", "NotOlderThan"}:
        yield unsupported(field, match, ["Exact", "NotOlderThan", ""])
    if match == "Exact" and text == "0":
        yield forbidden(field, 'resourceVersionMatch "exact" is forbidden for resourceVersion "0"')
    if initial is not None:
        yield forbidden("sendInitialEvents", "sendInitialEvents is forbidden for list")


def parse_resource_version(text: str) -> int | None:
    """Parse a resourceVersion; None if it is missing."""
    if not text:
        return None
    if not (text.isascii() and text.isdecimal()) or len(text) > LONGEST_NUMBER or int(text) >= 2**64:
        raise status.ApiError(
            400,
            "BadRequest",
            f'invalid resource version: resourceVersion: Invalid value: "{text}": strconv.ParseUint: '
            f'parsing "{text}": invalid syntax',
        )
    return int(text)


def continue_token(revision: int, key: str, target: Target) -> str:
    """The token for the next page of a list."""
    start = key.removeprefix(target.resource.prefix(target.namespace))
    token = msgspec.json.encode({"v": "meta.k8s.io/v1", "rv": revision, "start": f"{start}\u0000"})
    return base64.urlsafe_b64encode(token).rstrip(b"=").decode()


def _parse_continue_token(token: str, target: Target) -> tuple[int, str]:
    refused = status.bad_request("continue key is not valid: it was not issued by this server for this list")
    try:
        found = msgspec.json.decode(base64.urlsafe_b64decode(token + "=" * (-len(token) % 4)))
    except (ValueError, binascii.Error, RecursionError):
        raise refused from None
    match found:
        case {"v": "meta.k8s.io/v1", "rv": int(at), "start": str(start)} if (
            start and not isinstance(at, bool) and at > 0
        ):
            return at, target.resource.prefix(target.namespace) + start.removesuffix("\u0000")
    raise refused


VALIDATIONS = ("", "Ignore", "Strict", "Warn")


@dataclass(frozen=True, slots=True)
class WriteOptions:
    """The options of a write."""

    dry_run: bool = False
    validation: str = "Warn"


def parse_write_options(
    query: Mapping[str, str], kind: str, dry_run: object = None, *, applies: bool = False
) -> WriteOptions:
    """Parse the options of a write; ``kind`` is their kind. ``dryRun`` may also be in the body of a deletion."""
    if not (query or dry_run or applies):
        return _USUAL_OPTIONS
    asked = [query["dryRun"]] if "dryRun" in query else dry_run or []
    validation = query.get("fieldValidation", "")
    problems = []
    if asked not in ([], ["All"]):
        problems.append(unsupported("dryRun", asked, ["All"]))
    if validation not in VALIDATIONS:
        problems.append(unsupported("fieldValidation", validation, VALIDATIONS))
    if applies and not query.get("fieldManager"):
        problems.append(required("fieldManager", "is required for apply patch"))
    if kind == "PatchOptions" and not applies and parse_bool(query, "force"):
        problems.append(forbidden("force", "may not be specified for non-apply patch"))
    if problems:
        raise status.invalid(kind, "meta.k8s.io", "", problems)
    return WriteOptions(bool(asked), validation or "Warn")


_USUAL_OPTIONS = WriteOptions(dry_run=False, validation="Warn")


@dataclass(frozen=True, slots=True)
class DeleteOptions:
    """The options of a deletion."""

    grace: int | None = None
    uid: str = ""
    revision: str = ""
    propagation: str = ""
    dry_run: bool = False


def parse_delete_options(query: Mapping[str, str], body: object) -> DeleteOptions:
    """Parse the options of a deletion, from its body or, without one, from its query."""
    options = body if isinstance(body, dict) else {}
    if (body is not None and not isinstance(body, dict)) or options.get("kind", "DeleteOptions") != "DeleteOptions":
        raise status.bad_request("the body of a deletion must be a DeleteOptions object")
    grace = options.get("gracePeriodSeconds", parse_int(query, "gracePeriodSeconds"))
    if grace is not None and (not isinstance(grace, int) or isinstance(grace, bool)):
        raise status.bad_request("gracePeriodSeconds must be a whole number")
    uid, at = _preconditions(options.get("preconditions"))
    propagation = options.get("propagationPolicy") or query.get("propagationPolicy", "")
    orphan = options.get(
        "orphanDependents", parse_bool(query, "orphanDependents") if "orphanDependents" in query else None
    )
    problems = list(_delete_option_problems(propagation, orphan))
    if problems:
        raise status.invalid("DeleteOptions", "meta.k8s.io", "", problems)
    if orphan is not None:
        propagation = "Orphan" if orphan else "Background"
    return DeleteOptions(
        grace, uid, at, propagation, parse_write_options(query, "DeleteOptions", options.get("dryRun")).dry_run
    )


def _preconditions(found: object) -> tuple[str, str]:
    """The uid and resourceVersion that are required; empty if none is."""
    wanted = {} if found is None else found
    uid, at = (
        (wanted.get("uid") or "", wanted.get("resourceVersion") or "") if isinstance(wanted, dict) else (None, None)
    )
    if not isinstance(uid, str) or not isinstance(at, str):
        raise status.bad_request("preconditions must be an object with uid and resourceVersion as strings")
    return uid, at


def _delete_option_problems(propagation: object, orphan: object) -> list[FieldProblem]:
    found: list[FieldProblem] = []
    if propagation and orphan is not None:
        found.append(
            invalid("propagationPolicy", propagation, "orphanDependents and deletionPropagation cannot be both set")
        )
    elif propagation and propagation not in ("Foreground", "Background", "Orphan"):
        found.append(unsupported("propagationPolicy", propagation, ["Foreground", "Background", "Orphan", "nil"]))
    if orphan is not None and not isinstance(orphan, bool):
        found.append(invalid("orphanDependents", orphan, "must be true or false"))
    return found
