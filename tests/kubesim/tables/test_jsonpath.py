"""JSONPath of printer columns. Values as a real kube-apiserver 1.36 finds them."""

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubesim.tables.jsonpath import parse

OBJECT: dict[str, Any] = {
    "metadata": {"name": "a", "labels": {"a.b/c": "lab", "plain": "x"}},
    "spec": {
        "text": "s",
        "list": ["a", "b", "c"],
        "objects": [{"name": "x", "n": 1}, {"name": "y", "n": 2}, {"name": "z"}],
        "null": None,
    },
    "status": {"conditions": [{"type": "A", "status": "False"}, {"type": "Ready", "status": "True", "n": 2.5}]},
}


@pytest.mark.parametrize(
    ("path", "values"),
    [
        (".spec.text", ["s"]),
        (".spec.nope", []),
        (".spec.nope.deeper", []),
        (".spec.null", [None]),
        (".spec.list", [["a", "b", "c"]]),
        (".spec.list[*]", ["a", "b", "c"]),
        (".spec.list[1]", ["b"]),
        (".spec.list[-1]", ["c"]),
        (".spec.list[9]", []),
        (".spec.list[-9]", []),
        (".spec.list[0:2]", ["a", "b"]),
        (".spec.list[1:]", ["b", "c"]),
        (".spec.list[::2]", ["a", "c"]),
        (".spec.list[0,2]", ["a", "c"]),
        (".spec['text']", ["s"]),
        (""".spec["text","null"]""", ["s", None]),
        (".spec.objects[*].name", ["x", "y", "z"]),
        (".spec.*[0]", ["a", {"name": "x", "n": 1}]),
        (".metadata.labels['a\\.b/c']", ["lab"]),
        (".metadata.labels.a\\.b/c", ["lab"]),
        ('.status.conditions[?(@.type=="Ready")].status', ["True"]),
        (".status.conditions[?(@.type=='Ready')].status", ["True"]),
        (".status.conditions[?( @.type != 'Ready' )].status", ["False"]),
        (".status.conditions[?(@.type=='a==b')].status", []),
        (".spec.objects[?(@.n>1)].name", ["y"]),
        (".spec.objects[?(@.n>=1)].name", ["x", "y"]),
        (".spec.objects[?(@.n<2)].name", ["x"]),
        (".spec.objects[?(@.n)].name", ["x", "y"]),
        (".spec.objects[?(@.n>'1')].name", []),
        (".status.conditions[?(@.n==2.5)].type", ["Ready"]),
        (".spec.objects[?(@.n==true)].name", ["x"]),
        ("..name", ["a", "x", "y", "z"]),
        ("..objects[0].name", ["x"]),
        (".", [OBJECT]),
        ("", [OBJECT]),
        (".metadata.name.deeper", []),
        (".metadata[0]", []),
    ],
)
def test_values(path: str, values: list[Any]) -> None:
    assert list(parse(path)(OBJECT)) == values


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("spec.x", "'.' or '[' is expected at character 1"),
        (".spec[", "is never closed"),
        (".spec['x]", "is never closed"),
        (".spec[]", "is no index, slice, name or filter"),
        (".spec[x]", "is no index, slice, name or filter"),
        (".spec. x", "a field name is expected"),
        (".spec[?(x)]", "is no path"),
        (".spec[0:1:0]", "steps of 0"),
        ("." + "a" * 1000, "a path of 1001 characters"),
    ],
)
def test_invalid_jsonpath_is_rejected_with_reason(path: str, words: str) -> None:
    with pytest.raises(ValueError, match=re.escape(words)):
        parse(path)


PIECES = st.sampled_from(
    [".", "..", "a", "[", "]", "*", "'", '"', "\\", "?(", ")", "@", "==", ">", "0", "-1", ":", ",", " ", "spec", "x.y"]
)


@given(st.lists(PIECES, max_size=12).map("".join) | st.text(max_size=20))
def test_any_text_is_a_path_or_none(text: str) -> None:
    try:
        path = parse(text)
    except ValueError:
        return
    list(path(OBJECT))
