from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubesim.controllers.gc.gc_decision import FOREGROUND, ORPHAN, Delete, Keep, Owner, Unlink, judge

THERE, GONE, WAITING, UNKNOWN = Owner.THERE, Owner.GONE, Owner.WAITING, Owner.UNKNOWN


@pytest.mark.parametrize(
    ("owners", "around", "verdict"),
    [
        ([], {}, Keep()),
        ([("a", THERE)], {}, Keep()),
        ([("a", GONE)], {}, Delete("Background")),
        ([("a", THERE), ("b", GONE)], {}, Unlink(frozenset("b"))),
        ([("a", THERE), ("b", WAITING)], {}, Unlink(frozenset("b"))),
        ([("a", THERE), ("b", GONE), ("c", WAITING)], {}, Unlink(frozenset("bc"))),
        # A waiting owner takes its dependents with it; those that have dependents themselves wait for them in turn.
        ([("a", WAITING)], {}, Delete("Background")),
        ([("a", WAITING)], {"has_dependents": True}, Delete("Foreground")),
        ([("a", WAITING)], {"has_dependents": True, "in_circle": True}, Delete("Foreground", unblock=True)),
        ([("a", GONE)], {"has_dependents": True}, Delete("Background")),
        # What somebody has already asked for is kept.
        ([("a", GONE)], {"finalizers": [ORPHAN]}, Delete("Orphan")),
        ([("a", GONE)], {"finalizers": [FOREGROUND]}, Delete("Foreground")),
        # Nothing is concluded from what cannot be judged.
        ([("a", UNKNOWN)], {}, Keep(again=True)),
        ([("a", GONE), ("b", UNKNOWN)], {}, Keep(again=True)),
    ],
)
def test_what_becomes_of_an_object(owners, around, verdict):
    assert judge(owners, **around) == verdict


states = st.lists(st.tuples(st.sampled_from("abcdef"), st.sampled_from(Owner)), unique_by=lambda owner: owner[0])


@given(states)
def test_an_object_with_an_owner_that_stays_is_never_deleted(owners):
    if any(state is THERE for _, state in owners):
        assert not isinstance(judge(owners), Delete)


@given(states)
def test_an_object_is_deleted_only_if_it_had_owners_and_all_are_gone_or_going(owners):
    deleted = isinstance(judge(owners), Delete)
    assert deleted == (bool(owners) and all(state in (GONE, WAITING) for _, state in owners))
