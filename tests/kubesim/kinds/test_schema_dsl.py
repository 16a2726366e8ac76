"""The notation of schemas: what it expands into, for the server's own kinds and for custom ones."""

from kubesim.kinds.schema_dsl import expand_schema
from kubesim.schema.embedded import APPLIED_KEYS

SHAPES = """
Tree
  name! text
  height int32
  leaves! [Leaf] by name,colour
  roots [Leaf] by name retaining
  rings {quantity} atomic
  nests [text] merged
  planted time
  port! int-or-text
  soil! Leaf
  notes any
  birds [Leaf] merging name

Leaf
  name! text
  colour text = "green"
"""

LEAF = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "default": ""},
        "colour": {"type": "string", "default": "green"},
    },
}
ITEM = {**LEAF, "default": {}}  # a null in its place is one without anything in it
MERGE = {"x-kubernetes-patch-merge-key": "name", "x-kubernetes-patch-strategy": "merge"}


def test_the_servers_own_kinds_fill_in_zeros_for_what_is_required() -> None:
    assert expand_schema(SHAPES, "Tree") == {
        "type": "object",
        "properties": {
            "name": {"type": "string", "default": ""},
            "height": {"type": "integer", "format": "int32"},
            "leaves": {"type": "array", "items": ITEM, **MERGE, APPLIED_KEYS: ["name", "colour"]},
            "roots": {
                "type": "array",
                "items": ITEM,
                **MERGE,
                "x-kubernetes-patch-strategy": "merge,retainKeys",
                APPLIED_KEYS: ["name"],
            },
            "rings": {
                "type": "object",
                "additionalProperties": {"x-kubernetes-int-or-string": True, "format": "quantity"},
                "x-kubernetes-map-type": "atomic",
            },
            "nests": {
                "type": "array",
                "items": {"type": "string", "default": ""},
                "x-kubernetes-patch-strategy": "merge",
            },
            "planted": {"type": "string", "format": "date-time"},
            "port": {"x-kubernetes-int-or-string": True, "default": 0},
            "soil": ITEM,
            "notes": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
            "birds": {"type": "array", "items": ITEM, **MERGE},
        },
    }


def test_custom_kinds_ask_for_what_is_required_and_for_keys_that_differ() -> None:
    tree = expand_schema(SHAPES, "Tree", custom=True)
    assert tree["required"] == ["name", "leaves", "port", "soil"]
    assert tree["properties"]["name"] == {"type": "string"}
    assert tree["properties"]["leaves"]["x-kubernetes-list-map-keys"] == ["name", "colour"]
    assert tree["properties"]["leaves"]["x-kubernetes-list-type"] == "map"
    assert "x-kubernetes-list-type" not in tree["properties"]["birds"]
    assert tree["properties"]["soil"] == {
        "type": "object",
        "properties": {"name": {"type": "string"}, "colour": {"type": "string", "default": "green"}},
        "required": ["name"],
    }


def test_a_shape_that_occurs_twice_is_one_dict() -> None:
    properties = expand_schema(SHAPES, "Tree")["properties"]
    assert properties["leaves"]["items"] is properties["roots"]["items"]
