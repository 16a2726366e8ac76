from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kubesim.kubelet.timer_queue import TimerQueue


def test_a_key_can_be_moved_and_taken_off():
    wheel = TimerQueue()
    wheel.set_timer("a", 5.0)
    wheel.set_timer("b", 3.0)
    wheel.set_timer("a", 1.0)
    wheel.set_timer("c", 2.0)
    wheel.set_timer("c", None)
    assert wheel.next_due() == 1.0
    assert wheel.pop_due(4.0, 10) == ["a", "b"]
    assert wheel.next_due() is None
    assert len(wheel) == 0


def test_at_the_same_moment_the_order_is_that_of_arrival():
    wheel = TimerQueue()
    for key in "cab":
        wheel.set_timer(key, 1.0)
    assert wheel.pop_due(1.0, 2) == ["c", "a"]
    assert wheel.pop_due(1.0, 2) == ["b"]


moves = st.lists(st.tuples(st.sampled_from("abcdef"), st.none() | st.integers(0, 20)), max_size=40)


@given(moves, st.integers(0, 20))
def test_timer_queue_model(history, now):
    wheel, table = TimerQueue(), {}
    for key, moment in history:
        wheel.set_timer(key, moment)
        table.pop(key, None) if moment is None else table.update({key: moment})
    assert len(wheel) == len(table)
    assert wheel.next_due() == min(table.values(), default=None)
    due = wheel.pop_due(now, 100)
    assert sorted(due) == sorted(key for key, moment in table.items() if moment <= now)
    assert [table[key] for key in due] == sorted(table[key] for key in due)
