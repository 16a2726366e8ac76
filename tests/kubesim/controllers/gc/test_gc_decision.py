from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubesim.controllers.gc.gc_decision import (
    FOREGROUND,
    ORPHAN,
    DeleteObject,
    KeepObject,
    OwnerState,
    RemoveOwnerRefs,
    decide,
)

THERE, GONE, WAITING, UNKNOWN = OwnerState.THERE, OwnerState.GONE, OwnerState.WAITING, OwnerState.UNKNOWN


@pytest.mark.parametrize(
    ("owners", "around", "verdict"),
    [
        ([], {}, KeepObject()),
        ([("a", THERE)], {}, KeepObject()),
        ([("a", GONE)], {}, DeleteObject("Background")),
        ([("a", THERE), ("b", GONE)], {}, RemoveOwnerRefs(frozenset("b"))),
        ([("a", THERE), ("b", WAITING)], {}, RemoveOwnerRefs(frozenset("b"))),
        ([("a", THERE), ("b", GONE), ("c", WAITING)], {}, RemoveOwnerRefs(frozenset("bc"))),
        # A waiting owner takes its dependents with it; those that have dependents themselves wait for them in turn.
        ([("a", WAITING)], {}, DeleteObject("Background")),
        ([("a", WAITING)], {"has_dependents": True}, DeleteObject("Foreground")),
        ([("a", WAITING)], {"has_dependents": True, "in_circle": True}, DeleteObject("Foreground", unblock=True)),
        ([("a", GONE)], {"has_dependents": True}, DeleteObject("Background")),
        # What somebody has already asked for is kept.
        ([("a", GONE)], {"finalizers": [ORPHAN]}, DeleteObject("Orphan")),
        ([("a", GONE)], {"finalizers": [FOREGROUND]}, DeleteObject("Foreground")),
        # Nothing is concluded from what cannot be judged.
        ([("a", UNKNOWN)], {}, KeepObject(again=True)),
        ([("a", GONE), ("b", UNKNOWN)], {}, KeepObject(again=True)),
    ],
)
def test_gc_decision_table(owners, around, verdict):
    assert decide(owners, **around) == verdict


states = st.lists(st.tuples(st.sampled_from("abcdef"), st.sampled_from(OwnerState)), unique_by=lambda owner: owner[0])


@given(states)
def test_an_object_with_an_owner_that_stays_is_never_deleted(owners):
    if any(state is THERE for _, state in owners):
        assert not isinstance(decide(owners), DeleteObject)


@given(states)
def test_an_object_is_deleted_only_if_it_had_owners_and_all_are_gone_or_going(owners):
    deleted = isinstance(decide(owners), DeleteObject)
    assert deleted == (bool(owners) and all(state in (GONE, WAITING) for _, state in owners))
