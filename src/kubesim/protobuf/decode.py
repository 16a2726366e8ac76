"""An object from its protobuf: the one that the same client would have written in JSON.

What clients send is an envelope, ``k8s\\0`` and a message with the version and kind beside the object's bytes. They
send every field that is not a pointer in their types, set or not. JSON leaves out those that are empty, and so does
this. A list or a map that is empty is not sent at all; a struct that is empty is, and stays.
"""

from __future__ import annotations

import base64
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from kubesim.api import status
from kubesim.protobuf.messages import NUMERIC, Field, Layout, kind_layout, layout
from kubesim.protobuf.wire import Value, WireError, fields, signed, varints
from kubesim.registry.registry import Object

MAGIC: Final = b"k8s\0"
EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def read(content: bytes) -> Object | None:
    """The object in a request's body; None if its kind is not supported. Raises ApiError (400) if it is malformed."""
    if not content.startswith(MAGIC):
        raise status.bad_request("the body of the request is not protobuf: it does not begin with 'k8s' and a zero")
    try:
        envelope = dict(fields(content[len(MAGIC) :]))
        about = dict(fields(_bytes(envelope.get(1, b""))))
        api_version, kind = _text(about.get(1, b"")), _text(about.get(2, b""))
        if envelope.get(3):
            return None  # compressed, or whatever else clients may come to think of
        how = kind_layout(api_version, kind)
        if how is None:
            return None
        found: Object = {"apiVersion": api_version, "kind": kind}
        _read_message(_bytes(envelope.get(2, b"")), how, found)
    except WireError as error:
        raise status.bad_request(f"the body of the request is not valid protobuf: {error}") from None
    return found


def _read_message(content: bytes, how: Layout, into: Object) -> None:
    """Add the fields of a message to an object. Of duplicate fields the last value counts; structs are merged."""
    for number, value in fields(content):
        field = how.fields.get(number)
        if field is None:
            continue
        if isinstance(field, Layout):
            _read_message(_bytes(value), field, into)
            continue
        try:
            _read_field(field, value, into)
        except WireError as error:
            raise error.within(field.name) from None


def _read_field(field: Field, value: Value, into: Object) -> None:
    kind = field.type
    if kind.startswith("["):
        into.setdefault(field.name, []).extend(_items(kind[1:-1], value))
    elif kind.startswith("{"):
        key, item = _entry(kind[1:-1], _bytes(value))
        entries = into.setdefault(field.name, {})
        if item is not None:
            entries[key] = item
    elif kind[0].isupper():
        _read_message(_bytes(value), layout(kind), into.setdefault(field.name, {}))
    else:
        found = _scalar(kind, value)
        if found is None or (field.drops_zero and not found):
            into.pop(field.name, None)
        else:
            into[field.name] = found


def _items(kind: str, value: Value) -> list[Any]:
    """One item of a list, or several numbers at once: either form is allowed."""
    if kind in NUMERIC and isinstance(value, bytes):
        return [_scalar(kind, number) for number in varints(value)]
    return [_item(kind, value)]


def _entry(kind: str, content: bytes) -> tuple[str, Any]:
    entry = dict(fields(content))
    return _text(entry.get(1, b"")), _item(kind, entry.get(2, b""))


def _item(kind: str, value: Value) -> Any:
    if kind.startswith("["):  # a list in a map is a message with one field
        return [_item(kind[1:-1], item) for number, item in fields(_bytes(value)) if number == 1]
    if kind[0].isupper():
        found: Object = {}
        _read_message(_bytes(value), layout(kind), found)
        return found
    return _scalar(kind, value)


def _scalar(kind: str, value: Value) -> Any:
    match kind:
        case "text":
            return _text(value)
        case "bool":
            return _number(value) != 0
        case "int32":
            return signed(_number(value), 32)
        case "int64":
            return signed(_number(value), 64)
        case "quantity":
            return _text(dict(fields(_bytes(value))).get(1, b"0"))
        case "int-or-text":
            return _int_or_text(_bytes(value))
        case "bytes":
            return base64.b64encode(_bytes(value)).decode()
        case "time" | "micro":
            return _time(_bytes(value), "microseconds" if kind == "micro" else "seconds")
        case "nothing":
            return None
    raise WireError("this is not read from protobuf; send the object as JSON")


def _int_or_text(content: bytes) -> int | str:
    parts = dict(fields(content))
    return _text(parts.get(3, b"")) if _number(parts.get(1, 0)) else signed(_number(parts.get(2, 0)), 32)


def _time(content: bytes, precision: str) -> str | None:
    if not content:
        return None  # no time, not 1970
    parts = dict(fields(content))
    seconds, nanos = signed(_number(parts.get(1, 0)), 64), signed(_number(parts.get(2, 0)), 32)
    if not 0 <= nanos < 10**9:
        raise WireError(f"a time with {nanos} nanoseconds; a second has 0 to 999999999")
    try:
        moment = EPOCH + timedelta(seconds=seconds, microseconds=nanos // 1000)
    except OverflowError:
        raise WireError(f"a time {seconds} seconds after 1970; years go from 1 to 9999") from None
    return f"{moment.replace(tzinfo=None).isoformat(timespec=precision)}Z"


def _bytes(value: Value) -> bytes:
    if not isinstance(value, bytes):
        raise WireError("a number where there should be bytes")
    return value


def _number(value: Value) -> int:
    if not isinstance(value, int):
        raise WireError("bytes where there should be a number")
    return value


def _text(value: Value) -> str:
    try:
        return _bytes(value).decode()
    except UnicodeDecodeError:
        raise WireError("a text that is not UTF-8") from None
