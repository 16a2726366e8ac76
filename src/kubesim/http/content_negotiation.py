"""Content negotiation: decoding of request bodies, and encoding of responses in the format that the client accepts.

Objects are stored as JSON, so an object or a list is sent as the stored bytes, joined. Every other format (tables,
metadata only, YAML) is built from decoded objects. Protobuf is decoded but never sent: clients that send it accept JSON
responses.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import isinf
from typing import Any

import msgspec

from kubesim.api import status
from kubesim.api.field_errors import invalid
from kubesim.api.get_list import ListResult
from kubesim.registry.registry import Object, Resource
from kubesim.schema import DEEPEST, deeper
from kubesim.storage import Record
from kubesim.tables import table

JSON, YAML, PROTOBUF = "application/json", "application/yaml", "application/vnd.kubernetes.protobuf"
OFFERED = (JSON, YAML)
READ = (*OFFERED, PROTOBUF)
LARGEST_BODY = 3 * 1024 * 1024

encode = msgspec.json.Encoder().encode
decode = msgspec.json.Decoder().decode


@dataclass(frozen=True, slots=True)
class ResponseFormat:
    """A media type, and as what an object is shown: as itself, as a row of a table, or only its metadata."""

    media: str = JSON
    shown_as: str = ""  # "", "Table", "PartialObjectMetadata"
    version: str = "v1"


PLAIN = ResponseFormat()


@lru_cache(maxsize=256)
def negotiate_format(header: str, *, listing: bool = False) -> ResponseFormat:
    """The first supported format in an Accept header."""
    if not header:
        return PLAIN
    for part in header.split(","):
        media, *rest = (piece.strip() for piece in part.split(";"))
        params = dict(piece.split("=", 1) for piece in rest if "=" in piece)
        found = {"*/*": JSON, "application/*": JSON, JSON: JSON, YAML: YAML}.get(media.lower())
        if found is None:
            continue
        shown_as = params.get("as", "")
        if not shown_as:
            return ResponseFormat(found)
        if params.get("g") == "meta.k8s.io" and params.get("v") in {"v1", "v1beta1"}:
            if shown_as == "Table":
                return ResponseFormat(found, shown_as, params["v"])
            if shown_as == ("PartialObjectMetadataList" if listing else "PartialObjectMetadata"):
                return ResponseFormat(found, "PartialObjectMetadata", params["v"])
    raise status.not_acceptable(OFFERED)


def encode_document(found: Any, form: ResponseFormat) -> bytes:
    """A document in the media type of a response."""
    if form.media == YAML:
        from kubesim.http import yaml_bodies

        return yaml_bodies.encode_yaml(found)
    return encode(found)


def encode_object(resource: Resource, record: Record, form: ResponseFormat, include: str = "") -> bytes:
    """One object."""
    if is_stored_form(resource, record.value, form):
        return record.value
    found = as_served(resource, decode(record.value))
    return encode_document(object_in_format(resource, found, form, include), form)


def object_in_format(resource: Resource, found: Object, form: ResponseFormat, include: str = "") -> Object:
    """An object in the format that the client requested."""
    if form.shown_as == "Table":
        about = {"resourceVersion": found["metadata"].get("resourceVersion", "")}
        return _table(resource, [found], about, form, include)
    if form.shown_as == "PartialObjectMetadata":
        return partial(found, form)
    return found


def encode_list(resource: Resource, listing: ListResult, form: ResponseFormat, include: str = "") -> bytes:
    """A list of objects."""
    records = listing.records
    if form == PLAIN and all(is_stored_form(resource, record.value, form) for record in records):
        head = encode({"kind": resource.list_kind, "apiVersion": resource.api_version, "metadata": listing.metadata})
        return b'%b,"items":[%b]}' % (head[:-1], b",".join([record.value for record in records]))
    objects = [as_served(resource, decode(record.value)) for record in records]
    if form.shown_as == "Table":
        return encode_document(_table(resource, objects, listing.metadata, form, include), form)
    if form.shown_as:
        kind, version = "PartialObjectMetadataList", f"meta.k8s.io/{form.version}"
        items = [partial(found, form) for found in objects]
    else:
        kind, version, items = resource.list_kind, resource.api_version, objects
    whole = {"kind": kind, "apiVersion": version, "metadata": listing.metadata, "items": items}
    return encode_document(whole, form)


def as_served(resource: Resource, found: Object) -> Object:
    """An object in the requested version; versions differ in name only."""
    found["apiVersion"] = resource.api_version
    return found


def partial(found: Object, form: ResponseFormat) -> Object:
    """An object's metadata alone."""
    return {
        "kind": "PartialObjectMetadata",
        "apiVersion": f"meta.k8s.io/{form.version}",
        "metadata": found["metadata"],
    }


def is_stored_form(resource: Resource, value: bytes, form: ResponseFormat) -> bool:
    """Whether a stored value can be sent as it is. Custom resources may be stored in another version."""
    return form == PLAIN and (not resource.custom or b'"apiVersion":"%b"' % resource.api_version.encode() in value)


def _table(resource: Resource, objects: Sequence[Object], about: Object, form: ResponseFormat, include: str) -> Object:
    if include not in {"", "None", "Metadata", "Object"}:
        problem = invalid("includeObject", include, "must be 'Metadata', 'Object', 'None', or empty")
        raise status.bad_request(f"Unable to convert to Table as requested: {problem}")
    found = table(resource, objects, about, include or "Metadata")
    found["apiVersion"] = f"meta.k8s.io/{form.version}"
    return found


# ---- what comes in ----------------------------------------------------------------------------------------


def decode_body(content: bytes, content_type: str) -> Any:
    """The decoded request body; None if it is empty."""
    if not content:
        return None
    media = content_type.split(";", 1)[0].strip().lower()
    if media in {"", JSON, "application/octet-stream"}:
        return read_json(content)
    if media in {YAML, "application/x-yaml", "text/yaml"}:
        return read_yaml(content)
    if media == PROTOBUF:
        from kubesim import protobuf

        if (found := protobuf.read(content)) is not None:
            return found
    raise status.unsupported_media_type(READ)


def read_json(content: bytes) -> Any:
    """Decode a JSON document. Raises ``ApiError`` if it is malformed."""
    try:
        return require_depth(parse(content), content)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise status.bad_request(f"couldn't get version/kind; json parse error: {error}") from None
    except RecursionError:
        raise too_deep_error() from None


def duplicate_fields(content: bytes, decoded: Any = None) -> list[str]:
    """The paths of duplicate fields in a JSON document. Decoders take the last; clients get a warning.

    ``decoded`` is the document, if it was decoded already: counting its fields clears most documents quickly.
    """
    # Every field of a text ends with a quote and a colon, and duplicates are one field of the decoded document. Where
    # nothing is escaped, no value has a quote.
    plain = content.startswith(b"{") and b"\\" not in content and not _SPACE_BEFORE_COLON.search(content)
    if plain and isinstance(decoded, dict) and content.count(b'":') == encode(decoded).count(b'":'):
        return []
    twice = False

    def look(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        nonlocal twice
        found = dict(pairs)
        twice = twice or len(found) != len(pairs)
        return found

    try:
        json.loads(content, object_pairs_hook=look)
        return list(_duplicate_paths(json.loads(content, object_pairs_hook=_Pairs), "")) if twice else []
    except (ValueError, RecursionError):
        return []  # decoding the content reports the error


_SPACE_BEFORE_COLON = re.compile(rb'"[ \t\r\n]+:')


class _Pairs(list[tuple[str, Any]]):
    """A JSON object as a list of pairs, with duplicates."""


def _duplicate_paths(found: Any, path: str) -> Iterator[str]:
    if isinstance(found, _Pairs):
        seen: set[str] = set()
        for key, value in found:
            where = f"{path}.{key}" if path else key
            if key in seen:
                yield where
            seen.add(key)
            yield from _duplicate_paths(value, where)
    elif isinstance(found, list):
        for index, value in enumerate(found):
            yield from _duplicate_paths(value, f"{path}[{index}]")


def require_depth(found: Any, content: bytes) -> Any:
    """Reject a document that is nested too deeply. Counting brackets clears nearly all documents quickly."""
    if content.count(b"{") + content.count(b"[") > DEEPEST and deeper(found):
        raise too_deep_error()
    return found


def too_deep_error() -> status.ApiError:
    """The error for a document that is nested too deeply."""
    return status.bad_request(f"couldn't get version/kind; json parse error: exceeded max depth of {DEEPEST}")


def _number(text: str) -> int | float:
    """Kubernetes treats ``1.0`` and ``1e3`` as integers."""
    value = float(text)
    if isinf(value):
        raise ValueError(f"number {text[:40]} is out of range")
    return int(value) if value.is_integer() and abs(value) < 2**63 else value


parse = msgspec.json.Decoder(float_hook=_number).decode


def read_yaml(content: bytes) -> Any:
    """Decode a YAML document. Raises ``ApiError`` if it is malformed."""
    from kubesim.http import yaml_bodies

    return yaml_bodies.decode_yaml(content)
