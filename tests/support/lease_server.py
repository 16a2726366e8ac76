"""A server with one Lease, without a wire: its calls take no time, or any time, as a test wants it."""

from __future__ import annotations

import copy
import random
from collections.abc import Awaitable, Callable, Coroutine, Generator
from typing import Any, TypeVar

from pumice.kube.client.api_errors import ApiError, UnreachableError
from pumice.kube.leader_election import Lease, Timing

T = TypeVar("T")


class Pause:
    """A place where anything may happen before things go on."""

    def __await__(self) -> Generator[None, None, None]:
        yield


class Server:
    """One Lease, with optimistic concurrency; every call takes as long as it likes, before and after."""

    def __init__(self, chance: random.Random) -> None:
        self.lease: dict[str, Any] | None = None
        self.revision = 0
        self.late: list[Callable[[], Any]] = []  # calls whose authors have given up, and that arrive all the same
        self._chance = chance

    async def _answer(self, act: Callable[[], Any]) -> Any:
        try:
            await Pause()
        except GeneratorExit:
            self.late.append(act)
            raise
        if self._chance.random() < 0.1:
            raise UnreachableError("it never came")
        found = act()
        await Pause()
        if self._chance.random() < 0.1:
            raise UnreachableError("the answer never came")
        return found

    async def get(self, *_: Any) -> Any:
        def act() -> Any:
            if self.lease is None:
                raise ApiError(404, "NotFound", "")
            return copy.deepcopy(self.lease)

        return await self._answer(act)

    async def create(self, resource: Any, new: Any, *_: Any) -> Any:
        def act() -> Any:
            if self.lease is not None:
                raise ApiError(409, "AlreadyExists", "")
            return self._store(new)

        return await self._answer(act)

    async def update(self, resource: Any, new: Any) -> Any:
        def act() -> Any:
            if self.lease is None:
                raise ApiError(404, "NotFound", "")
            if new["metadata"]["resourceVersion"] != self.lease["metadata"]["resourceVersion"]:
                raise ApiError(409, "Conflict", "")
            return self._store(new)

        return await self._answer(act)

    def _store(self, new: Any) -> Any:
        self.revision += 1
        self.lease = copy.deepcopy(new)
        assert self.lease is not None
        self.lease["metadata"]["resourceVersion"] = str(self.revision)
        return copy.deepcopy(self.lease)

    # ---- what people do to it -----------------------------------------------------------------------------

    def touch(self) -> None:
        """An annotation, say."""
        if self.lease:
            self._store(self.lease)

    def shorten(self) -> None:
        if self.lease:
            self._store({**self.lease, "spec": {**self.lease["spec"], "leaseDurationSeconds": 1}})

    def empty(self) -> None:
        if self.lease:
            self._store({**self.lease, "spec": {**self.lease["spec"], "holderIdentity": ""}})

    def delete(self) -> None:
        self.lease = None


class Stepped(Lease):
    """One whose calls may take any time; how long that is the test says."""

    async def _answer(self, call: Awaitable[Any]) -> Any:
        return await call


class Still(Server):
    """One that answers at once, unless told otherwise, and remembers what was asked."""

    def __init__(self) -> None:
        super().__init__(random.Random(0))
        self.clock = 0.0
        self.slow = 0.0  # seconds that a call takes
        self.asked: list[str] = []
        self.refuses: dict[str, Exception] = {}

    async def _answer(self, act: Callable[[], Any]) -> Any:
        verb = act.__qualname__.split(".")[1]
        self.asked.append(verb)
        self.clock += self.slow
        if verb in self.refuses:
            raise self.refuses[verb]
        return act()

    def replica(self, identity: str, timing: Timing | None = None) -> Stepped:
        api: Any = self
        return Stepped(api, "l", "n", identity=identity, now=lambda: self.clock, timing=timing)


def done(work: Coroutine[Any, Any, T]) -> T:
    """What something gives that never waits."""
    try:
        work.send(None)
    except StopIteration as ended:
        return ended.value
    raise AssertionError("it waits")
