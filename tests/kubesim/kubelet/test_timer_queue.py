from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kubesim.kubelet.timer_queue import TimerQueue


def test_a_key_can_be_moved_and_taken_off():
    wheel = TimerQueue()
    wheel.put("a", 5.0)
    wheel.put("b", 3.0)
    wheel.put("a", 1.0)
    wheel.put("c", 2.0)
    wheel.put("c", None)
    assert wheel.next() == 1.0
    assert wheel.pop(4.0, 10) == ["a", "b"]
    assert wheel.next() is None
    assert len(wheel) == 0


def test_at_the_same_moment_the_order_is_that_of_arrival():
    wheel = TimerQueue()
    for key in "cab":
        wheel.put(key, 1.0)
    assert wheel.pop(1.0, 2) == ["c", "a"]
    assert wheel.pop(1.0, 2) == ["b"]


moves = st.lists(st.tuples(st.sampled_from("abcdef"), st.none() | st.integers(0, 20)), max_size=40)


@given(moves, st.integers(0, 20))
def test_like_a_table_of_moments(history, now):
    wheel, table = TimerQueue(), {}
    for key, moment in history:
        wheel.put(key, moment)
        table.pop(key, None) if moment is None else table.update({key: moment})
    assert len(wheel) == len(table)
    assert wheel.next() == min(table.values(), default=None)
    due = wheel.pop(now, 100)
    assert sorted(due) == sorted(key for key, moment in table.items() if moment <= now)
    assert [table[key] for key in due] == sorted(table[key] for key in due)
