"""A collection followed through everything that may happen to a connection."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Any

import pytest

from pumice.kube.client.api_errors import ApiError, UnreachableError
from pumice.kube.client.sync_client import Listing
from pumice.kube.watch.sync_watch import PAUSE, Change, CollectionWatch

EXPIRED = ApiError(410, "Expired", "too old")
BUSY = ApiError(429, "TooManyRequests", "later", retry_after=3.0)
CUT = UnreachableError("cut")


def thing(name: str, version: int, uid: str = "") -> dict[str, Any]:
    return {"metadata": {"name": name, "resourceVersion": str(version), "uid": uid or name}}


class Script:
    """Answers lists and watches as they are written down; an error is raised."""

    def __init__(self, *steps: Any) -> None:
        self.steps = list(steps)
        self.asked: list[str] = []

    def list(self, path: str, query: object = None) -> Listing:
        self.asked.append("list")
        step = self.steps.pop(0)
        if isinstance(step, Exception):
            raise step
        revision, items = step
        return Listing(items, str(revision))

    def watch(self, path: str, revision: str, query: object = None) -> Iterator[tuple[str, Any]]:
        self.asked.append(f"watch {revision}")
        step = self.steps.pop(0)
        if isinstance(step, Exception):
            raise step
        for event in step:
            if isinstance(event, Exception):
                raise event
            yield event


def following(*steps: Any) -> tuple[CollectionWatch, Script, list[object]]:
    script, told = Script(*steps), []
    found = CollectionWatch(script, "/things", cut=told.append, sleep=told.append)  # type: ignore[arg-type]  # a stand-in
    return found, script, told


def taken(found: CollectionWatch, count: int) -> list[tuple[str, str]]:
    changes: list[Change] = list(islice(found.changes(), count))
    return [(change.kind, change.object["metadata"]["name"]) for change in changes]


def test_changes_as_they_come() -> None:
    a = thing("a", 1)
    events = [
        ("MODIFIED", thing("a", 2)),
        ("BOOKMARK", thing("", 7)),
        ("ADDED", thing("b", 8)),
        ("DELETED", thing("a", 9)),
    ]
    found, _, _ = following((1, [a]), events)
    assert taken(found, 3) == [("MODIFIED", "a"), ("ADDED", "b"), ("DELETED", "a")]
    assert list(found.objects) == ["/b"]


def test_after_a_cut_it_goes_on_where_it_was_and_says_so_once() -> None:
    first = [("ADDED", thing("a", 2)), ("BOOKMARK", thing("", 5)), CUT]
    second = [("ADDED", thing("b", 6)), CUT]
    third = [("ADDED", thing("c", 7))]
    found, script, told = following((1, []), first, CUT, BUSY, second, CUT, third)
    assert taken(found, 3) == [("ADDED", "a"), ("ADDED", "b"), ("ADDED", "c")]
    assert script.asked == ["list", "watch 1", "watch 5", "watch 5", "watch 5", "watch 6", "watch 6"]
    # Once for each time that the connection is lost; in between it waits, as long as it is asked to.
    assert told == ["cut", PAUSE, PAUSE, 3.0, "cut", PAUSE, PAUSE]


def test_expired_watch_lists_again_and_reports_differences() -> None:
    before = [thing("same", 1), thing("changed", 1), thing("gone", 1), thing("replaced", 1, "old")]
    after = [thing("same", 1), thing("changed", 4), thing("replaced", 5, "new"), thing("new", 6)]
    found, script, _ = following((3, before), EXPIRED, CUT, EXPIRED, (9, after), [("ADDED", thing("later", 10))])
    assert taken(found, 6) == [
        ("DELETED", "gone"),
        ("DELETED", "replaced"),
        ("MODIFIED", "changed"),
        ("ADDED", "replaced"),
        ("ADDED", "new"),
        ("ADDED", "later"),
    ]
    assert script.asked == ["list", "watch 3", "list", "watch 3", "list", "watch 9"]


def test_watch_that_ends_at_once_is_retried_after_pause() -> None:
    found, script, told = following((1, []), [], [], [("ADDED", thing("a", 2))])
    assert taken(found, 1) == [("ADDED", "a")]
    assert told == [PAUSE, PAUSE] and script.asked[1:] == ["watch 1"] * 3


def test_a_no_is_a_no() -> None:
    found, _, _ = following((1, []), ApiError(403, "Forbidden", "not you"))
    with pytest.raises(ApiError, match="not you"):
        taken(found, 1)
