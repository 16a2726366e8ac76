"""Objects as clients write them in protobuf: the reader's inverse, for tests only."""

from __future__ import annotations

import base64
from datetime import UTC, datetime
from typing import Any

from kubesim.protobuf.messages import Field, Layout, kind_layout, layout

ZEROS: dict[str, Any] = {"text": "", "bool": False, "int32": 0, "int64": 0}


def envelope(api_version: str, kind: str, raw: bytes) -> bytes:
    """The body of a request."""
    about = tagged(1, api_version.encode()) + tagged(2, kind.encode())
    return b"k8s\0" + tagged(1, about) + tagged(2, raw) + tagged(3, b"") + tagged(4, b"")


def written(found: dict[str, Any]) -> bytes:
    """An object as the body of a request, with every zero that clients send along."""
    how = kind_layout(found["apiVersion"], found["kind"])
    assert how is not None
    return envelope(found["apiVersion"], found["kind"], message(found, how))


def varint(number: int) -> bytes:
    """A number in groups of seven bits, the lowest first; a negative one as 64 bits in two's complement."""
    number %= 2**64
    groups = []
    while number >= 128:
        groups.append(number % 128 + 128)
        number //= 128
    return bytes([*groups, number])


def tagged(number: int, value: int | bytes) -> bytes:
    """A field."""
    if isinstance(value, int):
        return varint(number * 8) + varint(value)
    return varint(number * 8 + 2) + varint(len(value)) + value


def message(found: dict[str, Any], how: Layout) -> bytes:
    """The fields of an object, in the order of their numbers."""
    parts = []
    for number, field in sorted(how.fields.items(), key=lambda item: item[0]):
        if isinstance(field, Layout):
            parts.append(tagged(number, message(found, field)))
        elif field.name in found or field.drops_zero:
            value = found.get(field.name, ZEROS.get(field.type))
            parts += [tagged(number, item) for item in _values(field, value)]
    return b"".join(parts)


def _values(field: Field, value: Any) -> list[int | bytes]:
    kind = field.type
    if kind.startswith("["):
        return [_value(kind[1:-1], item) for item in value]
    if kind.startswith("{"):
        return [tagged(1, key.encode()) + tagged(2, _value(kind[1:-1], item)) for key, item in value.items()]
    return [_value(kind, value)]


def _value(kind: str, value: Any) -> int | bytes:
    if kind.startswith("["):
        return b"".join(tagged(1, _value(kind[1:-1], item)) for item in value)
    if kind[0].isupper():
        return message(value, layout(kind))
    match kind:
        case "text":
            return str(value).encode()
        case "bool" | "int32" | "int64":
            return int(value)
        case "quantity":
            return tagged(1, str(value).encode())
        case "bytes":
            return base64.b64decode(value)
        case "int-or-text":
            if isinstance(value, int):
                return tagged(1, 0) + tagged(2, value) + tagged(3, b"")
            return tagged(1, 1) + tagged(2, 0) + tagged(3, value.encode())
        case "time" | "micro":
            since = datetime.fromisoformat(value) - datetime(1970, 1, 1, tzinfo=UTC)
            return tagged(1, since.days * 86400 + since.seconds) + tagged(2, since.microseconds * 1000)
    raise AssertionError(f"nobody writes {kind}")
