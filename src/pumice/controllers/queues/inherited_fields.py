"""Fields of a queue that a hierarchy above has set, and how they are reset when it no longer names them.

``pumice.dev/set-by-hierarchy`` records the fields and the values that parameters gave a queue. When a parameter is
removed, its field returns to the value that the queue's author last applied, or to the default of the field. A field
that a user has changed since then stays.
"""

from __future__ import annotations

import json
from typing import Any, Final

from kubebase.field_error import FieldError
from kubebase.resource_vector import Registry, ResourceError
from pumice.admission import Object
from pumice.admission.request import annotate, annotations_of, spec_of
from pumice.admission.user_limits import keep_limits, kept_limits, last_applied
from pumice.kube.decode.queues import PARAMETERS, read_parameter
from pumice.kube.decode.struct_decode import read
from pumice.kube.resources import Document
from pumice.model.queue_expansion import fields_to_reset, fields_to_set

SET_BY_HIERARCHY: Final = "pumice.dev/set-by-hierarchy"


def inherited_fields(queue: Object) -> Object | None:
    """The fields that a hierarchy has set, with their values; None if there is no record."""
    if SET_BY_HIERARCHY not in annotations_of(queue):
        return None
    try:
        found = json.loads(annotations_of(queue)[SET_BY_HIERARCHY])
    except (ValueError, RecursionError):
        return {}
    return {name: found[name] for name in found if name in PARAMETERS} if isinstance(found, dict) else {}


def set_inherited_fields(child: Document, wanted: Object, *, made_here: bool) -> None:
    """Set the fields of the parameters in a queue document that we may edit, and reset those no longer given.

    ``made_here``: the hierarchy created the queue, so a field with the value of its parameter came from there too.
    """
    remembered, recorded = inherited_fields(child), {}
    spec, limits = child["spec"], kept_limits(child)
    changed = fields_to_set(wanted, {**limits, **spec}, is_alike)
    for name, value in wanted.items():
        if name in changed:
            spec[name] = parameter_value(name, value)
        if name in changed or name in (remembered or {}) or (remembered is None and made_here):
            recorded[name] = parameter_value(name, value)
    reset_inherited_fields(child, remembered or {}, wanted)
    if recorded or remembered is not None:
        annotate(child, SET_BY_HIERARCHY, json.dumps(recorded, sort_keys=True) if recorded else None)


def reset_inherited_fields(child: Document, remembered: Object, wanted: Object) -> None:
    """Reset the fields that a hierarchy has set and no longer gives, unless they were changed since."""
    applied, limits = spec_of(last_applied(child) or {}), kept_limits(child)
    kept = fields_to_reset(remembered, wanted, limits, is_alike)
    if kept:
        keep_limits(child, {name: limit for name, limit in limits.items() if name not in kept})
    for name in sorted(kept | fields_to_reset(remembered, wanted, child["spec"], is_alike)):
        child["spec"].pop(name, None)
        if applied.get(name) is not None:
            child["spec"][name] = applied[name]


def parameter_value(name: str, value: Any) -> Any:
    """The value of a parameter in the form of a spec. Raises ``FieldError`` if it is invalid."""
    understood = read(value, PARAMETERS[name], where=name, strict=not isinstance(value, str))
    return understood if isinstance(understood, bool | int | float) else value


def is_alike(name: str, there: Any, wanted: Any) -> bool:
    """Whether a spec's value means the same as a parameter's: ``cpu: 4`` and ``cpu: 4000m`` do.

    Both are read as the model reads them, so that the controller resets the fields that admission expects it to reset.
    """
    registry = Registry()
    try:
        return read_parameter(name, there, name, registry) == read_parameter(name, wanted, name, registry)
    except (FieldError, ResourceError):
        return bool(there == wanted)
