"""The default policy serves what queues deserve before weights share the rest (docs/fairness.md, section 3.1)."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pumice.engine.fairness.share_tree.share_node import NodeKind
from pumice.model.specs import Queue
from tests.support.queue_worlds import QueueWorld, cpu


@settings(max_examples=60)
@given(deserved=st.lists(st.integers(0, 12), min_size=2, max_size=4), wants=st.lists(st.integers(0, 25), min_size=4))
def test_each_queue_has_what_it_deserves_or_all_it_wants(deserved: list[int], wants: list[int]) -> None:
    """Where all deserve more than there is, what each deserves is cut in proportion; nothing idles."""
    names = [f"q{i}" for i in range(len(deserved))]
    queues = [Queue(name, deserved=cpu(due) if due else ()) for name, due in zip(names, deserved, strict=True)]
    world = QueueWorld(*queues, room=20, policy="drf and capacity")
    wanted = dict(zip(names, wants, strict=False))
    for name, want in wanted.items():
        world.job(name, want)
    world.engine.prepare()
    children, total = world.engine.tree.root.children, sum(deserved)
    entitled = {name: children[NodeKind.QUEUE, name].entitled[0] for name in names}
    for name, due in zip(names, deserved, strict=True):
        cut = due * 20 // total if total > 20 else due
        assert entitled[name] >= min(cut, wanted[name])
    world.cycle()
    assert sum(world.held(name) for name in names) == min(20, sum(wanted.values()))


def test_waking_queue_is_entitled_to_its_deserved_amount() -> None:
    world = QueueWorld(Queue("a", deserved=cpu(12)), Queue("b", deserved=cpu(4)), room=16, policy="drf and capacity")
    world.job("b", 20)
    world.cycle()
    assert world.held("b") == 16
    world.job("a", 20)
    world.engine.prepare()
    children = world.engine.tree.root.children
    assert [children[NodeKind.QUEUE, name].entitled[0] for name in "ab"] == [12, 4]


@pytest.mark.parametrize("weights", [(1, 1), (1, 9)])
def test_weights_share_what_is_left_of_a_parent(weights: tuple[int, int]) -> None:
    # p deserves 10 of 16: x inside it 7, then weights share its other 3, which y alone is low enough to get.
    world = QueueWorld(
        Queue("p", deserved=cpu(10)),
        Queue("q", deserved=cpu(6)),
        Queue("x", parent="p", deserved=cpu(7), weight=weights[0]),
        Queue("y", parent="p", weight=weights[1]),
        room=16,
        policy="drf and capacity",
    )
    for queue in ("x", "y", "q"):
        world.job(queue, 20)
    world.cycle()
    assert (world.held("p", "x"), world.held("p", "y"), world.held("q")) == (7, 3, 6)
