"""The kind Event. Served as ``v1`` only, which every client supports.

The kind has two styles. The older counts repetitions in ``count`` between two timestamps; the newer has an
``eventTime``, names the reporting component, and counts in ``series``.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Final

from kubebase.ages import age
from kubesim.api import metadata
from kubesim.api.field_errors import FieldProblem, invalid, required
from kubesim.kinds.schema_dsl import OBJECT_REFERENCE, expand_schema
from kubesim.registry.registry import Object, Resource, Strategy, TableColumn
from kubesim.schema import Schema
from kubesim.tables import NAME

LONGEST_WORD: Final = 128
LONGEST_MESSAGE: Final = 1024

SHAPES: Final = (
    """
Event
  action text
  count int32
  eventTime time
  firstTimestamp time
  involvedObject! ObjectReference
  lastTimestamp time
  message text
  reason text
  related ObjectReference
  reportingComponent! text
  reportingInstance! text
  series EventSeries
  source! EventSource
  type text
EventSeries
  count int32
  lastObservedTime time
EventSource
  component text
  host text
"""
    + OBJECT_REFERENCE
)


class EventStrategy(Strategy):
    """An event lies in the namespace of what it is about; those about cluster-wide objects lie in ``default``."""

    creates_on_update = True

    def check(self, new: Object) -> Iterator[FieldProblem]:
        """Check the namespace and, for the newer style, the reporting component and action."""
        about = new["involvedObject"].get("namespace", "")
        if about != new["metadata"].get("namespace", "") if about else new["metadata"].get("namespace") != "default":
            yield invalid("involvedObject.namespace", about, "does not match event.namespace")
        if not new.get("eventTime"):
            return
        if not new["reportingComponent"]:
            yield required("reportingComponent")
        yield from metadata.check_label_key(new["reportingComponent"], "reportingComponent")
        for field in ("reportingInstance", "action", "reason"):
            text = new.get(field, "")
            if not text:
                yield required(field)
            elif len(text) > LONGEST_WORD:
                yield invalid(field, "", f"can have at most {LONGEST_WORD} characters")
        if len(new.get("message", "")) > LONGEST_MESSAGE:
            yield invalid("message", "", f"can have at most {LONGEST_MESSAGE} characters")


def _first_seen(found: Object) -> str:
    return age(found.get("firstTimestamp") or found.get("eventTime"))


def _last_seen(found: Object) -> str:
    if series := found.get("series"):
        return age(series.get("lastObservedTime"))
    return age(found["lastTimestamp"]) if found.get("lastTimestamp") else _first_seen(found)


def _count(found: Object) -> int:
    if series := found.get("series"):
        return int(series.get("count", 0))
    return found.get("count") or 1


def _about(found: Object) -> str:
    about = found["involvedObject"]
    kind = about.get("kind", "").lower()
    return f"{kind}/{about['name']}" if about.get("name") else kind


def _source(found: Object) -> str:
    source = found.get("source") or {}
    component = source.get("component") or found.get("reportingComponent", "")
    host = source.get("host") or found.get("reportingInstance", "")
    return f"{component}, {host}" if host else component


def events() -> Resource:
    """The resource ``events``."""
    selectable = ("kind", "namespace", "name", "uid", "apiVersion", "resourceVersion", "fieldPath")
    return Resource(
        group="",
        version="v1",
        plural="events",
        kind="Event",
        namespaced=True,
        schema=Schema.sound(partial(expand_schema, SHAPES, "Event")),
        strategy=EventStrategy(),
        columns=(
            TableColumn("Last Seen", _last_seen, description="When it last happened."),
            TableColumn("Type", lambda found: found.get("type", ""), description="Normal or Warning."),
            TableColumn(
                "Reason", lambda found: found.get("reason", ""), description="The reason of the event, in one word."
            ),
            TableColumn("Object", _about, description="The object that the event is about."),
            TableColumn(
                "Subobject",
                lambda found: found["involvedObject"].get("fieldPath", ""),
                priority=1,
                description="Which part of it.",
            ),
            TableColumn("Source", _source, priority=1, description="The reporting component and its host."),
            TableColumn(
                "Message", lambda found: found.get("message", "").strip(), description="The message of the event."
            ),
            TableColumn("First Seen", _first_seen, priority=1, description="When it first happened."),
            TableColumn("Count", _count, priority=1, description="How often."),
            TableColumn(NAME.name, NAME.value, NAME.type, NAME.format, 1, NAME.description),
        ),
        singular="event",
        short_names=("ev",),
        fields={
            **{f"involvedObject.{part}": ("involvedObject", part) for part in selectable},
            "reason": ("reason",),
            "reportingComponent": ("reportingComponent",),
            "source": ("source", "component"),
            "type": ("type",),
        },
    )
