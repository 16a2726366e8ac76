"""The latest binds and evictions, numbered as they arrive."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice

from msgspec import Struct

from pumice.ui.job_documents import InvalidQueryError, page_limit
from pumice.ui.picture import ClusterPicture
from pumice.ui.values import Document, time_text
from pumice.ui.viewer import ViewerScope

KEPT = 5_000
SENT_AT_ONCE = 200
"""Decisions that one event of the stream contains; if more come at once, the page reads the document."""
_UID_SUFFIX = re.compile(r"-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$")  # of the PodGroup of a Job


class SidesSeen(Struct, frozen=True, gc=False):
    """The keys of preemptor and victim at their lowest common ancestor, before and after an eviction."""

    ancestor: str
    preemptor: str
    victim: str
    before: tuple[float, float]
    after: tuple[float, float]
    measure: str = "share"


class DecisionSeen(Struct, frozen=True, gc=False):
    """A bind or an eviction. Keys of jobs are those of PodGroups."""

    time: int
    cycle: int | None
    kind: str
    task: str
    node: str
    job: str
    action: str = ""
    preemptor: str = ""
    sides: SidesSeen | None = None


@dataclass(frozen=True, slots=True)
class DecisionQuery:
    """Which decisions to list."""

    after: int = 0
    before: int | None = None
    limit: int = 100
    kind: str = ""
    queue: str = ""
    job: str = ""


def parse_decision_query(query: Mapping[str, str]) -> DecisionQuery:
    """The query of a URL. Raises ``InvalidQueryError``."""
    kind = query.get("kind") or ""
    if kind not in ("", "bind", "evict"):
        raise InvalidQueryError(f"kind: Unsupported value: {kind!r}: supported values: bind, evict")
    return DecisionQuery(
        _number(query, "after") or 0,
        _number(query, "before"),
        page_limit(query.get("limit")),
        kind,
        query.get("queue") or "",
        query.get("job") or "",
    )


def _number(query: Mapping[str, str], name: str) -> int | None:
    text = query.get(name) or ""
    if not text:
        return None
    if not (text.isascii() and text.isdecimal() and len(text) < 16):
        raise InvalidQueryError(f"{name}: Invalid value: {text[:40]!r}: must be the id of a decision")
    return int(text)


class DecisionFeed:
    """Keeps the latest decisions. ``version`` is the number of the last one."""

    def __init__(self, picture: ClusterPicture, source: str) -> None:
        self.source = source
        self.version = 0
        self._picture = picture
        self._kept: deque[DecisionSeen] = deque(maxlen=KEPT)
        self._job_queues: dict[str, tuple[str, str]] = {}  # queue and user, also of jobs that are gone

    def note_job(self, key: str, queue: str, user: str) -> None:
        """Remember the queue and the user of a job, for decisions that name it later."""
        if len(self._job_queues) > 4 * KEPT:
            self._job_queues.clear()
        self._job_queues[key] = (queue, user)

    def add(self, decisions: Iterable[DecisionSeen]) -> None:
        """Append decisions, oldest first."""
        for decision in decisions:
            self._kept.append(decision)
            self.version += 1

    def since(self, version: int) -> list[Document] | None:
        """The decisions after a version, newest first; None if there are too many to send."""
        fresh = self.version - version
        if fresh > min(SENT_AT_ONCE, len(self._kept)):
            return None
        return [self._row(number, decision) for number, decision in islice(self._newest_first(), fresh)]

    def document(self, query: DecisionQuery, scope: ViewerScope) -> Document:
        """The decisions that a query selects, newest first."""
        found: list[Document] = []
        for number, decision in self._newest_first():
            if number <= query.after or len(found) == query.limit:
                break
            if query.before is not None and number >= query.before:
                continue
            if query.kind and decision.kind != query.kind:
                continue
            row = self._row(number, decision)
            if query.job and query.job not in (row["job"], decision.job, row.get("preemptor"), decision.preemptor):
                continue
            if query.queue and query.queue not in (row["queue"], row["queuePath"], row.get("preemptorQueue")):
                continue
            if (shown := restricted_decision(row, scope)) is not None:
                found.append(shown)
        return {"source": self.source, "decisions": found}

    def _newest_first(self) -> Iterator[tuple[int, DecisionSeen]]:
        return zip(range(self.version, 0, -1), reversed(self._kept), strict=False)

    def _row(self, number: int, decision: DecisionSeen) -> Document:
        queue, user = self._about(decision.job)
        row: Document = {
            "id": number,
            "time": time_text(decision.time),
            "cycle": decision.cycle,
            "kind": decision.kind,
            "task": decision.task,
            "node": decision.node,
            "job": self._name(decision.job) if decision.job else None,
            "queue": queue,
            "queuePath": self._path(queue),
            "user": user,
        }
        if decision.kind == "evict":
            taker = self._about(decision.preemptor)[0] if decision.preemptor else None
            row |= {
                "action": decision.action,
                "preemptor": self._name(decision.preemptor) if decision.preemptor else None,
                "preemptorQueue": taker,
                "preemptorQueuePath": self._path(taker),
                "sides": _sides(decision.sides),
            }
        return row

    def _about(self, job: str) -> tuple[str | None, str | None]:
        group = self._picture.groups.get(job)
        if group is not None:
            return group.queue, group.user or None
        queue, user = self._job_queues.get(job, ("", ""))
        return queue or None, user or None

    def _name(self, job: str) -> str:
        return self._picture.job_name(job) if job in self._picture.groups else _UID_SUFFIX.sub("", job)

    def _path(self, queue: str | None) -> str | None:
        return self._picture.queue_paths.get(queue) if queue is not None else None


def restricted_decision(row: Document, scope: ViewerScope) -> Document | None:
    """A decision as a viewer may see it; None if its job is in a namespace that the viewer may not read."""
    if scope.namespaces is None:
        return row
    if not scope.reads_key(row["task"]):
        return None
    if row.get("preemptor") and not scope.reads_key(row["preemptor"]):
        return {**row, "preemptor": None, "preemptorQueue": None, "preemptorQueuePath": None}
    return row


def _sides(sides: SidesSeen | None) -> Document | None:
    if sides is None:
        return None
    return {
        "ancestor": sides.ancestor,
        "preemptor": sides.preemptor,
        "victim": sides.victim,
        "measure": sides.measure,
        "before": list(sides.before),
        "after": list(sides.after),
    }
