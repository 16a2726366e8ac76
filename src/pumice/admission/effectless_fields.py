"""Find the fields and annotations of an object that are accepted and have no effect."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from pumice.admission.request import Object
from pumice.admission.volcano_support import ANNOTATIONS, FIELDS, Feature, Support

_FIELDS = {
    resource: tuple((tuple(feature.name.split(".")), feature) for feature in _without_effect)
    for resource, features in FIELDS.items()
    if (_without_effect := [feature for feature in features if feature.support is Support.NO_EFFECT])
}
_ANNOTATIONS = {feature.name: feature for feature in ANNOTATIONS if feature.support is Support.NO_EFFECT}


def effectless_fields(resource: str, new: Object, old: Object | None = None) -> Iterator[str]:
    """A warning for every field that is set without effect; of an update only those that it changes."""
    before = dict(_found(resource, old)) if old is not None else {}
    for where, (value, message) in _found(resource, new):
        if before.get(where) != (value, message):
            yield f"{where}: has no effect; {message}"


def _found(resource: str, document: Object) -> Iterator[tuple[str, tuple[object, str]]]:
    for path, feature in _FIELDS.get(resource, ()):
        for where, value in values_at(document, path, ""):
            if _asks(value, feature):
                yield where, (value, feature.note)
    if resource in FIELDS:
        for _, annotations in values_at(document, ("metadata", "annotations"), ""):
            for name, value in annotations.items() if isinstance(annotations, Mapping) else ():
                annotation = _ANNOTATIONS.get(name)
                if annotation is not None and _asks(value, annotation):
                    yield f"metadata.annotations[{name}]", (value, annotation.note)


def values_at(value: Any, path: tuple[str, ...], where: str) -> Iterator[tuple[str, object]]:
    """The values at a path, each with the indices of the lists it stands in."""
    if not path:
        yield where, value
    elif isinstance(value, Mapping):
        name = path[0].removesuffix("[]")
        there = f"{where}.{name}" if where else name
        found = value.get(name)
        if name == path[0]:
            if found is not None:
                yield from values_at(found, path[1:], there)
        elif isinstance(found, list):
            for i, element in enumerate(found):
                yield from values_at(element, path[1:], f"{there}[{i}]")


def _asks(value: object, feature: Feature) -> bool:
    """Whether a value asks for something."""
    return bool(value) and value not in feature.harmless
