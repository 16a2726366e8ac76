"""The module ``field_numbers`` is what its tool makes of the types of Kubernetes."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from kubesim.kinds import schema_dsl
from tools import protobuf_numbers
from tools.protobuf_numbers import MODULES, RELEASE, TARGET, MismatchError, Numbering, messages

PROTO = """
syntax = "proto2";

package k8s.io.api.core.v1;

// A message that is not one: message Wrong {
message Thing {
  optional .k8s.io.apimachinery.pkg.apis.meta.v1.ObjectMeta metadata = 1;

  // The source of the thing = 7;
  optional ThingSource thingSource = 2;

  optional int32 size = 3;

  optional int32 count = 4;

  map<string, bytes> data = 5;

  optional .k8s.io.apimachinery.pkg.apis.meta.v1.MicroTime seen = 6;

  repeated Part parts = 8;

  optional string phase = 9;
}

message ThingSource {
  optional Part disk = 3;
}

message Part {
  optional string name = 1;
}

message OtherPart {
  optional string name = 2;
}
"""
TYPES = """
package v1

// Thing is a thing.
type Thing struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty" protobuf:"bytes,1,opt,name=metadata"`
	// What it is made from.
	ThingSource `json:",inline" protobuf:"bytes,2,opt,name=thingSource"`
	Size        *int32 `json:"size,omitempty" protobuf:"varint,3,opt,name=size"`
	Count int32 `json:"count,omitempty" protobuf:"varint,4,opt,name=count"`
	Data map[string][]byte `json:"data,omitempty" protobuf:"bytes,5,rep,name=data"`
	Seen *metav1.MicroTime `json:"seen,omitempty" protobuf:"bytes,6,opt,name=seen"`
	PartList []Part `json:"parts" patchStrategy:"merge" patchMergeKey:"name" protobuf:"bytes,8,rep,name=parts"`
	Phase ThingPhase `json:"phase" protobuf:"bytes,9,opt,name=phase,casttype=ThingPhase"`
}

type ThingSource struct {
	Disk *Part `json:"disk,omitempty" protobuf:"bytes,3,opt,name=disk"`
}

type Part struct {
	Name string `json:"name" protobuf:"bytes,1,opt,name=name"`
}

type OtherPart struct {
	Name string `json:"name" protobuf:"bytes,2,opt,name=name"`
}
"""
THING = "k8s.io.api.core.v1.Thing"


@pytest.fixture
def module(tmp_path: Path) -> Path:
    package = tmp_path / "core" / "v1"
    package.mkdir(parents=True)
    (package / "generated.proto").write_text(PROTO)
    (package / "types.go").write_text(TYPES)
    return tmp_path


def numbered(module: Path, shapes: str) -> dict[str, dict[str, str]]:
    numbering = Numbering(messages([module]), schema_dsl.parse_shapes(shapes))
    numbering.visit("Thing", THING)
    return numbering.entries


def test_numbers_are_those_of_the_release() -> None:
    """If not: python -m tools.protobuf_numbers."""
    if not shutil.which("go"):
        pytest.skip("Go, which fetches the types of Kubernetes, is not installed")
    try:
        folders = protobuf_numbers.download()
    except RuntimeError as error:
        pytest.skip(f"the types of Kubernetes {RELEASE} are not in Go's module cache and cannot be fetched: {error}")
    assert protobuf_numbers.content(folders) == TARGET.read_text(encoding="utf-8"), "python -m tools.protobuf_numbers"


def test_numbers_name_the_release_of_the_kubernetes_that_tests_run_against() -> None:
    """If not: python -m tools.protobuf_numbers."""
    assert f"from {' and '.join(MODULES)} {RELEASE}:" in TARGET.read_text(encoding="utf-8")


def test_fields_get_the_numbers_of_the_message(module: Path) -> None:
    shapes = """
Thing
  apiVersion text
  phase text
  count int32
  size int32
  disk Part
  data {text}
  seen time
  parts [Part]
Part
  name! text
"""
    assert numbered(module, shapes) == {
        "Thing": {
            "disk": "2.3",  # within a message that JSON does not show
            "size": "3*",  # a pointer
            "count": "4",
            "data": "5:{bytes}",
            "seen": "6:micro",
            "parts": "8",
            "phase": "9*",  # JSON never leaves it out
        },
        "Part": {"name": "1"},  # required, so that the shape says it already
    }


def test_fields_come_in_the_order_of_their_numbers(module: Path) -> None:
    entries = numbered(module, "Thing\n  phase text\n  disk any\n  count int32\n")
    assert [*entries["Thing"]] == ["disk", "count", "phase"]


@pytest.mark.parametrize(
    ("shapes", "message"),
    [
        ("Thing\n  colour text\n", f"{THING} has no field colour, which the shape Thing has"),
        ("Thing\n  size text\n", "Thing.size is text in its shape and int32 in protobuf"),
    ],
)
def test_shapes_that_contradict_the_messages(module: Path, shapes: str, message: str) -> None:
    with pytest.raises(MismatchError) as refusal:
        numbered(module, shapes)
    assert str(refusal.value) == message


def test_a_shape_for_messages_with_different_numbers(module: Path) -> None:
    numbering = Numbering(messages([module]), schema_dsl.parse_shapes("Part\n  name! text\n"))
    numbering.visit("Part", "k8s.io.api.core.v1.Part")
    with pytest.raises(MismatchError, match=r"Part stands for .*OtherPart and for one with other numbers"):
        numbering.visit("Part", "k8s.io.api.core.v1.OtherPart")
