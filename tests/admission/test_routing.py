"""Routing keeps its leaves ranked between jobs; the ranking must never be older than what the world was told."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from pumice.admission import ClusterView, Object, route
from pumice.admission.request import QUEUES
from pumice.admission.routing import CROWDED
from tests.support.admitted import group, node, queue, resource_of, tell, world

LEAVES = ("a1", "a2", "b1", "c")
PARENT = {"a1": "a", "a2": "a", "b1": "b", "c": "root", "a": "root", "b": "a", "b2": "b"}

leaf = st.sampled_from(LEAVES)
step = st.one_of(
    *[st.tuples(st.just("route"), st.sampled_from(("root", "a", "b")))] * 3,
    *[st.tuples(st.just("job"), leaf, st.sampled_from("123"), st.sampled_from(("", "Running", "Completed")))] * 3,
    st.tuples(st.just("holds"), leaf, st.sampled_from("1234")),
    st.tuples(st.just("state"), st.sampled_from(sorted(PARENT)), st.sampled_from(("Open", "Paused", "Closed"))),
    st.tuples(st.just("weight"), st.sampled_from(sorted(PARENT)), st.integers(1, 4)),
    st.tuples(st.just("leave"), leaf),
    st.tuples(st.just("gone"), st.sampled_from((*LEAVES, "b2"))),
    st.tuples(st.just("node"), st.sampled_from(("4", "20"))),
)


def key(found: Object) -> tuple[str, str, str]:
    about = found["metadata"]
    return resource_of(found), about.get("namespace", ""), about["name"]


class Told:
    """A world that lives on, and everything that it was told."""

    def __init__(self) -> None:
        self.world = ClusterView()
        self.objects: dict[tuple[str, str, str], Object] = {}
        for found in (node("n", cpu="12"), *(queue(name, parent=above) for name, above in PARENT.items())):
            self.tell(found)

    def tell(self, found: Object) -> None:
        self.objects[key(found)] = found
        tell(self.world, found)

    def edit(self, name: str, part: str, **values: Any) -> None:
        old = self.objects.get((QUEUES, "", name), queue(name, parent=PARENT[name]))
        self.tell({**old, part: {**old.get(part, {}), **values}})

    def do(self, action: str, *what: Any) -> None:
        match action:
            case "job":
                self.tell(group(f"g{len(self.objects)}", what[0], what[2], minResources={"cpu": what[1]}))
            case "holds":
                self.edit(what[0], "status", allocated={"cpu": what[1]})
            case "state":
                self.edit(what[0], "status", state=what[1])
            case "weight":
                self.edit(what[0], "spec", weight=what[1])
            case "leave":
                self.edit(what[0], "metadata", deletionTimestamp="2024-01-01T00:00:00Z")
            case "gone":
                self.objects.pop((QUEUES, "", what[0]), None)
                self.world.note(QUEUES, "", what[0], None)
            case "node":
                self.tell(node("n", cpu=what[0]))


@settings(max_examples=200, deadline=None)
@given(st.lists(step, min_size=5, max_size=40))
def test_a_world_that_lives_on_routes_as_a_new_one(steps: Any) -> None:
    told = Told()
    for action, *what in [*steps, ("route", "root")]:
        if action == "route":
            assert route(what[0], told.world) == route(what[0], world(*told.objects.values()))
        else:
            told.do(action, *what)


def test_a_ranking_does_not_grow_for_ever() -> None:
    told = Told()
    for i in range(1000):
        told.do("holds", "a1", str(i % 5 + 5))
        assert route("root", told.world) is not None
    ranking = told.world.rankings["root"]
    assert len(ranking.heap) <= CROWDED * (len(ranking.used) + 1) + 1


def test_a_larger_cluster_is_larger_for_those_who_go_by_weight() -> None:
    # a has half of the cluster by weight, c deserves 2 cpu whatever there is: 1 of 2 against 0.9 of 2, then 1 of 20.
    around = world(node("n", cpu="4"), queue("a", allocated={"cpu": "1"}))
    tell(around, queue("c", deserved={"cpu": "2"}, allocated={"cpu": "900m"}))
    before = route("root", around)
    tell(around, node("n", cpu="40"))
    after = route("root", around)
    assert before is not None and after is not None
    assert (before.queue, after.queue) == ("c", "a")
