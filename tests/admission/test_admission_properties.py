"""Whatever passes the schema is judged without a mishap, filling in is done once, and what is let in stays sound."""

from __future__ import annotations

import copy
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from kubebase.resource_vector import Registry
from pumice.admission import CREATE, DELETE, UPDATE, ClusterView, Object, Request, Settings, admit, mutate
from pumice.admission.cluster_view import describe_queue
from pumice.admission.queues.queue_tree import QueueTree
from pumice.admission.request import JOBS, PODGROUPS, QUEUES
from pumice.model.queue_tree import Path, build_queue_tree
from tests.support.admitted import ask, group, node, put, queue, tell
from tests.support.crd_objects import objects, resources

SERVED = resources()
ADMITTED = {name: objects(SERVED[name]) for name in (QUEUES, PODGROUPS, JOBS)}
anything_served = st.sampled_from(sorted(ADMITTED)).flatmap(lambda name: st.tuples(st.just(name), ADMITTED[name]))


@settings(max_examples=100, deadline=None)
@given(st.lists(anything_served, max_size=4), anything_served, st.sampled_from((CREATE, UPDATE, DELETE)), st.data())
def test_whatever_passes_the_schema_is_judged(around: Any, asked: Any, operation: str, data: st.DataObject) -> None:
    world = ClusterView(Settings(max_queue_depth=2))
    tell(world, node("n", cpu="4", memory="1Gi"))
    for name, found in around:
        world.note(name, found["metadata"].get("namespace", ""), found["metadata"]["name"], found)
    resource, new = asked
    old = data.draw(ADMITTED[resource]) if operation != CREATE else None
    request = Request(operation, resource, None if operation == DELETE else new, old, "anne")
    before = copy.deepcopy((request.new, old, world.queues))
    verdict = admit(request, world)
    assert all(refusal.message for refusal in verdict.refusals)
    assert (request.new, old, world.queues) == before, "nothing that was given is changed"
    if verdict.object is not None:
        again = Request(operation, resource, verdict.object, old, "anne")
        assert mutate(again, world) == verdict.object, "filling in once is enough"


# ---- a tree that only admitted writes have touched -----------------------------------------------------------

NAMES = ("a", "b", "c", "d", "e")
amounts = st.dictionaries(st.sampled_from(("cpu", "memory")), st.sampled_from("234567"), min_size=1, max_size=2)
paths = st.sampled_from(("root/a", "root/a/b", "root/x", "root/x/y", "x/z", "root/b/c/d", "root/e"))
parents = st.sampled_from(("root", "root", *NAMES))
limits = {"capability": amounts, "deserved": amounts, "guarantee": amounts}
names = st.sampled_from(NAMES)
by_parent = st.fixed_dictionaries({"name": names, "parent": parents}, optional=limits)
by_path = st.fixed_dictionaries(
    {"name": names, "annotations": paths.map(lambda path: {"volcano.sh/hierarchy": path})},
    optional={"parent": parents, **limits},
)
entry = st.fixed_dictionaries(
    {"name": st.sampled_from(("h1", "h2", "h3"))},
    optional={"parameters": amounts.map(lambda named: [{"name": "guarantee", "value": {"resource": named}}])},
)
nested = st.fixed_dictionaries(
    {"name": st.sampled_from(("h4", "h5"))}, optional={"hierarchy": st.lists(entry, max_size=2)}
)
step = st.one_of(
    *[st.tuples(st.just("queue"), by_parent)] * 4,
    st.tuples(st.just("queue"), by_path),
    st.tuples(st.just("hierarchy"), st.tuples(st.sampled_from(NAMES), st.lists(entry | nested, max_size=2))),
    st.tuples(st.just("job"), st.tuples(st.sampled_from(("g1", "g2", "g3")), st.sampled_from(("", "root", *NAMES)))),
    st.tuples(st.just("end"), st.sampled_from(("g1", "g2", "g3"))),
    st.tuples(st.just("delete"), st.sampled_from(NAMES)),
)
steps = st.lists(step, min_size=15, max_size=30)


class Served:
    """A world behind admission, with the part of the controllers that keeps it going."""

    def __init__(self) -> None:
        self.world = ClusterView(Settings(max_queue_depth=3))
        self.groups: dict[str, Object] = {}
        tell(self.world, node("n", cpu="10", memory="10"))
        for name, parent in (("a", "root"), ("b", "a"), ("c", "a"), ("d", "root")):
            assert put(self.world, queue(name, parent=parent)).allowed

    def queue(self, given: dict[str, Any]) -> None:
        put(self.world, queue(**given))

    def hierarchy(self, given: tuple[str, list[Object]]) -> None:
        name, entries = given
        found = self.world.queues.get(name)
        named = {e["name"] for one in entries for e in (one, *one.get("hierarchy", ()))}
        if found is not None and not named & self.world.queues.keys():
            wanted = {**found, "spec": {**found["spec"], "hierarchy": entries}}
            if put(self.world, wanted).allowed:
                self.expand(name)

    def expand(self, parent: str) -> None:
        """Level by level, as the controller does; none of it may be refused once the whole was let in."""
        for entry in self.world.queues[parent]["spec"].get("hierarchy") or ():
            spec = {one["name"]: one["value"] for one in entry.get("parameters", ())}
            below = {"hierarchy": entry["hierarchy"]} if entry.get("hierarchy") else {}
            made = queue(entry["name"])
            made["spec"] = {**spec, **below, "parent": parent}
            assert put(self.world, made).message == ""
            self.expand(entry["name"])

    def job(self, given: tuple[str, str]) -> None:
        name, where = given
        if name not in self.groups:
            verdict = put(self.world, group(name, where, minResources={"cpu": "1"}))
            if verdict.allowed and verdict.object is not None:
                self.groups[name] = verdict.object

    def end(self, name: str) -> None:
        found = self.groups.pop(name, None)
        if found is not None:
            tell(self.world, {**found, "status": {"phase": "Completed"}})

    def delete(self, name: str) -> None:
        found = self.world.queues.get(name)
        if found is not None and ask(self.world, found, DELETE).allowed:
            for gone in [*self.world.tree.below(name), name]:
                self.world.note(QUEUES, "", gone, None)
                for key in [key for key, one in self.groups.items() if one["spec"]["queue"] == gone]:
                    self.world.note(PODGROUPS, "ns", key, None)
                    del self.groups[key]


def check_sound(served: Served) -> None:
    """By the definitions, from the objects alone."""
    registry = Registry()
    queues = {name: describe_queue(found, registry) for name, found in served.world.queues.items()}
    layout = build_queue_tree(queues)
    assert [refusal for refusal in layout.refusals if refusal.refused] == [], "everybody has a place: no circles"
    inner = {path[:-1] for path in layout.placements}
    for found in served.groups.values():
        assert layout.path_of[found["spec"]["queue"]] not in inner, "only leaves have jobs"
    assert all(len(path) - 1 <= 3 for path in layout.placements)

    def named(path: Path, field: str) -> dict[int, int]:
        holder = layout.placements[path].queue
        return dict(getattr(queues[holder], field)) if holder in queues else {}

    def wants(path: Path, field: str, j: int) -> int:
        own = named(path, field)
        return own[j] if j in own else sum(wants(c, field, j) for c in layout.placements if c[:-1] == path)

    for path in layout.placements:
        for less, more in (("guarantee", "deserved"), ("deserved", "capability"), ("guarantee", "capability")):
            assert all(amount <= named(path, more).get(j, amount) for j, amount in named(path, less).items())
        below = [c for c in layout.placements if c[:-1] == path]
        for want, offer in (("guarantee", "guarantee"), ("deserved", "deserved"), ("guarantee", "capability")):
            # The node has 10 cpu (10000 in milli) and 10 bytes of memory.
            most = {0: 10_000, 1: 10} if len(path) == 1 else named(path, offer)
            for j, limit in most.items():
                assert sum(wants(c, want, j) for c in below) <= limit, (path, want, offer)
        for j, limit in named(path, "capability").items():
            above = [named(path[:d], "capability") for d in range(len(path) - 1, 1, -1)]
            nearest = next((one[j] for one in above if j in one), limit)
            assert limit <= nearest, (path, "capability")


@settings(max_examples=100, deadline=None)
@given(steps)
def test_a_tree_that_only_admitted_writes_touched_is_sound(taken: list[tuple[str, Any]]) -> None:
    served = Served()
    for what, given_ in taken:
        getattr(served, what)(given_)
        check_sound(served)


@settings(max_examples=100, deadline=None)
@given(steps)
def test_a_world_that_followed_along_equals_one_made_anew(taken: list[tuple[str, Any]]) -> None:
    served = Served()
    for what, given_ in taken:
        getattr(served, what)(given_)
        _ = served.world.tree  # so that it has something to keep up to date
    fresh = ClusterView(served.world.settings)
    for found in served.world.queues.values():
        tell(fresh, found)
    for found in served.groups.values():
        tell(fresh, found)
    tree: QueueTree = served.world.tree
    for name in served.world.queues:
        assert tree.path(name) == fresh.tree.path(name)
        assert fresh.unfinished(name) == served.world.unfinished(name)
        assert _amounts(fresh, name) == _amounts(served.world, name)


def _amounts(world: ClusterView, name: str) -> dict[str, str]:
    return world.registry.format(world.load(name))
