"""Watches: the changes of a collection, as they are committed.

A watcher is a position in the log. It asks the store for later changes, writes them out, and waits. A slow reader
therefore costs no memory, and a watcher that was disconnected resumes at its position unless the log has been compacted
beyond it. Each event is encoded once and shared by all watchers that want the same format.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Sequence

import msgspec

from kubesim.api import status
from kubesim.api.requests import ObjectSelection, ReadOptions, Target
from kubesim.api.store_view import StoreView
from kubesim.http import content_negotiation
from kubesim.http.content_negotiation import ResponseFormat
from kubesim.registry.registry import Object
from kubesim.storage import Change, Compacted, Record, Store

BATCH = 1000  # changes per chunk
BOOKMARK_SECONDS = 60.0
INITIAL_END = "k8s.io/initial-events-end"

_decode = msgspec.json.Decoder().decode


class Watch:
    """A watch of one client: selected objects, response format, and position in the log."""

    def __init__(
        self,
        store: Store | StoreView,
        target: Target,
        chosen: ObjectSelection,
        form: ResponseFormat,
        *,
        bookmarks: bool,
        include: str = "",
    ) -> None:
        self._store = store
        self._target = target
        self._chosen = chosen
        self._form = form
        self._include = include
        self._bookmarks = bookmarks
        self._prefix = target.resource.prefix(target.namespace)
        self._position = 0
        self._first: list[bytes] = []
        # Watchers with the same key share encoded events.
        self._encoding_key = (form, target.resource.api_version, include)

    def start(self, when: ReadOptions) -> None:
        """Set the start position, or reject the request. Existing objects are the first chunk, if requested."""
        if when.send_initial_events is False or (when.send_initial_events is None and when.revision):
            self._position = when.revision or self._store.revision
            return
        if when.revision is not None and when.revision > self._store.revision:
            raise status.too_new(when.revision, self._store.revision)
        page = self._store.list(self._prefix)
        self._position = page.revision
        self._first = [self._encode_added(record) for record in page.records]
        if when.send_initial_events and self._bookmarks:
            self._first.append(self._bookmark(initial_end=True))

    async def events(self, deadline: float, now: Callable[[], float]) -> AsyncGenerator[bytes, None]:
        """Chunks of events, one line each, until the deadline."""
        yield b"".join(self._first)
        self._first = []
        bookmark_at = now() + BOOKMARK_SECONDS
        while True:
            try:
                changes, upto = self._store.changes(self._prefix, self._position, BATCH)
                chunk = self._encode_changes(changes)
            except Compacted:
                yield self._expired_event()
                return
            self._position = upto
            if chunk:
                yield chunk
            if changes:
                continue
            if self._bookmarks and now() >= bookmark_at:
                bookmark_at = now() + BOOKMARK_SECONDS
                yield self._bookmark()
            left = deadline - now()
            if left <= 0:
                return
            pause = min(left, bookmark_at - now()) if self._bookmarks else left
            await self._store.wait(self._prefix, self._position, max(pause, 0.0))

    # ---- events -------------------------------------------------------------------------------------------

    def _encode_added(self, record: Record) -> bytes:
        if self._chosen.everything and content_negotiation.is_stored_form(
            self._target.resource, record.value, self._form
        ):
            return b'{"type":"ADDED","object":%b}\n' % record.value
        found = _decode(record.value)
        return self._encode_event("ADDED", found) if self._chosen.matches(self._target.resource, found) else b""

    def _encode_changes(self, changes: Sequence[Change]) -> bytes:
        if self._chosen.everything:
            return b"".join([self._encode_shared(change, _kind(change)) for change in changes])
        lines = []
        for change in changes:
            kind = self._event_type(change)
            if kind:
                lines.append(self._encode_shared(change, kind))
        return b"".join(lines)

    def _event_type(self, change: Change) -> str:
        """The event type of a change for a watcher that sees only the selected objects; empty if none."""
        resource = self._target.resource
        before = change.old is not None and self._chosen.matches(resource, change.old)
        after = not change.deleted and self._chosen.matches(resource, change.object)
        if after:
            return "MODIFIED" if before else "ADDED"
        return "DELETED" if before else ""

    def _encode_shared(self, change: Change, kind: str) -> bytes:
        name = (self._encoding_key, kind)
        line = change.encoded.get(name)
        if line is None:
            if kind == "DELETED" and not change.deleted:
                line = self._encode_event(kind, _last_seen(change))
            elif content_negotiation.is_stored_form(self._target.resource, change.value, self._form):
                line = b'{"type":"%b","object":%b}\n' % (kind.encode(), change.value)
            else:
                line = self._encode_event(kind, change.object)
            change.encoded[name] = line
        return line

    def _encode_event(self, kind: str, found: Object) -> bytes:
        resource = self._target.resource
        served = found if found["apiVersion"] == resource.api_version else {**found, "apiVersion": resource.api_version}
        shown = content_negotiation.object_in_format(resource, served, self._form, self._include)
        return content_negotiation.encode({"type": kind, "object": shown}) + b"\n"

    def _bookmark(self, *, initial_end: bool = False) -> bytes:
        about: Object = {"resourceVersion": str(self._position), "creationTimestamp": None}
        if initial_end:
            about["annotations"] = {INITIAL_END: "true"}
        resource = self._target.resource
        found: Object = {"kind": resource.kind, "apiVersion": resource.api_version, "metadata": about}
        if self._form.shown_as == "Table":
            found = {
                "kind": "Table",
                "apiVersion": f"meta.k8s.io/{self._form.version}",
                "metadata": about,
                "columnDefinitions": [],
                "rows": [],
            }
        elif self._form.shown_as:
            found = content_negotiation.partial(found, self._form)
        return content_negotiation.encode({"type": "BOOKMARK", "object": found}) + b"\n"

    def _expired_event(self) -> bytes:
        error = status.expired(f"too old resource version: {self._position} ({self._store.compacted})")
        return content_negotiation.encode({"type": "ERROR", "object": error.status()}) + b"\n"


def _last_seen(change: Change) -> Object:
    """The last selected state of an object, with the resourceVersion of the change that ended its selection."""
    old = change.old
    assert old is not None  # only an object that was selected gets a DELETED event
    return {**old, "metadata": {**old["metadata"], "resourceVersion": str(change.revision)}}


def _kind(change: Change) -> str:
    if change.deleted:
        return "DELETED"
    return "MODIFIED" if change.before else "ADDED"
