"""Object metadata: the same rules for every kind.

The server owns some fields (uid, resourceVersion, timestamps, generation): it replaces what a client writes there,
without an error. The other fields are validated here: names, labels, annotations, owner references, finalizers.
"""

from __future__ import annotations

import random
import re
import uuid
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from kubebase.text_cache import cached_by_text
from kubesim.api.field_errors import FieldErrorType, FieldProblem, forbidden, invalid, required
from kubesim.clock import parse_time

Metadata = dict[str, Any]

NAME_LENGTH = 253
LABEL_LENGTH = 63
GENERATED = 5  # characters added to generateName
ALPHABET = "bcdfghjklmnpqrstvwxz2456789"  # no vowels, so no words; nothing that looks like something else
FINALIZERS = ("foregroundDeletion", "orphan", "kubernetes")  # those that need no domain
ANNOTATION_BYTES = 256 * 1024

_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
_SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_QUALIFIED = re.compile(r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]")
_VALUE = re.compile(r"(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?")

SUBDOMAIN_RULE = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start "
    "and end with an alphanumeric character (e.g. 'example.com', regex used for validation is "
    r"'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
)
LABEL_RULE = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end "
    "with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is "
    "'[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
)
_QUALIFIED_RULE = (
    "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric "
    "character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is "
    "'([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
)
_VALUE_RULE = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start "
    "and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation "
    "is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
)


# ---- shape ------------------------------------------------------------------------------------------------


def _text(value: object) -> bool:
    return isinstance(value, str)


def _time(value: object) -> bool:
    try:
        return isinstance(value, str) and parse_time(value) is not None
    except (ValueError, OverflowError):
        return False


def _whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and -(2**63) <= value < 2**63


def _texts(value: object) -> bool:
    return isinstance(value, dict) and all(isinstance(entry, str) for entry in value.values())


def _text_list(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(entry, str) for entry in value)


def _owners(value: object) -> bool:
    return isinstance(value, list) and all(
        isinstance(entry, dict)
        and all(_OWNER[key](part) for key, part in entry.items() if key in _OWNER and part is not None)
        for entry in value
    )


_OWNER: dict[str, Callable[[object], bool]] = {
    "apiVersion": _text,
    "kind": _text,
    "name": _text,
    "uid": _text,
    "controller": lambda value: isinstance(value, bool),
    "blockOwnerDeletion": lambda value: isinstance(value, bool),
}

_SHAPE: dict[str, tuple[str, Callable[[object], bool]]] = {
    "name": ("string", _text),
    "generateName": ("string", _text),
    "namespace": ("string", _text),
    "selfLink": ("string", _text),
    "uid": ("string", _text),
    "resourceVersion": ("string", _text),
    "generation": ("int64", _whole),
    "creationTimestamp": ("time", _time),
    "deletionTimestamp": ("time", _time),
    "deletionGracePeriodSeconds": ("int64", _whole),
    "labels": ("map[string]string", _texts),
    "annotations": ("map[string]string", _texts),
    "ownerReferences": ("[]OwnerReference", _owners),
    "finalizers": ("[]string", _text_list),
    "managedFields": ("[]ManagedFieldsEntry", lambda value: isinstance(value, list)),
}
_DROPPED = ("selfLink", "managedFields")  # the server tracks field ownership itself


def decode_metadata(found: object) -> tuple[Metadata, list[str], str]:
    """Metadata with known fields only, the paths of unknown ones, and what has the wrong type (or nothing)."""
    if found is None:
        return {}, [], ""
    if not isinstance(found, dict):
        return {}, [], "metadata is not an object"
    kept: Metadata = {}
    unknown: list[str] = []
    for key, value in found.items():
        known = _SHAPE.get(key)
        if known is None:
            unknown.append(f"metadata.{key}")
        elif value is None:
            continue
        elif not known[1](value):
            return {}, unknown, f"metadata.{key} is not of type {known[0]}"
        elif key not in _DROPPED and (value or not isinstance(value, dict | list)):
            kept[key] = value
    if "ownerReferences" in kept:
        for index, owner in enumerate(kept["ownerReferences"]):
            unknown += [f"metadata.ownerReferences[{index}].{key}" for key in owner if key not in _OWNER]
        kept["ownerReferences"] = [
            {key: part for key, part in owner.items() if key in _OWNER and part is not None}
            for owner in kept["ownerReferences"]
        ]
    return kept, unknown, ""


# ---- life -------------------------------------------------------------------------------------------------


def fill_system_fields(metadata: Metadata, now: str, *, generation: bool) -> None:
    """Complete the metadata of a new object."""
    for owned in ("uid", "resourceVersion", "deletionTimestamp", "deletionGracePeriodSeconds"):
        metadata.pop(owned, None)
    if not metadata.get("name") and metadata.get("generateName"):
        metadata["name"] = generate_name(metadata["generateName"])
    metadata["uid"] = str(uuid.UUID(int=random.getrandbits(128), version=4))  # a name, not a secret
    metadata["creationTimestamp"] = now
    if generation:
        metadata["generation"] = 1


def generate_name(base: str) -> str:
    """A generated name with a random suffix."""
    return base[: LABEL_LENGTH - GENERATED] + "".join(random.choices(ALPHABET, k=GENERATED))


def preserve_system_fields(new: Metadata, old: Metadata) -> None:
    """Keep what no client may change, from one revision to the next."""
    for owned in (
        "name", "generateName", "namespace", "uid", "creationTimestamp", "generation",
        "deletionTimestamp", "deletionGracePeriodSeconds", "managedFields",
    ):  # fmt: skip
        if owned in old:
            new[owned] = old[owned]
        else:
            new.pop(owned, None)
    new["resourceVersion"] = old["resourceVersion"]  # until the store assigns the next one


# ---- rules ------------------------------------------------------------------------------------------------


def name_faults(name: str) -> Iterator[str]:
    """The problems of a name, as nearly all kinds want it."""
    if len(name) > NAME_LENGTH:
        yield f"must be no more than {NAME_LENGTH} characters"
    if not _SUBDOMAIN.fullmatch(name):
        yield SUBDOMAIN_RULE


def label_name_faults(name: str) -> Iterator[str]:
    """The problems of a name that must also be a DNS label, as a namespace's."""
    if len(name) > LABEL_LENGTH:
        yield f"must be no more than {LABEL_LENGTH} characters"
    if not _LABEL.fullmatch(name):
        yield "must not contain dots" if _SUBDOMAIN.fullmatch(name) else LABEL_RULE


_CHECKED = ("name", "generateName", "labels", "annotations", "finalizers", "ownerReferences")


def check(
    metadata: Metadata, old: Metadata | None = None, *, faults: Callable[[str], Iterator[str]] = name_faults
) -> Iterator[FieldProblem]:
    """The problems of metadata, on create and on update; without those of ``old``, which is stored and has none."""
    if old is not None:
        metadata = {part: metadata[part] for part in _CHECKED if part in metadata and metadata[part] != old.get(part)}
        if not metadata:
            return
        metadata.setdefault("name", old["name"])
    name, base = metadata.get("name", ""), metadata.get("generateName", "")
    for fault in faults(f"{base[:-1]}a" if base.endswith("-") else base) if base else ():
        yield invalid("metadata.generateName", base, fault)
    if not name:
        yield required("metadata.name", "name or generateName is required")
    else:
        for fault in faults(name):
            yield invalid("metadata.name", name, fault)
    yield from check_labels(metadata.get("labels", {}), "metadata.labels")
    yield from check_annotations(metadata.get("annotations", {}), "metadata.annotations")
    for index, finalizer in enumerate(metadata.get("finalizers", ())):
        yield from check_label_key(finalizer, "metadata.finalizers")
        if "/" not in finalizer and finalizer not in FINALIZERS:
            words = "name is neither a standard finalizer name nor is it fully qualified"
            yield invalid(f"metadata.finalizers[{index}]", finalizer, words)
    yield from _check_owners(metadata.get("ownerReferences", ()))


def check_update(new: Metadata, old: Metadata) -> Iterator[FieldProblem]:
    """The problems of a metadata update, before `preserve_system_fields` restores the system fields."""
    for owned in ("uid", "deletionTimestamp"):
        if owned in new and new[owned] != old.get(owned):
            yield invalid(f"metadata.{owned}", new[owned], "field is immutable")
    if "deletionTimestamp" in old:
        added = sorted(set(new.get("finalizers", ())) - set(old.get("finalizers", ())))
        if added:
            words = "no new finalizers can be added if the object is being deleted, found new finalizers"
            yield forbidden("metadata.finalizers", f"{words} {_go_list(added)}")


def check_labels(labels: Mapping[str, str], field: str) -> Iterator[FieldProblem]:
    """The problems of labels."""
    for key, value in labels.items():
        if not _is_label_key(key):
            yield from check_label_key(key, field)
        yield from check_label_value(key, value, field)


def check_annotations(annotations: Mapping[str, str], field: str) -> Iterator[FieldProblem]:
    """The problems of annotations: their names, and how much they are together."""
    size = 0
    for key, value in annotations.items():
        if not _is_label_key(key.lower()):
            yield from check_label_key(key.lower(), field, shown=key)
        size += len(key) + (len(value) if value.isascii() else len(value.encode(errors="surrogatepass")))
    if size > ANNOTATION_BYTES:
        yield FieldProblem(field, FieldErrorType.TOO_LONG, f"may not be more than {ANNOTATION_BYTES} bytes")


def check_label_key(key: str, field: str, shown: str = "") -> Iterator[FieldProblem]:
    """The problems of a qualified name such as ``example.com/role``."""
    shown = shown or key
    prefix, slash, name = key.rpartition("/")
    if slash and not prefix:
        yield invalid(field, shown, "prefix part must be non-empty")
    elif slash and "/" in prefix:
        yield invalid(field, shown, "a qualified name " + _QUALIFIED_RULE.removeprefix("name part ") + _PREFIX_HINT)
        return
    elif slash and len(prefix) > NAME_LENGTH:
        yield invalid(field, shown, f"prefix part must be no more than {NAME_LENGTH} bytes")
    elif slash and not _SUBDOMAIN.fullmatch(prefix):
        yield invalid(field, shown, "prefix part " + SUBDOMAIN_RULE)
    if not name:
        yield invalid(field, shown, "name part must be non-empty")
    elif len(name) > LABEL_LENGTH:
        yield invalid(field, shown, f"name part must be no more than {LABEL_LENGTH} bytes")
    if not _QUALIFIED.fullmatch(name):
        yield invalid(field, shown, _QUALIFIED_RULE)


@cached_by_text()  # the same few stand on most objects
def _is_label_key(key: str) -> bool:
    return not any(True for _ in check_label_key(key, ""))


_PREFIX_HINT = " with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"


def check_label_value(key: str, value: str, field: str) -> Iterator[FieldProblem]:
    """The problems of the value of a label."""
    if len(value) > LABEL_LENGTH:
        yield invalid(field, value, f"must be no more than {LABEL_LENGTH} bytes")
    if not _VALUE.fullmatch(value):
        yield invalid(field, value, _VALUE_RULE)


def _check_owners(owners: Any) -> Iterator[FieldProblem]:
    controllers: list[str] = []
    for owner in owners:
        for key in ("apiVersion", "kind", "name", "uid"):
            if not owner.get(key):
                yield invalid(f"metadata.ownerReferences.{key}", owner.get(key, ""), "must not be empty")
        if owner.get("controller"):
            controllers.append(f"{owner.get('kind')}/{owner.get('name')}")
    if len(controllers) > 1:
        yield invalid(
            "metadata.ownerReferences",
            list(owners),
            f'Only one reference can have Controller set to true. Found "true" in references for '
            f"{controllers[0]} and {controllers[1]}",
        )


def _go_list(texts: list[str]) -> str:
    return "[]string{" + ", ".join(f'"{text}"' for text in texts) + "}"
