"""Many new queues at once get the verdicts that they would get one by one, for less."""

from __future__ import annotations

from typing import Any
from unittest import mock

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pumice.admission import CREATE, ClusterView, Object, Request, admit, admit_queues
from pumice.admission.queues import queue_tree as tree_module
from pumice.admission.request import QUEUES
from tests.support.admitted import node, queue, tell, world

NAMES = ("a", "b", "c", "d", "e", "f")
amounts = st.dictionaries(st.sampled_from(("cpu", "memory")), st.sampled_from("1357"), max_size=2)
written = st.fixed_dictionaries(
    {"name": st.sampled_from(NAMES)},
    optional={
        "parent": st.sampled_from(("root", *NAMES)),
        "annotations": st.sampled_from(("root/a", "root/x/y", "x/z", "root/a/b")).map(
            lambda path: {"volcano.sh/hierarchy": path}
        ),
        "capability": amounts,
        "deserved": amounts,
        "guarantee": amounts,
        "hierarchy": st.lists(st.sampled_from(NAMES), max_size=2, unique=True).map(
            lambda names: [{"name": name} for name in names]
        ),
        "state": st.sampled_from(("Open", "Closed", "wrong")),
    },
)
# Three plain queues in any order, each below root or another of them: often all of them fit together.
plain = st.tuples(
    st.permutations(NAMES[:3]),
    st.tuples(
        *[st.fixed_dictionaries({"parent": st.sampled_from(("root", "a", "b"))}, optional={"guarantee": amounts})] * 3
    ),
).map(lambda drawn: [{"name": name, **rest} for name, rest in zip(*drawn, strict=True)])


def started(around: list[Object]) -> ClusterView:
    return world(node("n", cpu="9", memory="9"), *around)


def one_by_one(objects: list[Object], around: ClusterView) -> list[str]:
    said = []
    for found in objects:
        verdict = admit(Request(CREATE, QUEUES, found), around)
        if verdict.allowed and verdict.object is not None:
            tell(around, verdict.object)
        said.append(verdict.message)
    return said


@settings(max_examples=200, deadline=None)
@given(st.lists(written, max_size=2), st.lists(written, max_size=7) | plain)
def test_the_verdicts_are_those_of_lone_requests(before: Any, given_queues: Any) -> None:
    around = [queue(**one) for one in before]
    objects = [queue(**one) for one in given_queues]
    alone, together = started(around), started(around)
    verdicts = admit_queues(
        [Request(CREATE, QUEUES, found) for found in objects], together, lambda _, admitted: tell(together, admitted)
    )
    assert [verdict.message for verdict in verdicts] == one_by_one(objects, alone)
    assert together.queues == alone.queues


@pytest.mark.parametrize(("wrong", "most"), [(0, 3), (1, 60)])
def test_trees_are_not_laid_out_for_each_of_them(wrong: int, most: int) -> None:
    objects = [queue(f"p{i // 20}") if i % 20 == 0 else queue(f"q{i}", parent=f"p{i // 20}") for i in range(400)]
    objects[250:250] = [queue(f"lost{i}", parent="nowhere") for i in range(wrong)]
    around = world()
    with mock.patch.object(tree_module, "build_queue_tree", wraps=tree_module.build_queue_tree) as laid_out:
        verdicts = admit_queues(
            [Request(CREATE, QUEUES, found) for found in objects], around, lambda _, new: tell(around, new)
        )
    assert sum(not verdict.allowed for verdict in verdicts) == wrong
    assert laid_out.call_count <= most
