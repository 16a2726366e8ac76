"""The store against a model that is a list of everything that ever happened.

Between the steps the event loop stands still: a write stays under way, as far as the store can know, until a step
lets the loop run. So the model knows exactly what readers may see at each step.
"""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from pathlib import Path
from typing import NamedTuple
from unittest.mock import patch

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from kubesim.storage import Compacted, Record, RevisionConflict, StorageFailed, Store
from kubesim.storage.fsck import check_directory
from tests.kubesim.storage.store_helpers import Failing, encoder

KEYS = st.sampled_from(["nodes/a", "nodes/b", "pods/x/a", "pods/x/b", "pods/xy/a", "pods/y/a", "pods.x/x/a"])
PREFIXES = st.sampled_from(["", "nodes/", "pods/", "pods/x/", "pods/y/", "pods.x/", "none/"])


class Event(NamedTuple):
    """One write, as it was asked for."""

    revision: int
    key: str
    value: bytes
    before: int
    deleted: bool


class StoreMachine(RuleBasedStateMachine):
    """Everything that can be done with a store, in any order."""

    on_disk = True

    def __init__(self) -> None:
        super().__init__()
        # So small that every path is taken: changes from memory and from the log, compactions in several steps.
        small = {"RECENT_CHANGES": 4, "LOOKED_AT": 3, "CACHED_BYTES": 600}
        self.patches = patch.multiple("kubesim.storage.store", **small)
        self.patches.start()
        self.directory = Path(tempfile.mkdtemp(prefix="kubesim-test-"))
        self.runner = asyncio.Runner()
        self.events: list[Event] = []  # on disk
        self.pending: list[tuple[Event, asyncio.Future[Record]]] = []
        self.assigned = 0
        self.compacted = 0

    @initialize()
    def open(self) -> None:
        self.log = Failing(self.directory / "kubesim.db" if self.on_disk else None)

        async def start() -> Store:
            return Store(self.log)

        self.store = self.runner.run(start())

    def teardown(self) -> None:
        if hasattr(self, "store"):
            self.settle()
            self.runner.run(self.store.close())
            if self.on_disk:
                assert check_directory(self.directory) == []
        self.runner.close()
        self.patches.stop()
        shutil.rmtree(self.directory)

    # ---- the model ----------------------------------------------------------------------------------

    def state(self, events: list[Event], at: int | None = None) -> dict[str, Event]:
        found: dict[str, Event] = {}
        for event in events:
            if at is None or event.revision <= at:
                found.pop(event.key, None)
                if not event.deleted:
                    found[event.key] = event
        return found

    @property
    def latest(self) -> dict[str, Event]:
        return self.state(self.events + [event for event, _ in self.pending])

    @property
    def revision(self) -> int:
        return max([self.compacted, *(event.revision for event in self.events)])

    # ---- steps --------------------------------------------------------------------------------------

    @rule(key=KEYS, mark=st.integers(0, 9), deleted=st.booleans())
    def write(self, key: str, mark: int, deleted: bool) -> None:
        expected = self.latest[key].revision if key in self.latest else 0
        deleted = deleted and expected > 0
        encode = encoder(key, mark)
        future = (self.store.delete if deleted else self.store.put)(key, encode, expected=expected)
        self.assigned += 1
        event = Event(self.assigned, key, encode(self.assigned), expected, deleted)
        self.pending.append((event, future))

    @rule(key=KEYS, off=st.integers(-3, 3).filter(bool), deleted=st.booleans())
    def write_stale(self, key: str, off: int, deleted: bool) -> None:
        found = self.latest[key].revision if key in self.latest else 0
        with pytest.raises(RevisionConflict) as refused:
            (self.store.delete if deleted else self.store.put)(key, encoder(key), expected=found + off)
        assert refused.value.found == found

    @rule()
    def settle(self) -> None:
        async def answers() -> list[Record]:
            return [await future for _, future in self.pending]

        answered = self.runner.run(answers())
        assert answered == [Record(event.key, event.revision, event.value) for event, _ in self.pending]
        self.events += [event for event, _ in self.pending]
        self.pending = []

    @rule(keys=st.lists(KEYS, min_size=1, max_size=4))
    def fail(self, keys: list[str]) -> None:
        self.settle()
        self.log.full = True
        for key in keys:
            self.write(key, 0, deleted=len(keys) % 2 == 0)

        async def refusals() -> list[Record | BaseException]:
            return await asyncio.gather(*(future for _, future in self.pending), return_exceptions=True)

        assert all(isinstance(answer, StorageFailed) for answer in self.runner.run(refusals()))
        self.pending = []
        self.log.full = False

    @rule(share=st.floats(0, 1))
    def compact(self, share: float) -> None:
        revision = int(self.revision * share)
        self.runner.run(self.store.compact(revision))
        self.settle()
        self.compacted = max(self.compacted, revision)

    @rule()
    def reopen(self) -> None:
        if self.on_disk:
            self.settle()
            self.runner.run(self.store.close())
            self.assigned = self.revision
            self.open()

    # ---- what must hold -----------------------------------------------------------------------------

    @invariant()
    def readers_see_what_is_on_disk(self) -> None:
        if not hasattr(self, "store"):
            return
        assert (self.store.revision, self.store.compacted) == (self.revision, self.compacted)
        state, latest = self.state(self.events), self.latest
        for key in {*state, *latest, "nodes/a", "pods/x/none"}:
            assert self.store.get(key) == self.record(state.get(key))
            assert self.store.latest(key) == self.record(latest.get(key))

    @staticmethod
    def record(event: Event | None) -> Record | None:
        return Record(event.key, event.revision, event.value) if event else None

    @rule(prefix=PREFIXES, share=st.floats(0, 1), limit=st.integers(0, 3))
    def list(self, prefix: str, share: float, limit: int) -> None:
        at = int(self.revision * share)
        if at < self.compacted:
            with pytest.raises(Compacted):
                self.store.list(prefix, at=at)
            return
        state = self.state(self.events, at)
        wanted = [self.record(state[key]) for key in sorted(state) if key.startswith(prefix)]
        found: list[Record | None] = []
        after = ""
        while True:
            page = self.store.list(prefix, at=at, after=after, limit=limit)
            found += page.records
            assert page.revision == at and page.remaining == len(wanted) - len(found)
            after = page.last_key
            if not page.remaining:
                break
        assert found == wanted
        assert self.store.count(prefix) == len(self.store.list(prefix).records)

    @rule(prefix=PREFIXES, share=st.floats(0, 1), limit=st.integers(1, 5))
    def changes(self, prefix: str, share: float, limit: int) -> None:
        after = int(self.revision * share)
        wanted = [event for event in self.events if event.revision > after and event.key.startswith(prefix)]
        found = []
        cursor = after
        while cursor < self.revision:
            try:
                changes, complete = self.store.changes(prefix, cursor, limit)
            except Compacted:
                assert cursor < self.compacted
                return
            assert len(changes) <= limit and cursor < complete <= self.revision
            assert all(cursor < change.revision <= complete for change in changes)
            found += changes
            cursor = complete
        assert [Event(c.revision, c.key, c.value, c.before, c.deleted) for c in found] == wanted
        by_revision = {event.revision: event.value for event in self.events}
        for change in found:
            if change.revision > self.compacted:
                assert change.previous == by_revision.get(change.before)


class MemoryMachine(StoreMachine):
    """The same without a file."""

    on_disk = False


class TestStoreOnDisk(StoreMachine.TestCase):
    settings = settings(stateful_step_count=40)


class TestStoreInMemory(MemoryMachine.TestCase):
    settings = settings(stateful_step_count=40)


@pytest.mark.long
class TestStoreOnDiskForLong(StoreMachine.TestCase):
    settings = settings(max_examples=500, stateful_step_count=100)
