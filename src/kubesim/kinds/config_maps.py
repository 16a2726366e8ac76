"""The kinds ConfigMap and Secret. Either can be made immutable, which cannot be undone."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterator
from functools import partial
from typing import Final

import msgspec

from kubesim.api import status
from kubesim.api.field_errors import FieldErrorType, FieldProblem, forbidden, invalid, required
from kubesim.kinds.schema_dsl import expand_schema
from kubesim.registry.registry import Context, Object, Resource, Strategy, TableColumn
from kubesim.schema import Schema
from kubesim.tables import AGE, NAME

LARGEST: Final = 1024 * 1024
LONGEST_KEY: Final = 253
KEY: Final = re.compile(r"[-._a-zA-Z0-9]+")
KEY_RULE: Final = (
    "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or 'KEY_NAME',  "
    "or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')"
)
BASE64: Final = re.compile(r"[A-Za-z0-9+/]*={0,2}")

OPAQUE: Final = "Opaque"
NEEDED: Final = {  # what a secret of a type must have
    "kubernetes.io/dockercfg": (".dockercfg",),
    "kubernetes.io/dockerconfigjson": (".dockerconfigjson",),
    "kubernetes.io/ssh-auth": ("ssh-privatekey",),
    "kubernetes.io/tls": ("tls.crt", "tls.key"),
}
ACCOUNT_TOKEN: Final = "kubernetes.io/service-account-token"
ACCOUNT: Final = "kubernetes.io/service-account.name"

SHAPES: Final = """
ConfigMap
  binaryData {text}
  data {text}
  immutable bool
Secret
  data {text}
  immutable bool
  stringData {text}
  type text = "Opaque"
"""


def _check_key(key: str, field: str) -> Iterator[FieldProblem]:
    if len(key) > LONGEST_KEY:
        yield invalid(field, key, f"must be no more than {LONGEST_KEY} bytes")
    if not KEY.fullmatch(key):
        yield invalid(field, key, KEY_RULE)
    if key in {".", ".."}:
        yield invalid(field, key, f"must not be '{key}'")
    elif key.startswith(".."):
        yield invalid(field, key, "must not start with '..'")


def _check_immutable(new: Object, old: Object, parts: tuple[str, ...]) -> Iterator[FieldProblem]:
    if not old.get("immutable"):
        return
    detail = "field is immutable when `immutable` is set"
    if not new.get("immutable"):
        yield forbidden("immutable", detail)
    for part in parts:
        if (new.get(part) or {}) != (old.get(part) or {}):
            yield forbidden(part, detail)


def _canonical(new: Object, part: str) -> None:
    """Values in base64, without line breaks. kube-apiserver cannot read the object otherwise."""
    if part in new:
        new[part] = {key: _recoded(text, new["kind"]) for key, text in new[part].items()}


def _recoded(text: str, kind: str) -> str:
    joined = text.replace("\n", "").replace("\r", "")
    try:
        return base64.b64encode(base64.b64decode(joined, validate=True)).decode()
    except (binascii.Error, ValueError):
        detail = f"illegal base64 data at input byte {_first_fault(joined)}"
        raise status.bad_request(f'{kind} in version "v1" cannot be handled as a {kind}: {detail}') from None


def _first_fault(text: str) -> int:
    match = BASE64.match(text)
    return min(match.end() if match else 0, max(len(text) - 1, 0))


class ConfigMapStrategy(Strategy):
    """Text in ``data``, anything in ``binaryData``."""

    def on_create(self, new: Object, context: Context) -> None:
        """Binary values in one form of base64."""
        _canonical(new, "binaryData")

    def on_update(self, new: Object, old: Object, context: Context) -> None:
        """As on create."""
        _canonical(new, "binaryData")

    def check(self, new: Object) -> Iterator[FieldProblem]:
        """Keys are file names; both maps together have a size."""
        data, binary = new.get("data") or {}, new.get("binaryData") or {}
        size = 0
        for key, value in data.items():
            yield from _check_key(key, f"data[{key}]")
            if key in binary:
                yield invalid(f"data[{key}]", key, "duplicate of key present in binaryData")
            size += len(value.encode())
        for key, value in binary.items():
            yield from _check_key(key, f"binaryData[{key}]")
            size += len(value) * 3 // 4
        if size > LARGEST:
            yield FieldProblem("[]", FieldErrorType.TOO_LONG, f"may not be more than {LARGEST} bytes")

    def check_update(self, new: Object, old: Object) -> Iterator[FieldProblem]:
        """Nothing changes in an immutable one."""
        yield from _check_immutable(new, old, ("data", "binaryData"))


class SecretStrategy(Strategy):
    """Values are in base64; ``stringData`` is for writing only and joins them."""

    def on_create(self, new: Object, context: Context) -> None:
        """All values into ``data``."""
        new["type"] = new.get("type") or OPAQUE
        self._join(new)

    def on_update(self, new: Object, old: Object, context: Context) -> None:
        """As on create; a missing type is preserved."""
        if new.get("type", OPAQUE) in {"", OPAQUE}:
            new["type"] = old.get("type", OPAQUE)
        self._join(new)

    def _join(self, new: Object) -> None:
        _canonical(new, "data")
        texts = new.pop("stringData", {})
        if texts:
            encoded = {key: base64.b64encode(text.encode()).decode() for key, text in texts.items()}
            new["data"] = {**new.get("data", {}), **encoded}

    def check(self, new: Object) -> Iterator[FieldProblem]:
        """Keys, size, and what its type needs."""
        data = new.get("data") or {}
        for key in data:
            yield from _check_key(key, f"data[{key}]")
        if sum(len(value) * 3 // 4 for value in data.values()) > LARGEST:
            yield FieldProblem("data", FieldErrorType.TOO_LONG, f"may not be more than {LARGEST} bytes")
        kind = new["type"]
        if kind == ACCOUNT_TOKEN and not new["metadata"].get("annotations", {}).get(ACCOUNT):
            yield required(f"metadata.annotations[{ACCOUNT}]")
        if kind == "kubernetes.io/basic-auth" and not {"username", "password"} & data.keys():
            yield required("data[username]")
            yield required("data[password]")
        for key in NEEDED.get(kind, ()):
            if key not in data:
                yield required(f"data[{key}]")
            elif key.startswith(".docker") and not _is_json(data[key]):
                yield invalid(f"data[{key}]", "<secret contents redacted>", "the value is not JSON")

    def check_update(self, new: Object, old: Object) -> Iterator[FieldProblem]:
        """The type is immutable; of an immutable object, all data is."""
        if new["type"] != old.get("type", OPAQUE):
            yield invalid("type", new["type"], "field is immutable")
        yield from _check_immutable(new, old, ("data",))


def _is_json(value: str) -> bool:
    try:
        msgspec.json.decode(base64.b64decode(value))
    except (msgspec.DecodeError, ValueError, RecursionError):
        return False
    return True


def _count(found: Object) -> int:
    return len(found.get("data") or ()) + len(found.get("binaryData") or ())


def config_maps() -> Resource:
    """The resource ``configmaps``."""
    return Resource(
        group="",
        version="v1",
        plural="configmaps",
        kind="ConfigMap",
        namespaced=True,
        schema=Schema.sound(partial(expand_schema, SHAPES, "ConfigMap")),
        strategy=ConfigMapStrategy(),
        columns=(NAME, TableColumn("Data", _count, description="How many values it has."), AGE),
        singular="configmap",
        short_names=("cm",),
    )


def secrets() -> Resource:
    """The resource ``secrets``."""
    return Resource(
        group="",
        version="v1",
        plural="secrets",
        kind="Secret",
        namespaced=True,
        schema=Schema.sound(partial(expand_schema, SHAPES, "Secret")),
        strategy=SecretStrategy(),
        columns=(
            NAME,
            TableColumn("Type", lambda found: found.get("type", ""), description="The type of the secret."),
            TableColumn("Data", _count, description="How many values it has."),
            AGE,
        ),
        singular="secret",
        fields={"type": ("type",)},
    )
