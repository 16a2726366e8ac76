"""The documents of jobs: the filtered list, and one job with its tasks."""

from __future__ import annotations

import base64
import binascii
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import msgspec

from pumice.ui.picture import ClusterPicture
from pumice.ui.queue_tree import QueueForest, share
from pumice.ui.seen_objects import GroupSeen, PodSeen
from pumice.ui.values import Document, amounts, time_text

TASKS_LISTED = 500
EVENTS_LISTED = 100
PLACES_LISTED = 100
USERS_LISTED = 100
LARGEST_PAGE = 500
PAGE = 100
WAITING = "waiting"
"""The value of the filter ``phase`` for jobs that wait for something, whatever their phase."""


class InvalidQueryError(ValueError):
    """A query parameter has an invalid value; the message names both."""


@dataclass(frozen=True, slots=True)
class JobQuery:
    """Which jobs to list, in which order, and where to continue."""

    queue: str = ""
    user: str = ""
    namespace: str = ""
    phases: frozenset[str] = frozenset()
    text: str = ""
    sort: str = "age"
    limit: int = PAGE
    after: int = 0

    def admits(self, key: str, picture: ClusterPicture, below: frozenset[str] | None) -> bool:
        """Whether a job passes the filters; ``below`` are the queues that the filter by queue selects."""
        group = picture.groups[key]
        if below is not None and group.queue not in below:
            return False
        if self.namespace and group.namespace != self.namespace:
            return False
        if self.user and group.user != self.user:
            return False
        if self.phases and not (group.phase in self.phases or (WAITING in self.phases and waits(key, picture))):
            return False
        if not self.text:
            return True
        sought = self.text.casefold()
        return any(sought in part.casefold() for part in (group.name, group.namespace, group.user, group.queue))


def parse_query(query: Mapping[str, str], phases: Sequence[str]) -> JobQuery:
    """The query of a URL. Raises ``InvalidQueryError``."""
    sort = query.get("sort") or "age"
    if sort not in _ORDERS:
        raise InvalidQueryError(f"sort: Unsupported value: {sort!r}: supported values: {', '.join(_ORDERS)}")
    return JobQuery(
        query.get("queue") or "",
        query.get("user") or "",
        query.get("namespace") or "",
        frozenset(filter(None, phases)),
        query.get("text") or "",
        sort,
        page_limit(query.get("limit")),
        _offset(query.get("continue")),
    )


def page_limit(text: str | None) -> int:
    """The value of the parameter ``limit``. Raises ``InvalidQueryError``."""
    if not text:
        return PAGE
    if not (text.isascii() and text.isdecimal() and len(text) <= 3 and 1 <= int(text) <= LARGEST_PAGE):
        raise InvalidQueryError(f"limit: Invalid value: {text[:40]!r}: must be a number from 1 to {LARGEST_PAGE}")
    return int(text)


def _offset(token: str | None) -> int:
    if not token:
        return 0
    try:
        found = msgspec.json.decode(base64.urlsafe_b64decode(token), type=dict[str, int])["after"]
    except (binascii.Error, ValueError, KeyError, msgspec.MsgspecError):
        raise InvalidQueryError(
            f"continue: Invalid value: {token[:40]!r}: must be the token of the page before"
        ) from None
    return max(0, found)


def _token(offset: int) -> str:
    return base64.urlsafe_b64encode(msgspec.json.encode({"after": offset})).decode()


def waits(key: str, picture: ClusterPicture) -> bool:
    """Whether a job has pods without a node, or is to get pods yet."""
    return picture.groups[key].phase in ("Pending", "Inqueue") or bool(picture.sums_of(key).pending)


def jobs_by_need(keys: Iterable[str], picture: ClusterPicture) -> list[str]:
    """Jobs that wait first, then those that run, then the others; the newest first."""

    def order(key: str) -> tuple[int, int, str]:
        group = picture.groups[key]
        rank = 0 if waits(key, picture) else 2 if group.phase == "Completed" else 1
        return rank, -group.created, key

    return sorted(keys, key=order)


def _size(vector: Sequence[int], forest: QueueForest) -> float:
    return -(share(vector, forest.capacity) or 0.0)


_ORDERS: dict[str, Callable[[str, ClusterPicture, QueueForest], tuple[object, ...]]] = {
    "age": lambda key, picture, forest: (-picture.groups[key].created, key),
    "name": lambda key, picture, forest: (picture.groups[key].name, key),
    "used": lambda key, picture, forest: (_size(picture.sums_of(key).used, forest), key),
    "waiting": lambda key, picture, forest: (_size(picture.sums_of(key).waiting, forest), key),
}


def jobs_document(
    query: JobQuery, picture: ClusterPicture, forest: QueueForest, readable: Callable[[str], bool]
) -> Document:
    """The jobs that a query selects, of the namespaces that the viewer may read."""
    below = _queues_below(query.queue, forest) if query.queue else None
    total = [key for key, group in picture.groups.items() if readable(group.namespace)]
    matched = [key for key in total if query.admits(key, picture, below)]
    matched.sort(key=lambda key: _ORDERS[query.sort](key, picture, forest))
    page = matched[query.after : query.after + query.limit]
    end = query.after + len(page)
    users = sorted({picture.groups[key].user for key in matched} - {""})
    return {
        "total": len(total),
        "matched": len(matched),
        "continue": _token(end) if end < len(matched) else None,
        "jobs": [job_row(key, picture, forest) for key in page],
        "users": users[:USERS_LISTED],
        "phases": dict(Counter(picture.groups[key].phase for key in matched)),
    }


def _queues_below(name: str, forest: QueueForest) -> frozenset[str]:
    top = forest.find(name)
    if top is None:
        return frozenset({name})
    depth = len(top.path)
    return frozenset(each.name for each in forest.figures.values() if each.path[:depth] == top.path)


def job_row(key: str, picture: ClusterPicture, forest: QueueForest) -> Document:
    """A job as a row of a list."""
    group, sums = picture.groups[key], picture.sums_of(key)
    started = min((pod.started for pod in picture.pods_of(key) if pod.started), default=0) if sums.states else 0
    return {
        "key": picture.job_name(key),
        "namespace": group.namespace,
        "name": group.name,
        "group": group.group,
        "kind": group.kind,
        "queue": group.queue,
        "queuePath": forest.path_of.get(group.queue),
        "user": group.user or None,
        "phase": group.phase,
        "created": time_text(group.created),
        "started": time_text(started),
        "tasks": {
            "running": sums.states["running"] + sums.states["unknown"],
            "starting": sums.states["starting"],
            "waiting": sums.states["waiting"],
            "ending": sums.states["ending"],
            "succeeded": sums.states["succeeded"],
            "failed": sums.states["failed"],
            "minimum": group.minimum,
        },
        "used": amounts(sums.used, picture.names),
        "waiting": amounts(sums.waiting, picture.names),
        "share": share(sums.used, forest.capacity),
        "priorityClass": group.priority_class,
        "reason": _reason(group),
    }


def _reason(group: GroupSeen) -> Document | None:
    if group.waits is None:
        return None
    return {"reason": group.waits.reason, "message": group.waits.message, "since": time_text(group.waits.since)}


def job_document(key: str, picture: ClusterPicture, forest: QueueForest, path: list[Document]) -> Document:
    """A job with its tasks and their places; Events are added by the caller, who reads them from the API."""
    pods = picture.pods_of(key)
    places = Counter(pod.node for pod in pods if pod.node and pod.state not in ("succeeded", "failed"))
    return {
        "job": job_row(key, picture, forest),
        "tasks": [task_row(pod, picture.names) for pod in pods[:TASKS_LISTED]],
        "tasksTotal": len(pods),
        "places": [{"node": node, "tasks": number} for node, number in places.most_common(PLACES_LISTED)],
        "path": path,
    }


def task_row(pod: PodSeen, names: Sequence[str]) -> Document:
    """A task of a job."""
    return {
        "name": pod.name,
        "role": pod.role,
        "state": pod.state,
        "node": pod.node or None,
        "request": amounts(pod.request, names),
        "created": time_text(pod.created),
        "started": time_text(pod.started),
        "priority": pod.priority,
        "reason": pod.reason,
        "message": pod.message,
    }
