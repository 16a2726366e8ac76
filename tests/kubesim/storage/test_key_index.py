"""The sorted keys against a plain sorted list."""

from __future__ import annotations

from unittest.mock import patch

from hypothesis import given
from hypothesis import strategies as st

from kubesim.storage.key_index import KeyIndex, above

KEYS = st.builds("/".join, st.lists(st.sampled_from(["a", "ab", "b", "~", "é", "0"]), min_size=1, max_size=3))


@given(st.sets(KEYS), st.lists(KEYS, max_size=60), KEYS, KEYS)
def test_keys_are_those_of_a_sorted_list(start: set[str], toggled: list[str], prefix: str, after: str) -> None:
    with patch("kubesim.storage.key_index.MOST", 4):
        keys, model = KeyIndex(start), set(start)
        for key in toggled:
            (keys.remove if key in model else keys.add)(key)
            model ^= {key}
        for under in ("", prefix, prefix + "/"):
            found = sorted(key for key in model if key.startswith(under))
            assert keys.under(under) == found
            assert keys.count(under) == len(found)
            assert keys.under(under, after) == [key for key in found if key > after]


def test_prefixes_above_a_key() -> None:
    assert list(above("pods/default/web")) == ["", "pods/", "pods/default/"]
    assert list(above("nodes/n1")) == ["", "nodes/"]
    assert list(above("nodes")) == [""]
