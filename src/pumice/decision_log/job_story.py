"""The life of one job by a decision log: when it came, was let in, waited and why, started, was evicted, and ended.

Nothing is decided again. Lines that do not name the job are not decoded, except cycles: while the job waits, they tell
which jobs started tasks instead.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from pumice.decision_log.log_files import log_files
from pumice.decision_log.replay import LogError

_CYCLE, _GONE, _HAPPENED = b'{"is":"cycle"', b'{"is":"gone"', b'{"is":"happened"'
_HEADING = b'{"is":"log"'
_ABOUT_TASK = (b'{"is":"changed","kind":"task"', b'{"is":"task"')
_ABOUT_JOB = (b'{"is":"changed","kind":"job"', b'{"is":"job"')
_SUFFIX = "\x00"
"""Before the part of a text that several tasks have in common."""
_PENDING, _BINDING, _RUNNING, _RELEASING, _SUCCEEDED, _FAILED = 0, 2, 4, 5, 6, 7


@dataclass(frozen=True, slots=True)
class Chapter:
    """Something that happened to the job."""

    now: int
    cycle: int
    what: str
    """came, moved, is there, let in, waits, passed over, evicts, gets a place (when its victims have left), starts,
    runs, is evicted, is deleted, ended, failed, is gone"""
    text: str


class _Decision(Struct):
    does: str
    job: str = ""
    task: str = ""
    node: str = ""
    preemptor: str = ""
    action: str = ""
    type: str = ""
    message: str = ""


class _Cycle(Struct):
    cycle: int
    now: int
    decisions: list[_Decision]


class _Object(Struct):
    namespace: str = ""
    name: str = ""
    job: str = ""
    queue: str = ""
    status: int = 0
    min_member: int = 1
    phase: str = "Pending"


class _ObjectLine(Struct):
    object: _Object | None = None
    status: int | None = None
    key: str = ""
    phase: str | None = None


class _HeadingLine(Struct):
    cycles: int = 0


class _KeyLine(Struct):
    kind: str = ""
    key: str = ""
    event: str = ""
    about: dict[str, Any] = {}


_cycles = msgspec.json.Decoder(_Cycle)
_objects = msgspec.json.Decoder(_ObjectLine)
_keys = msgspec.json.Decoder(_KeyLine)
_headings = msgspec.json.Decoder(_HeadingLine)


@dataclass(slots=True)
class JobStory:
    """Tells the life of the jobs that ``is_meant`` names, of which there is usually one."""

    name: str
    is_meant: Callable[[str], bool]
    _status: dict[str, int] = field(default_factory=dict)  # of its tasks
    _key: str = ""
    _queue: str = ""
    _queues: dict[str, str] = field(default_factory=dict)  # of all jobs
    _others: Counter[str] = field(default_factory=Counter)  # tasks that others started while it waited
    _told: list[tuple[str, str]] = field(default_factory=list)  # of events since the last cycle
    _ended: bool = False
    _unseen: set[str] | None = None  # tasks that a scheduler that was started anew has not found yet

    def chapters(
        self, log: Path, until: int | None = None, progress: Callable[[int], None] = lambda size: None
    ) -> Iterator[Chapter]:
        """The chapters in order, up to a time; raises LogError."""
        files = log_files(log) if log.is_dir() else [log]
        mark = self.name.rpartition("/")[2].encode()
        number = now = 0
        for path in files:
            try:
                with path.open("rb") as file:
                    for line, text in enumerate(file, 1):
                        progress(len(text))
                        if not text.endswith(b"\n"):
                            break
                        try:
                            cycle = self._read(text, mark)
                        except msgspec.MsgspecError as error:
                            raise LogError(f"{path}:{line}: not a record of a decision log: {error}") from None
                        if cycle is None:
                            continue
                        if until is not None and cycle.now > until:
                            return
                        number, now = cycle.cycle, cycle.now
                        yield from self._cycle(cycle)
            except OSError as error:
                raise LogError(f"{path}: {error.strerror}") from None
        for what, told in self._told:
            yield Chapter(now, number, what, told)

    def _read(self, text: bytes, mark: bytes) -> _Cycle | None:
        if text.startswith(_CYCLE):
            return _cycles.decode(text)
        if text.startswith(_ABOUT_JOB):
            self._job(_objects.decode(text), standing=text.startswith(_ABOUT_JOB[1]))
        elif text.startswith(_ABOUT_TASK) and mark in text:
            self._task(_objects.decode(text), standing=text.startswith(_ABOUT_TASK[1]))
        elif text.startswith(_HEADING):
            if not _headings.decode(text).cycles:
                self._unseen = set(self._status)
        elif text.startswith(_GONE):
            self._gone(_keys.decode(text))
        elif text.startswith(_HAPPENED):
            self._failed(_keys.decode(text))
        return None

    # ---- events ----------------------------------------------------------------------------------------------------

    def _job(self, line: _ObjectLine, *, standing: bool) -> None:
        spec = line.object
        if spec is None:
            return
        key = f"{spec.namespace}/{spec.name}"
        self._queues[key] = spec.queue
        if not self.is_meant(key) or (self._key == key and self._queue == spec.queue):
            return
        moved, self._queue = self._queue if self._key == key else "", spec.queue
        self._key, self._ended = key, False
        needs = f", starts {spec.min_member} tasks together" if spec.min_member > 1 else ""
        if moved:
            self._told.append(("moved", f"from queue {moved} to queue {spec.queue}"))
        elif standing:
            self._told.append(("is there", f"in queue {spec.queue}{needs}, when the log begins"))
        else:
            self._told.append(("came", f"to queue {spec.queue}{needs}"))

    def _task(self, line: _ObjectLine, *, standing: bool) -> None:
        spec = line.object
        if spec is None or not spec.job or not self.is_meant(spec.job):
            return
        key, status = f"{spec.namespace}/{spec.name}", line.status if line.status is not None else spec.status
        before = self._status.get(key)
        self._status[key] = status
        if self._unseen is not None:
            self._unseen.discard(key)
        if standing:
            return
        if status == _RUNNING and before not in (_RUNNING, _RELEASING):
            self._told.append(("runs", key))
        elif status in (_SUCCEEDED, _FAILED) and before != status:
            self._told.append(("ended" if status == _SUCCEEDED else "failed", key))

    def _gone(self, line: _KeyLine) -> None:
        if line.kind == "task" and line.key in self._status:
            before = self._status.pop(line.key)
            if before not in (_SUCCEEDED, _FAILED):
                self._told.append(("is deleted", line.key))
        elif line.kind == "job" and line.key == self._key and not self._ended:
            self._ended, self._key = True, ""
            self._told.append(("is gone", "the job was deleted"))

    def _failed(self, line: _KeyLine) -> None:
        task = str(line.about.get("task", ""))
        if task in self._status:
            what = "bind" if line.event == "bindfailed" else "eviction"
            self._told.append(("failed", f"the {what} of {task} was refused by the cluster"))

    # ---- cycles ----------------------------------------------------------------------------------------------------

    def _missed(self) -> None:
        """A scheduler that was started anew has learned the cluster: what it has not found went before."""
        for key in sorted(self._unseen or ()):
            if self._status.pop(key) not in (_SUCCEEDED, _FAILED):
                self._told.append(("is deleted", f"{key}{_SUFFIX} while no scheduler ran"))
        self._unseen = None

    def _cycle(self, cycle: _Cycle) -> Iterator[Chapter]:
        self._missed()
        told, self._told = self._told, []
        for what, texts in _grouped(told):
            yield Chapter(cycle.now, cycle.cycle, what, texts)
        waited = bool(self._key) and (not self._status or _PENDING in self._status.values())
        own: list[tuple[str, str]] = []
        evicted_for: list[tuple[str, str]] = []
        for decision in cycle.decisions:
            if decision.job and self.is_meant(decision.job):
                own.extend(self._own(decision))
            elif decision.does == "evict" and decision.preemptor and self.is_meant(decision.preemptor):
                evicted_for.append(("evicts", f"{decision.task} on {decision.node}"))
            elif decision.does == "bind" and waited:
                self._others[decision.job] += 1
        started = any(what == "starts" for what, _ in own)
        waits = any(what == "waits" for what, _ in own)
        if (started or waits) and self._others:
            yield Chapter(cycle.now, cycle.cycle, "passed over", self._passed_over())
            self._others.clear()
        for what, texts in _grouped([*evicted_for, *own]):
            yield Chapter(cycle.now, cycle.cycle, what, texts)

    def _own(self, decision: _Decision) -> Iterator[tuple[str, str]]:
        match decision.does:
            case "enqueue":
                yield "let in", "its pods may be created"
            case "bind":
                self._status[decision.task] = _BINDING
                yield "starts", f"{decision.task} on {decision.node}"
            case "pipeline":
                yield "gets a place", f"{decision.task} on {decision.node}"
            case "evict":
                self._status[decision.task] = _RELEASING
                by = f" for {decision.preemptor}" if decision.preemptor else ""
                yield "is evicted", f"{decision.task} on {decision.node}{_SUFFIX}{by} ({decision.action})"
            case "condition" if decision.type != "Scheduled":
                yield "waits", decision.message

    def _passed_over(self) -> str:
        """Who started tasks while it waited, since the last time that this was told, by queue."""
        queues: Counter[str] = Counter()
        for job, count in self._others.items():
            queues[self._queues.get(job, "?")] += count
        total, jobs = self._others.total(), len(self._others)
        most = ", ".join(f"{job} {count}" for job, count in self._others.most_common(3))
        per_queue = ", ".join(f"{queue} {count}" for queue, count in queues.most_common(3))
        tasks = "task" if total == 1 else "tasks"
        text = f"{total} {tasks} of {jobs} other job{'' if jobs == 1 else 's'} started meanwhile: {most}"
        return f"{text}; by queue: {per_queue}"


def _grouped(told: list[tuple[str, str]]) -> Iterator[tuple[str, str]]:
    """Equal things that happened to several tasks at once are one chapter."""
    groups: dict[tuple[str, str], list[str]] = {}
    for what, text in told:
        about, _, suffix = text.partition(_SUFFIX)
        groups.setdefault((what, suffix), []).append(about)
    for (what, suffix), texts in groups.items():
        shown = ", ".join(texts[:3])
        yield what, (shown if len(texts) <= 3 else f"{shown} and {len(texts) - 3} more") + suffix
