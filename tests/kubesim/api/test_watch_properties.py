"""A client that lists and watches, is cut off, delayed and restarted at random, and must still be right.

The model is the list of all states the store went through, by revision. Whatever happens to the client's connection:
every event it sees takes it to a later revision, what it believes of an object is what the model has at that
revision, no deletion passes it by, and in the end it knows exactly what there is.
"""

from __future__ import annotations

import asyncio
import json
from typing import Any
from unittest import mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubesim.api.client import InProcessClient
from kubesim.api.requests import ObjectSelection, ReadOptions, Target, parse_selection
from kubesim.api.status import ApiError
from kubesim.api.watch import Watch
from kubesim.http import content_negotiation
from kubesim.registry.registry import Object
from kubesim.storage import store
from tests.support.apiserver import memory_api

NAMES = ("a", "b", "c")
COLOURS = ("red", "blue")

steps = st.lists(
    st.one_of(
        st.tuples(st.just("write"), st.sampled_from(NAMES), st.sampled_from(COLOURS)),
        st.tuples(st.just("delete"), st.sampled_from(NAMES)),
        st.tuples(st.just("elsewhere")),  # a write to another resource: revisions pass that concern nobody here
        st.tuples(st.just("compact")),
        st.tuples(st.just("read"), st.integers(1, 3)),  # chunks that the client takes
        st.tuples(st.just("cut"), st.integers(0, 400)),  # the next chunk breaks off after so many bytes
        st.tuples(st.just("restart")),  # the client forgets everything
    ),
    max_size=60,
)


class Client:
    """Keeps a copy of the config maps that are chosen, by list and watch, and checks itself against the model."""

    def __init__(
        self, api: InProcessClient, chosen: ObjectSelection, model: list[tuple[int, dict[str, Object]]]
    ) -> None:
        self._api = api
        self._aim = Target(api.registry.stored("configmaps"), "default")  # type: ignore[arg-type]  # it is there
        self._chosen = chosen
        self._model = model
        self.lost = 0
        self.restart()

    def restart(self) -> None:
        self.known: dict[str, Object] = {}
        self.revision = 0
        self._stream: Any = None

    def _list(self) -> None:
        listing = self._api.reads.list(self._aim, self._chosen, ReadOptions())
        assert listing.revision >= self.revision
        self.revision = listing.revision
        self.known = {r.key: json.loads(r.value) for r in listing.records}
        assert self.known == self._at(self.revision)

    def _at(self, revision: int) -> dict[str, Object]:
        """What a client should see as of a revision."""
        state: dict[str, Object] = {}
        for at, found in self._model:
            if at > revision:
                break
            state = found
        return {k: v for k, v in state.items() if self._chosen.matches(self._aim.resource, v)}

    async def read(self, cut: int | None = None) -> bool:
        """Take one chunk, or what of it arrives before the connection breaks. False: nothing is there to take."""
        if not self.revision:
            self._list()
        if self._stream is None:
            watch = Watch(self._api.store, self._aim, self._chosen, content_negotiation.PLAIN, bookmarks=True)
            # A deadline in the past: the stream gives what there is and ends instead of waiting.
            watch.start(ReadOptions(self.revision))
            self._stream = watch.events(-1.0, lambda: 0.0)
        chunk = await anext(self._stream, None)
        if chunk is None:
            self._stream = None
            return False
        whole = chunk if cut is None else chunk[:cut]
        if cut is not None:
            self._stream = None
        for line in whole.splitlines(keepends=True):
            if line.endswith(b"\n"):
                self._take(json.loads(line))
        return True

    def _take(self, event: Object) -> None:
        found = event["object"]
        if event["type"] == "ERROR":
            assert found["code"] == 410 and found["reason"] == "Expired"
            self.lost += 1
            self._stream, self.revision = None, 0  # all over again
            self._list()
            return
        at = int(found["metadata"]["resourceVersion"])
        assert at > self.revision, "time went backwards"
        self.revision = at
        key = f"configmaps/default/{found['metadata']['name']}"
        match event["type"]:
            case "ADDED":
                assert key not in self.known
                self.known[key] = found
            case "MODIFIED":
                assert key in self.known
                self.known[key] = found
            case "DELETED":
                assert self.known.pop(key)
            case "BOOKMARK":
                pass
        assert self.known == self._at(at), "not what was there at that revision"


async def live(script: list[Any], selector: str) -> int:
    """Live through a script; gives how often the client had to begin anew."""
    # The store remembers its latest changes whatever is compacted: few here, so that history can be lost.
    with mock.patch.object(store, "RECENT_CHANGES", 3):
        return await _live(script, selector)


async def _live(script: list[Any], selector: str) -> int:
    async with memory_api() as api:
        model: list[tuple[int, dict[str, Object]]] = [(0, {})]
        resource = api.registry.stored("configmaps")
        assert resource is not None
        client = Client(api, parse_selection(resource, {"labelSelector": selector}), model)

        def note(key: str, found: Object | None) -> None:
            state = dict(model[-1][1])
            if found is None:
                state.pop(key)
            else:
                state[key] = found
            model.append((api.store.revision, state))

        for count, step in enumerate(script):
            match step:
                case ("write", name, colour):
                    key = f"configmaps/default/{name}"
                    new = {"metadata": {"name": name, "labels": {"colour": colour}}, "data": {"n": str(count)}}
                    if key in model[-1][1]:
                        found = await api.modify(
                            "configmaps", "default", name, lambda old, new=new: _take_over(old, new)
                        )
                    else:
                        found = await api.create("configmaps", "default", new)
                    note(key, found)
                case ("delete", name):
                    if f"configmaps/default/{name}" in model[-1][1]:
                        await api.delete("configmaps", "default", name)
                        note(f"configmaps/default/{name}", None)
                case ("elsewhere",):
                    await api.create(
                        "events",
                        "default",
                        {"metadata": {"generateName": "e"}, "involvedObject": {"namespace": "default"}},
                    )
                case ("compact",):
                    await api.store.compact(api.store.revision)
                case ("read", chunks):
                    for _ in range(chunks):
                        await client.read()
                case ("cut", size):
                    await client.read(size)
                case ("restart",):
                    client.restart()
        for _ in range(3):  # until it has caught up: after the end of a stream it begins the next one
            while await client.read():
                pass
        assert client.known == client._at(api.store.revision)
        return client.lost


def _take_over(old: Object, new: Object) -> None:
    old["metadata"]["labels"] = new["metadata"]["labels"]
    old["data"] = new["data"]


@given(steps)
def test_watch_resumes_without_missing_events(script: list[Any]) -> None:
    asyncio.run(live(script, ""))


@given(steps)
def test_watch_with_selector_resumes_without_missing_events(script: list[Any]) -> None:
    asyncio.run(live(script, "colour=red"))


def test_watch_of_compacted_revision_needs_a_relist() -> None:
    away = [("write", "a", "red"), ("write", "b", "red"), ("read", 1)]
    away += [("write", name, colour) for colour in COLOURS for name in NAMES] + [("delete", "a"), ("compact",)]
    assert asyncio.run(live(away, "")) == 1
    assert asyncio.run(live(away, "colour=red")) == 1


def test_list_of_future_revision_is_refused() -> None:
    async def ask() -> None:
        async with memory_api() as api:
            aim = Target(api.registry.stored("configmaps"), "default")  # type: ignore[arg-type]  # it is there
            watch = Watch(api.store, aim, ObjectSelection(), content_negotiation.PLAIN, bookmarks=False)
            watch.start(ReadOptions(10**9, send_initial_events=True))

    with pytest.raises(ApiError) as refused:
        asyncio.run(ask())
    assert refused.value.code == 504
