"""The latest changes, by prefix."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kubesim.storage.watch_cache import Change, RecentChanges

KEYS = st.sampled_from(["pods/a/x", "pods/a/y", "pods/b/x", "nodes/x", "podsets/a/x"])


@given(st.lists(KEYS, max_size=20), st.sampled_from(["", "pods/", "pods/a/", "pods/c/", "nodes/"]), st.integers(0, 21))
def test_whether_there_is_a_change_agrees_with_which_there_are(keys: list[str], prefix: str, after: int) -> None:
    recent = RecentChanges(0, 1000, 1 << 20)
    for number, key in enumerate(keys, 1):
        recent.add(Change(number, key, b"{}"))
    expected = [number for number, key in enumerate(keys, 1) if number > after and key.startswith(prefix)]
    assert [change.revision for change in recent.since(prefix, after)] == expected
    assert recent.has_since(prefix, after) == bool(expected)
