"""Shapes and numbers fit together: what can be read in JSON can be read in protobuf."""

from __future__ import annotations

import pytest

from kubesim import kinds
from kubesim.kinds import schema_dsl
from kubesim.protobuf.field_numbers import NUMBERS
from kubesim.protobuf.messages import KINDS, SHAPES, Field, Layout, kind_layout, layout

SENT = ("Binding", "DeleteOptions", "Eviction", "Scale")
ENVELOPED = {(shape, field) for shape in SENT for field in ("apiVersion", "kind")}
# The server says these, nobody tells it.
ANSWERED = {"ListMeta", "ManagedFieldsEntry", "Status", "StatusCause", "StatusDetails"}
LINES = [
    (shape, lines) for text in SHAPES for shape, lines in schema_dsl.parse_shapes(text).items() if shape not in ANSWERED
]
NUMBERED = schema_dsl.parse_shapes(NUMBERS)


def declared(line: str) -> tuple[str, str]:
    """The name and the type of a field."""
    name, kind, *_ = line.split()
    return name.removesuffix("!"), kind


def entries(shape: str) -> list[tuple[str, str]]:
    """The fields that have numbers, and those."""
    pairs = (entry.partition("=") for entry in " ".join(NUMBERED[shape]).split())
    return [(name, rest.partition(":")[0].removesuffix("*")) for name, _, rest in pairs]


@pytest.mark.parametrize(("shape", "lines"), LINES)
def test_every_field_of_every_shape_has_a_number(shape: str, lines: list[str]) -> None:
    names = {declared(line)[0] for line in lines}
    assert {name for name in names if (shape, name) not in ENVELOPED} == {name for name, _ in entries(shape)}


@pytest.mark.parametrize("shape", sorted(NUMBERED))
def test_field_names_and_numbers_are_unique_per_message(shape: str) -> None:
    names, numbers = zip(*entries(shape), strict=True)
    assert len(set(names)) == len(names)
    assert len(set(numbers)) == len(numbers)
    containing = {number.partition(".")[0] for number in numbers if "." in number}
    assert not containing & set(numbers)


def test_shapes_of_one_name_are_the_same_wherever_they_are_written() -> None:
    seen: dict[str, set[tuple[str, str]]] = {}
    for shape, lines in LINES:
        fields = {declared(line) for line in lines}
        assert seen.setdefault(shape, fields) == fields, shape
    assert seen.keys() == NUMBERED.keys()


def test_every_kind_that_is_served_can_be_read_but_definitions() -> None:
    written = (resource for resource in kinds.resources() if "create" in resource.verbs)
    served = {(resource.api_version, resource.kind) for resource in written}
    served.remove(("apiextensions.k8s.io/v1", "CustomResourceDefinition"))
    assert served | {("v1", "Binding"), ("policy/v1", "Eviction"), ("autoscaling/v1", "Scale")} == KINDS


def depth(how: Layout, above: tuple[str, ...] = ()) -> int:
    """How many messages lie within each other at most. A shape within itself has no such number."""
    below = [0]
    for field in how.fields.values():
        if isinstance(field, Layout):
            below.append(1 + depth(field, above))
        elif (shape := field.type.strip("[]{}"))[0].isupper():
            assert shape not in above
            below.append(1 + depth(layout(shape), (*above, shape)))
    return max(below)


def test_shapes_end_somewhere() -> None:
    # spec, template, spec, volumes, the source in a volume, projected, sources, downwardAPI, items, fieldRef.
    how = kind_layout("batch/v1", "Job")
    assert how is not None
    assert depth(how) == 10


def test_zeros_are_dropped_where_they_say_nothing() -> None:
    port = layout("ContainerPort").fields
    assert port[2] == Field("hostPort", "int32", drops_zero=True)  # optional, and no pointer
    assert port[3] == Field("containerPort", "int32")  # required
    assert layout("PodSpec").fields[25] == Field("priority", "int32")  # a pointer
    assert layout("Secret").fields[2] == Field("data", "{bytes}")


def test_fields_without_a_message_of_their_own_lie_one_deeper() -> None:
    probe = layout("Probe").fields[1]
    assert isinstance(probe, Layout)
    assert probe.fields[2] == Field("httpGet", "HTTPGetAction")
