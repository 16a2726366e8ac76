"""Objects as the API's own Go types (version 0.36) write them, in protobuf and in JSON: one on each line.

The first of a kind has every field set, each text to the name of its field; the second has zeros wherever there can
be one, so that it shows which of them JSON leaves out.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kubesim.protobuf import read
from kubesim.protobuf.messages import Layout, kind_layout, layout

PAIRS = [line.split("\t") for line in Path(__file__).with_name("samples.tsv").read_text().splitlines()]
UNREAD = {"any", "nothing"}
NEWER: set[tuple[str, str]] = set()  # fields that the samples do not have yet


def bare(found: Any) -> Any:
    """Without nulls, which are not values."""
    if isinstance(found, dict):
        return {key: bare(value) for key, value in found.items() if value is not None}
    return [bare(value) for value in found] if isinstance(found, list) else found


@pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: str(json.loads(pair[1])["kind"]))
def test_protobuf_is_read_as_the_json_of_the_same_object(pair: list[str]) -> None:
    content, written = pair
    assert read(base64.b64decode(content)) == bare(json.loads(written))


def flat(how: Layout) -> Iterator[tuple[str, str]]:
    """Name and type of each field of a message and of those embedded in it."""
    for field in how.fields.values():
        if isinstance(field, Layout):
            yield from flat(field)
        else:
            yield field.name, field.type


def walked(shape: str, how: Layout, found: dict[str, Any], seen: set[tuple[str, str]], known: set[str]) -> None:
    """Note which fields of which shapes an object has, and which shapes can occur in it."""
    known.add(shape)
    for name, kind in flat(how):
        if name not in found:
            continue
        seen.add((shape, name))
        within = kind.strip("[]{}")
        if within[0].isupper():
            value = found[name]
            for part in value if kind.startswith("[") else value.values() if kind.startswith("{") else [value]:
                walked(within, layout(within), part, seen, known)


def test_every_field_that_is_read_is_in_some_sample() -> None:
    seen: set[tuple[str, str]] = set()
    known: set[str] = set()
    for _, written in PAIRS:
        found = bare(json.loads(written))
        how = kind_layout(found["apiVersion"], found["kind"])
        assert how is not None
        walked(found["kind"], how, found, seen, known)
    missing = {
        (shape, name)
        for shape in known
        for name, kind in flat(layout(shape))
        if kind.strip("[]{}") not in UNREAD and (shape, name) not in seen
    }
    assert missing == NEWER
