"""Objects from protobuf: by hand, there and back, and broken."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubesim.api.status import ApiError
from kubesim.http import content_negotiation
from kubesim.protobuf import read
from kubesim.protobuf.messages import KINDS, Field, Layout, kind_layout, layout
from tests.support.protobuf_writer import ZEROS, envelope, tagged, written

NAMESPACE = bytes.fromhex(
    "6b387300"  # "k8s" and a zero
    "0a0f"  # field 1, 15 bytes: the version and kind; 2 + 2 + 2 + 9 = 15
    "0a027631"  # 1: "v1"
    "12094e616d657370616365"  # 2: "Namespace"
    "1215"  # field 2, 21 bytes: the object; 2 + 15 + 2 + 2 = 21
    "0a0f"  # 1: metadata, 15 bytes: 5 + 2 + 2 + 2 + 2 + 2 = 15
    "0a03726564"  # 1: the name "red"
    "1200"  # 2: no generateName
    "1a00"  # 3: no namespace
    "2200"  # 4: no selfLink
    "3800"  # 7: generation 0
    "4200"  # 8: no creationTimestamp
    "1200"  # 2: an empty spec
    "1a00"  # 3: an empty status
    "1a002200"  # fields 3 and 4: neither an encoding nor a content type
)


def test_a_namespace_by_hand() -> None:
    assert read(NAMESPACE) == {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {"name": "red"},
        "spec": {},
        "status": {},
    }


def test_protobuf_is_accepted_as_request_body_format() -> None:
    assert content_negotiation.decode_body(NAMESPACE, content_negotiation.PROTOBUF) == read(NAMESPACE)
    with pytest.raises(ApiError, match=re.escape(content_negotiation.PROTOBUF)) as refused:
        content_negotiation.decode_body(NAMESPACE, "application/cbor")
    assert refused.value.code == 415
    assert (
        content_negotiation.negotiate_format(f"{content_negotiation.PROTOBUF},{content_negotiation.JSON}")
        == content_negotiation.PLAIN
    )


def raw(api_version: str, kind: str, hexadecimal: str) -> Any:
    """The object in these bytes."""
    return read(envelope(api_version, kind, bytes.fromhex(hexadecimal)))


def part(api_version: str, kind: str, hexadecimal: str) -> Any:
    """The only field of it, of those that these bytes are."""
    found = raw(api_version, kind, hexadecimal)
    return {key: value for key, value in found.items() if key not in {"apiVersion", "kind"}}


def test_bytes_are_in_base64() -> None:
    # Field 2 (12), 8 bytes: an entry; 0a 01 "k", 12 03 ff 00 01. Three bytes are four characters: /wAB.
    assert part("v1", "Secret", "1208 0a016b 1203ff0001") == {"data": {"k": "/wAB"}}
    assert part("v1", "Secret", "1203 0a016b") == {"data": {"k": ""}}


def test_texts_of_a_map_may_be_empty() -> None:
    assert part("v1", "ConfigMap", "1205 0a016b 1200") == {"data": {"k": ""}}


def test_times_are_seconds_since_1970() -> None:
    # 42 = 8 * 8 + 2: creationTimestamp; 08 ac 02: 300 seconds are 5 minutes; 10 ff 01: 255 ns, which JSON has not.
    assert part("v1", "Pod", "0a08 4206 08ac02 10ff01") == {"metadata": {"creationTimestamp": "1970-01-01T00:05:00Z"}}
    # A second before 1970: -1 in ten bytes.
    assert part("v1", "Pod", "0a0d 420b 08ffffffffffffffffff01") == {
        "metadata": {"creationTimestamp": "1969-12-31T23:59:59Z"}
    }
    # 52 = 10 * 8 + 2: eventTime, with microseconds; 10 e8 07: 0x68 + 7 * 128 = 1000 ns are 1 us.
    assert part("v1", "Event", "5205 0800 10e807") == {"eventTime": "1970-01-01T00:00:00.000001Z"}
    assert part("v1", "Event", "5200") == {}


def test_quantities_are_texts_in_messages() -> None:
    # spec (12), hard (0a), entry: 0a 03 "cpu", 12 03 (0a 01 "2").
    assert part("v1", "ResourceQuota", "120c 0a0a 0a03637075 1203 0a0132") == {"spec": {"hard": {"cpu": "2"}}}


def test_numbers_or_texts() -> None:
    # spec (12), minAvailable (0a): 08 is its type, 10 its number, 1a its text.
    assert part("policy/v1", "PodDisruptionBudget", "1208 0a06 0800 1002 1a00") == {"spec": {"minAvailable": 2}}
    assert part("policy/v1", "PodDisruptionBudget", "120b 0a09 0801 1000 1a03353025") == {
        "spec": {"minAvailable": "50%"}
    }


def test_a_zero_that_was_set_stays() -> None:
    # 08: gracePeriodSeconds is a pointer. Options come in the version of what they delete.
    assert raw("batch/v1", "DeleteOptions", "0800") == {
        "apiVersion": "batch/v1",
        "kind": "DeleteOptions",
        "gracePeriodSeconds": 0,
    }
    # 10: value is required; 18: globalDefault is neither.
    assert part("scheduling.k8s.io/v1", "PriorityClass", "1000 1800") == {"value": 0}


def test_embedded_messages_do_not_show() -> None:
    # spec (12) 20 bytes: volumes (0a) 18: name (0a) "v"; source (12) 13: configMap (19 * 8 + 2 = 154 = 9a 01) 10: its
    # name in a message of its own (0a 05: 0a 03 "cfg"), defaultMode (18) 0x24 + 3 * 128 = 420 = 0644.
    content = "1214 0a12 0a0176 120d 9a010a 0a05 0a03636667 18a403"
    assert part("v1", "Pod", content) == {
        "spec": {"volumes": [{"name": "v", "configMap": {"name": "cfg", "defaultMode": 420}}]}
    }


def test_lists_of_numbers_come_in_either_form() -> None:
    # spec (12), securityContext (14 * 8 + 2 = 72), supplementalGroups (20: one number, 22: packed): 1, 2, 300.
    groups = {"spec": {"securityContext": {"supplementalGroups": [1, 2, 300]}}}
    assert part("v1", "Pod", "1209 7207 2001 2002 20ac02") == groups
    assert part("v1", "Pod", "1208 7206 2204 0102ac02") == groups


def test_repeated_scalar_keeps_last_value_and_repeated_struct_merges() -> None:
    # metadata twice: the name "a", then the name "b" and the namespace (1a) "c".
    assert part("v1", "Pod", "0a03 0a0161 0a06 0a0162 1a0163") == {"metadata": {"name": "b", "namespace": "c"}}
    assert part("v1", "Pod", "0a03 0a0161 0a02 0a00") == {"metadata": {}}


def test_unknown_fields_are_passed_over() -> None:
    # 9a3e = 0x1a + 62 * 128 = 7962 = 995 * 8 + 2.
    assert part("v1", "Namespace", "9a3e03616263 1200") == {"spec": {}}


@pytest.mark.parametrize(
    ("api_version", "kind"), [("v1", "LimitRange"), ("v2", "Pod"), ("apps/v2", "StatefulSet"), ("", "")]
)
def test_other_kinds_are_an_unknown_format(api_version: str, kind: str) -> None:
    with pytest.raises(ApiError) as refused:
        content_negotiation.decode_body(envelope(api_version, kind, b""), content_negotiation.PROTOBUF)
    assert refused.value.code == 415


def test_an_encoding_is_an_unknown_format() -> None:
    assert read(NAMESPACE[:-4] + tagged(3, b"gzip")) is None


@pytest.mark.parametrize(
    ("content", "fault"),
    [
        (b"{}", "does not begin with"),
        (NAMESPACE[:-5], "field 2 has 21 bytes, of which 20 are there"),
        (envelope("v1", "Pod", tagged(1, 7)), "metadata: a number where there should be bytes"),
        (envelope("v1", "Pod", tagged(1, tagged(1, b"\xff"))), "metadata.name: a text that is not UTF-8"),
        (envelope("v1", "Pod", tagged(1, tagged(7, b""))), "metadata.generation: bytes where there should be a number"),
        (envelope("v1", "Event", tagged(8, 2**31)), "count: 2147483648 does not fit into 32 bits"),
        (envelope("v1", "Event", tagged(6, tagged(1, 2**62))), "firstTimestamp: a time 4611686018427387904 seconds"),
        (envelope("v1", "Event", tagged(6, tagged(2, 10**9))), "firstTimestamp: a time with 1000000000 nanoseconds"),
        (envelope("v1", "Event", b"\x31" + bytes(8)), "firstTimestamp: a number where"),
        (
            envelope("v1", "Pod", tagged(2, tagged(1, tagged(2, tagged(11, b""))))),
            "spec.volumes.rbd: this is not read from protobuf; send the object as JSON",
        ),
    ],
)
def test_malformed_protobuf_is_rejected_with_field_path(content: bytes, fault: str) -> None:
    with pytest.raises(ApiError, match=fault) as refused:
        read(content)
    assert refused.value.code == 400


def test_depth_does_no_harm() -> None:
    """Only shapes nest, and they end; what lies within an unknown field is never looked at."""
    nested = b""
    for _ in range(3000):
        nested = tagged(1, nested)
    # spec.affinity.nodeAffinity.required...nodeSelectorTerms.matchExpressions.key: the seventh is a text.
    within = tagged(2, tagged(18, nested))
    with pytest.raises(ApiError, match=r"matchExpressions\.key: a text that is not UTF-8") as refused:
        read(envelope("v1", "Pod", within))
    assert refused.value.code == 400
    assert read(envelope("v1", "Pod", tagged(999, nested))) == {"apiVersion": "v1", "kind": "Pod"}


# ---- there and back ---------------------------------------------------------------------------------------

TEXTS = st.text(st.characters(codec="utf-8"), max_size=8)
SCALARS: dict[str, st.SearchStrategy[Any]] = {
    "text": TEXTS,
    "bool": st.booleans(),
    "int32": st.integers(-(2**31), 2**31 - 1),
    "int64": st.integers(-(2**63), 2**63 - 1),
    "quantity": st.sampled_from(["0", "100m", "2Gi", "-1"]),
    "int-or-text": st.integers(-(2**31), 2**31 - 1) | TEXTS,
    "bytes": st.sampled_from(["", "AA==", "/wAB"]),
    "time": st.sampled_from(["0001-01-01T00:00:01Z", "1969-12-31T23:59:59Z", "2024-02-29T12:00:00Z"]),
    "micro": st.sampled_from(["1969-12-31T23:59:59.999999Z", "2024-02-29T12:00:00.000000Z"]),
}
UNREAD = {"any", "nothing"}


def flat(how: Layout) -> list[Field]:
    """The fields of a message and of those embedded in it."""
    found: list[Field] = []
    for field in how.fields.values():
        found += flat(field) if isinstance(field, Layout) else [field]
    return [field for field in found if field.type.strip("[]{}") not in UNREAD]


@st.composite
def values(draw: st.DrawFn, kind: str) -> Any:
    """A value of a type."""
    if kind.startswith("["):
        return draw(st.lists(values(kind[1:-1]), min_size=1, max_size=2))
    if kind.startswith("{"):
        return draw(st.dictionaries(TEXTS, values(kind[1:-1]), min_size=1, max_size=2))
    return draw(parts(layout(kind))) if kind[0].isupper() else draw(SCALARS[kind])


@st.composite
def parts(draw: st.DrawFn, how: Layout) -> dict[str, Any]:
    """Some fields of a message, with values that JSON would show."""
    fields = flat(how)
    if not fields:
        return {}
    chosen = draw(st.lists(st.sampled_from(fields), max_size=3, unique_by=lambda field: field.name))
    found = {field.name: draw(values(field.type)) for field in chosen}
    zeros = {field.name for field in chosen if field.drops_zero and found[field.name] == ZEROS[field.type]}
    return {name: value for name, value in found.items() if name not in zeros}


@st.composite
def objects(draw: st.DrawFn) -> dict[str, Any]:
    """An object of any kind."""
    api_version, kind = draw(st.sampled_from(sorted(KINDS | {("v1", "DeleteOptions")})))
    how = kind_layout(api_version, kind)
    assert how is not None
    return {"apiVersion": api_version, "kind": kind, **draw(parts(how))}


@given(objects())
def test_what_is_written_is_read(found: dict[str, Any]) -> None:
    assert read(written(found)) == found


@given(objects(), st.data())
def test_damage_is_read_as_something_or_refused(found: dict[str, Any], data: st.DataObject) -> None:
    content = bytearray(written(found))
    for _ in range(data.draw(st.integers(1, 4))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    del content[data.draw(st.integers(0, len(content))) :]
    assert code(bytes(content)) in {200, 400, 415}


@given(st.sampled_from(sorted(KINDS)), st.binary(max_size=300))
def test_garbage_in_an_envelope_is_an_object_or_refused(kind: tuple[str, str], content: bytes) -> None:
    assert code(envelope(*kind, content)) in {200, 400}


def code(content: bytes) -> int:
    """How a body is taken: as an object that JSON can hold, or with which refusal."""
    try:
        content_negotiation.encode(content_negotiation.decode_body(content, content_negotiation.PROTOBUF))
    except ApiError as error:
        return error.code
    return 200
