"""The answers of ``pumice why`` for all viewers.

An answer needs a snapshot of the whole cluster and an engine over it, which cost seconds on a large one, while each
further job costs a fraction. So one command runs at a time, and the next one answers about all jobs that viewers have
asked for meanwhile. Answers are shared for a few times as long as they took: the command never takes more than a part
of a core.
"""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import msgspec

from kubebase.resource_vector import Registry, ResourceError
from pumice.ui.child_process import Answer, command_output
from pumice.ui.http_errors import NotFoundError, UnavailableError
from pumice.ui.values import Amounts, Document

AMOUNT_FIELDS = frozenset({"used", "entitled", "whole", "limit", "holds", "unit", "asks", "amounts"})
LEAST_FRESH_SECONDS = 3.0
FRESH_FACTOR = 4
"""An answer that took a second is shared for this many seconds."""
MOST_WAITING = 64
"""Jobs that wait for the next command; more are refused."""
KEPT_ANSWERS = 256
EXPLAINED, NOT_FOUND = 0, 1


class WaitReports:
    """Asks ``pumice why``; ``cluster`` are the options that select the cluster."""

    def __init__(
        self, cluster: Sequence[str], run: Callable[[Sequence[str]], Awaitable[Answer]] = command_output
    ) -> None:
        self._cluster = tuple(cluster)
        self._run = run
        self._next: dict[str, asyncio.Future[Document | None]] = {}
        self._asked: dict[str, asyncio.Future[Document | None]] = {}
        self._answering: asyncio.Task[None] | None = None
        self._kept: OrderedDict[str, tuple[float, Document | None]] = OrderedDict()

    async def of(self, key: str, registry: Registry) -> Document:
        """The report about the PodGroup with this key. Raises ``NotFoundError`` and ``UnavailableError``."""
        report = await self._report(key)
        if report is None:
            namespace, _, name = key.partition("/")
            raise NotFoundError(f'Job "{name}" not found in namespace {namespace}')
        numbered: Document = _with_numbers(report, registry)
        return numbered

    async def _report(self, key: str) -> Document | None:
        until, known = self._kept.get(key, (0.0, None))
        if time.monotonic() < until:
            return known
        future = self._asked.get(key) or self._next.get(key)
        if future is None:
            if len(self._next) >= MOST_WAITING:
                raise UnavailableError("too many requests of this kind are waiting; try again later", reason="Busy")
            future = self._next[key] = asyncio.get_running_loop().create_future()
        if self._answering is None or self._answering.done():
            self._answering = asyncio.create_task(self._answer_all())
        return await asyncio.shield(future)  # other viewers may wait for it too

    async def _answer_all(self) -> None:
        while self._next:
            self._asked, self._next = self._next, {}
            began = time.monotonic()
            try:
                reports = await self._ask(list(self._asked))
            except UnavailableError as error:
                for future in self._asked.values():
                    future.set_exception(error)
                    future.exception()  # a viewer who has left does not look at it
                continue
            finally:
                asked, self._asked = self._asked, {}
            took = time.monotonic() - began
            for (key, future), report in zip(asked.items(), reports, strict=True):
                future.set_result(report)
                self._keep(key, report, max(LEAST_FRESH_SECONDS, FRESH_FACTOR * took))

    def _keep(self, key: str, report: Document | None, seconds: float) -> None:
        self._kept[key] = (time.monotonic() + seconds, report)
        self._kept.move_to_end(key)
        while len(self._kept) > KEPT_ANSWERS:
            self._kept.popitem(last=False)

    async def _ask(self, keys: Sequence[str]) -> list[Document | None]:
        names = ["/podgroup/".join(key.split("/", 1)) for key in keys]
        status, output, errors = await self._run(["why", *names, "-o", "json", *self._cluster])
        try:
            if status in (EXPLAINED, NOT_FOUND):
                return _reports(output, len(keys))
        except msgspec.MsgspecError:
            pass
        raise UnavailableError(f"pumice why failed: {errors.splitlines()[-1] if errors else f'status {status}'}")


def _reports(output: bytes, number: int) -> list[Document | None]:
    """The reports that the command printed: a list, of one job the report itself or nothing."""
    if number == 1:
        return [msgspec.json.decode(output, type=dict[str, Any])] if output.strip() else [None]
    found = msgspec.json.decode(output, type=list[dict[str, Any] | None])
    if len(found) != number:
        raise msgspec.ValidationError(f"{len(found)} reports about {number} jobs")
    return found


def _with_numbers(value: Any, registry: Registry) -> Any:
    """The report with its amounts as integers in base units."""
    if isinstance(value, list):
        return [_with_numbers(each, registry) for each in value]
    if not isinstance(value, dict):
        return value
    return {
        name: _numbers(each, registry)
        if name in AMOUNT_FIELDS and isinstance(each, dict)
        else _with_numbers(each, registry)
        for name, each in value.items()
    }


def _numbers(quantities: dict[str, Any], registry: Registry) -> Amounts:
    try:
        return {name: registry.amount(name, quantity) for name, quantity in quantities.items() if name != "pods"}
    except ResourceError:
        return {}
