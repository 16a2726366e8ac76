"""Whatever people do, in whatever order it is seen and wherever the controller dies: in the end the queues are what an
obvious model says they should be, and nothing more is written.

The model knows neither lag nor crashes. It keeps the hierarchy of root, the queues made by hand, what each queue was
told to be, and where there is work; from these everything follows.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from pumice.controllers.queues.expansion import without_entry
from pumice.kube.client.api_errors import ApiError
from pumice.kube.resources import COMMANDS, EVENTS, POD_GROUPS, QUEUES
from pumice.model.queue_states import state_after_command
from pumice.model.specs import QueueState
from tests.support.queue_clusters import CrashError, MemoryCluster, Process, command, group

Entry = dict[str, Any]

NAMED = ("a", "b", "c", "d")
"""Queues that hierarchies name."""
BY_HAND = ("h1", "h2", "h3")
STRICT = {"Open": 0, "Paused": 1, "Closed": 3}


@st.composite
def hierarchies(draw: st.DrawFn) -> list[Entry]:
    """Some of the names, each below root or below one that came before it."""
    names = draw(st.lists(st.sampled_from(NAMED), unique=True, max_size=4))
    nodes: list[Entry] = []
    top: list[Entry] = []
    for name in names:
        node: Entry = {"name": name, "parameters": [{"name": "weight", "value": draw(st.sampled_from([1, 2, "3"]))}]}
        where = draw(st.sampled_from([None, *nodes]))
        (top if where is None else where.setdefault("hierarchy", [])).append(node)
        nodes.append(node)
    return top


SOME = st.integers(0, 11)
"""One of the queues that are there, whichever they are then."""
COMMAND = st.sampled_from(("OpenQueue", "CloseQueue", "PauseQueue", "ResumeQueue", "CloseQueue"))
OPERATIONS = st.one_of(
    st.tuples(st.just("hierarchy"), hierarchies()),
    st.tuples(st.just("make"), st.sampled_from(BY_HAND), SOME),
    st.tuples(st.just("command"), SOME, COMMAND),
    st.tuples(st.just("command"), SOME, COMMAND),
    st.tuples(st.just("work"), SOME),
    st.tuples(st.just("done"), SOME),
    st.tuples(st.just("prioritise"), SOME, st.integers(1, 9)),
    st.tuples(st.just("count"), SOME, st.integers(1, 9)),
    st.tuples(st.just("delete"), SOME),
    st.tuples(st.just("see"), st.sampled_from((QUEUES.name, POD_GROUPS.name, COMMANDS.name)), st.integers(1, 4)),
    st.tuples(st.just("look"), st.integers(1, 5)),
    st.tuples(st.just("settle")),
    st.tuples(st.just("die"), st.integers(2, 12).map(lambda n: n / 2)),
    st.tuples(st.just("lose"), st.integers(2, 12).map(lambda n: n / 2)),
)


class Model:
    """What should be, in the end."""

    def __init__(self) -> None:
        self.hierarchy: list[Entry] = []
        self.own: dict[str, QueueState] = {}  # by uid
        self.priority: dict[str, int] = {}  # by uid

    def entries(self, hierarchy: list[Entry], parent: str) -> Iterator[tuple[str, str, Entry]]:
        for entry in hierarchy:
            yield entry["name"], parent, entry
            yield from self.entries(entry.get("hierarchy", []), entry["name"])

    def check(self, cluster: MemoryCluster) -> None:
        queues = {queue["metadata"]["name"]: queue for queue in cluster.all(QUEUES)}
        parents = {name: queue["spec"].get("parent") or "root" for name, queue in queues.items() if name != "root"}
        named = {name: (parent, entry) for name, parent, entry in self.entries(self.hierarchy, "root")}
        work = {found["spec"]["queue"] for found in cluster.all(POD_GROUPS)}

        for name, (parent, entry) in named.items():
            assert parents.get(name) == parent
            spec = queues[name]["spec"]
            assert spec["weight"] == int(entry["parameters"][0]["value"])
            assert spec.get("hierarchy", []) == entry.get("hierarchy", [])
        taken_out = {name for name in queues if name in NAMED and name not in named}
        for name in taken_out:  # it stays only for something that is in it or below it
            assert name in work or name in parents.values(), f"{name} should be gone"

        for name, queue in queues.items():
            line = [name]
            while line[-1] != "root":
                line.append(parents[line[-1]])
            states = ["Closed" if one in taken_out else self.state(queues[one]) for one in line]
            wanted = max(states, key=STRICT.__getitem__)
            busy = any(one == name or name in self.above(one, parents) for one in work)
            assert queue["status"]["state"] == ("Closing" if wanted == "Closed" and busy else wanted), name
            assert [c["reason"] for c in queue["status"].get("conditions", [])] == [self.state(queue)]
            assert queue["spec"].get("priority", 0) == self.priority.get(queue["metadata"]["uid"], 0)
            if name in BY_HAND:
                leaf = name not in parents.values()
                assert queue["spec"].get("minUserLimitPercent") == (25 if leaf else None)
        assert not list(cluster.all(COMMANDS))
        assert work <= queues.keys()

    def state(self, queue: dict[str, Any]) -> str:
        return self.own.get(queue["metadata"]["uid"], QueueState.OPEN).value

    def above(self, name: str, parents: dict[str, str]) -> Iterator[str]:
        while name in parents:
            name = parents[name]
            yield name


class Story:
    """Operations, carried out on a cluster and on the model."""

    def __init__(self) -> None:
        self.cluster = MemoryCluster()
        self.model = Model()
        self.cluster.put(QUEUES, {"metadata": {"name": "root"}, "spec": {}})
        self.process = Process(self.cluster)

    async def go(self, operations: list[tuple[Any, ...]]) -> None:
        for what, *how in operations:
            try:
                await getattr(self, what)(*how)
            except CrashError:
                self.restart()
        await self.end()

    async def end(self) -> None:
        await self.settle()
        if self.process.waiting:  # a queue that is to have queues below it got jobs in the meantime
            for found in list(self.cluster.all(POD_GROUPS)):
                self.cluster.drop(POD_GROUPS, found["metadata"]["name"], "ns")
            await self.settle()
        assert not self.process.waiting
        self.model.check(self.cluster)
        self.restart()
        before = self.cluster.writes
        await self.process.settle()
        assert self.cluster.writes == before, "it is not quiet"

    def restart(self) -> None:
        self.cluster.crash_at = None
        self.process = Process(self.cluster)

    async def settle(self) -> None:
        while True:
            try:
                return await self.process.settle()
            except CrashError:
                self.restart()

    def named(self, number: int | str) -> str:
        """A queue that is there, by its name or whichever comes so many places after root."""
        if isinstance(number, str):
            return number
        names = ["root", *sorted({queue["metadata"]["name"] for queue in self.cluster.all(QUEUES)} - {"root"})]
        return names[number % len(names)]

    # ---- what people do -----------------------------------------------------------------------------------

    async def hierarchy(self, wanted: list[Entry]) -> None:
        with suppress(ApiError):  # a queue would have to be in two places, say
            self.cluster.merge(QUEUES, "root", {"spec": {"hierarchy": wanted}})
            self.model.hierarchy = wanted

    async def make(self, name: str, parent: int | str) -> None:
        spec = {"parent": self.named(parent), "minUserLimitPercent": 25}
        with suppress(ApiError):
            self.cluster.put(QUEUES, {"metadata": {"name": name}, "spec": spec})

    async def command(self, queue: int | str, action: str) -> None:
        name = self.named(queue)
        command(self.cluster, action, name)
        if (found := self.cluster.queue(name)) is not None:
            uid = found["metadata"]["uid"]
            self.model.own[uid] = state_after_command(self.model.own.get(uid, QueueState.OPEN), action, busy=False)

    async def work(self, queue: int | str) -> None:
        with suppress(ApiError):  # it is closed
            group(self.cluster, f"on-{len(self.cluster.history)}", self.named(queue))  # of a parent: to a leaf below

    async def done(self, number: int) -> None:
        """The work of some queue that has any is done."""
        groups = sorted(found["metadata"]["name"] for found in self.cluster.all(POD_GROUPS))
        if groups:
            self.cluster.drop(POD_GROUPS, groups[number % len(groups)], "ns")

    async def prioritise(self, queue: int, priority: int) -> None:
        found = self.cluster.queue(self.named(queue))
        if self.named(queue) != "root" and found is not None and "deletionTimestamp" not in found["metadata"]:
            self.cluster.merge(QUEUES, self.named(queue), {"spec": {"priority": priority}})
            self.model.priority[found["metadata"]["uid"]] = priority

    async def count(self, queue: int, running: int) -> None:
        """The scheduler writes its part of a status."""
        self.cluster.merge(QUEUES, self.named(queue), {"status": {"running": running}}, subresource="status")

    async def delete(self, queue: int | str) -> None:
        name = self.named(queue)
        if name != "root" and self.cluster.queue(name) is not None:
            self.cluster.drop(QUEUES, name)
            self.model.hierarchy = without_entry(self.model.hierarchy, name)
            await self.settle()

    # ---- what happens -------------------------------------------------------------------------------------

    async def see(self, resource: str, most: int) -> None:
        self.process.deliver(resource, most)

    async def look(self, times: int) -> None:
        for _ in range(times):
            await self.process.look()

    async def die(self, at: float) -> None:
        """Not at once, but at a write that is about to come."""
        self.cluster.crash_at = self.cluster.writes + at

    async def lose(self, at: float) -> None:
        """The answer to such a write, or the write itself, gets lost."""
        self.cluster.lose_at = self.cluster.writes + at


@given(hierarchies(), st.lists(OPERATIONS, min_size=3, max_size=14))
@settings(max_examples=100, deadline=None)
def test_in_the_end_the_queues_are_what_they_should_be(first: list[Entry], operations: list[tuple[Any, ...]]) -> None:
    asyncio.run(Story().go([("hierarchy", first), ("make", "h1", 1), ("settle",), *operations]))


@given(hierarchies(), hierarchies(), st.data())
@settings(max_examples=40, deadline=None)
def test_a_crash_at_any_write_is_only_a_pause(first: list[Entry], second: list[Entry], data: st.DataObject) -> None:
    """Expand, close, edit, delete: the controller dies at every single write of it, one after another."""

    async def story() -> None:
        play = Story()
        deaths = data.draw(st.lists(st.integers(2, 20).map(lambda n: n / 2), max_size=6))
        for step in (
            lambda: play.hierarchy(first),
            lambda: play.command("root", "PauseQueue"),
            lambda: play.hierarchy(second),
            lambda: play.command("root", "OpenQueue"),
            lambda: play.delete("a"),
        ):
            if deaths:
                await play.die(deaths.pop())
            try:
                await step()
            except CrashError:
                play.restart()
            await play.settle()
        await play.end()

    asyncio.run(story())


def test_children_are_closed_before_their_parent() -> None:
    async def story() -> None:
        play = Story()
        await play.hierarchy([{"name": "a", "parameters": [{"name": "weight", "value": 1}], "hierarchy": [
            {"name": "b", "parameters": [{"name": "weight", "value": 1}]}]}])  # fmt: skip
        await play.settle()
        for action, state in (("CloseQueue", "Closed"), ("OpenQueue", "Open"), ("PauseQueue", "Paused")):
            del play.cluster.history[:]
            await play.command("a", action)
            await play.settle()
            changed = [key for kind, key, now in play.cluster.history if kind == QUEUES.name and now == state]
            assert list(dict.fromkeys(changed)) == ["b", "a"]
        await play.end()

    asyncio.run(story())


def test_children_go_before_their_parent() -> None:
    async def story() -> None:
        play = Story()
        for name, parent in (("h1", "root"), ("h2", "h1"), ("h3", "h2")):
            await play.make(name, parent)
        await play.settle()
        await play.work("h3")
        await play.delete("h1")
        gone = [key.split("-")[0] for _, key, now in play.cluster.history if now == "gone"]
        assert gone == ["ns/on", "h3", "h2", "h1"]
        assert EVENTS.name not in {kind for kind, _ in play.cluster.objects}
        await play.end()

    asyncio.run(story())
