"""Bodies that come in and forms in which answers go out."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubesim.api.status import ApiError
from kubesim.http import content_negotiation

values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=10,
)


@given(values)
def test_json_comes_in_as_it_is(found: object) -> None:
    content = json.dumps(found).encode()
    assert content_negotiation.read_json(content) == found
    assert content_negotiation.duplicate_fields(content) == []


def test_whole_numbers_are_whole_however_they_are_written() -> None:
    found = content_negotiation.read_json(b'{"a": 1.0, "b": 1e3, "c": 1.5}')
    assert found == {"a": 1, "b": 1000, "c": 1.5}
    assert isinstance(found["a"], int) and isinstance(found["b"], int)


@pytest.mark.parametrize(
    "content",
    [b"{", b"\xff", b'{"a": 1e999}', b"nonsense", b"[" * 300 + b"]" * 300, b"[" * 100_000, b'{"a":"\xed\xa0\x80"}'],
)
def test_broken_json_is_refused(content: bytes) -> None:
    with pytest.raises(ApiError) as refused:
        content_negotiation.read_json(content)
    assert refused.value.code == 400


def test_fields_that_come_twice_are_named_by_their_paths() -> None:
    content = b'{"a": 1, "b": [{"c": 1}, {"c": {"d": 1, "d": 2}}], "a": 2}'
    assert content_negotiation.duplicate_fields(content) == ["b[1].c.d", "a"]
    assert content_negotiation.read_json(content)["a"] == 2


KEYS = st.sampled_from(["a", "b", '":', "\u00e4", 'a":'])
COLONS = st.sampled_from([":", ": ", " : ", "\t:"])
TEXTS = st.recursive(
    st.sampled_from(["1", "null", '"x"', r'"\":"', r'"a\" :1"']),
    lambda inner: (
        st.lists(inner, max_size=3).map(lambda items: f"[{','.join(items)}]")
        | st.lists(st.tuples(KEYS.map(json.dumps), COLONS, inner), max_size=4).map(
            lambda fields: "{" + ",".join("".join(parts) for parts in fields) + "}"
        )
    ),
    max_leaves=12,
)


@given(TEXTS)
def test_counting_fields_finds_the_documents_with_duplicates(text: str) -> None:
    content = text.encode()
    decoded = content_negotiation.read_json(content)
    assert content_negotiation.duplicate_fields(content, decoded) == content_negotiation.duplicate_fields(content)


def test_yaml_says_what_json_could_say() -> None:
    content = b"a: &x [1, 2.0]\nb: *x\nwhen: 2026-01-01\n7: text\n"
    found = content_negotiation.decode_body(content, "application/yaml; charset=utf-8")
    assert found == {"a": [1, 2], "b": [1, 2], "when": "2026-01-01", "7": "text"}


@pytest.mark.parametrize(
    "content",
    [
        b"a: [",
        b"a: !!bool x",
        b"a: !!timestamp x",
        b"a: !!python/object:os.system x",
        b"a: 1\n---\nb: 2",
        b"a: &a [*a]",
        b"\n".join(
            [b"a: &a [x,x,x,x,x,x,x,x,x,x]"]
            + [b"%c: &%c [%b]" % (c, c, b",".join([b"*%c" % (c - 1)] * 10)) for c in b"bcdefghi"]
        ),
        b"{" * 5000,
        b"[" * 30_000,
        b"- x\n" * 200_000,
    ],
)
def test_malicious_yaml_is_refused(content: bytes) -> None:
    with pytest.raises(ApiError) as refused:
        content_negotiation.decode_body(content, "application/yaml")
    assert refused.value.code == 400


def test_an_empty_body_is_nothing_and_an_unknown_one_is_refused() -> None:
    assert content_negotiation.decode_body(b"", "text/plain") is None
    with pytest.raises(ApiError) as refused:
        content_negotiation.decode_body(b"x", "text/plain")
    assert refused.value.code == 415


@pytest.mark.parametrize(
    ("header", "media", "shown_as"),
    [
        ("", "application/json", ""),
        ("*/*", "application/json", ""),
        ("application/yaml", "application/yaml", ""),
        ("application/vnd.kubernetes.protobuf,application/json", "application/json", ""),
        ("application/json;as=Table;v=v1;g=meta.k8s.io,application/json", "application/json", "Table"),
        ("application/json;as=Unknown;v=v1;g=meta.k8s.io,application/json", "application/json", ""),
        ("application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1", "application/json", "PartialObjectMetadata"),
    ],
)
def test_accept_header_takes_first_supported_format(header: str, media: str, shown_as: str) -> None:
    form = content_negotiation.negotiate_format(header)
    assert (form.media, form.shown_as) == (media, shown_as)


@pytest.mark.parametrize(
    "header", ["text/html", "application/vnd.kubernetes.protobuf", "application/json;as=Table;v=v7;g=meta.k8s.io"]
)
def test_unsupported_accept_header_is_refused(header: str) -> None:
    with pytest.raises(ApiError) as refused:
        content_negotiation.negotiate_format(header)
    assert refused.value.code == 406
