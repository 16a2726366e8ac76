"""Stored objects that cannot be used: found at the start, set aside or left alone, and reported.

- What the disk has damaged, the store has set aside already: it is not served.
- An object of a built-in kind whose fields have wrong types is set aside too, because the controllers and the nodes of
  this process rely on the types. The API accepts none; one from a database without checksums may be there.
- A custom object that its definition does not allow (any more) stays: it can be read, mended and deleted, and an update
  has to be right only where it changes something (``write_steps.new_problems``). Programs that cannot read it skip it.

Each is named in the log and in a condition of its namespace (of kube-system, if it has none).
"""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict
from collections.abc import Iterable
from functools import partial
from typing import Final

import msgspec

from kubesim.api import metadata
from kubesim.api.client import InProcessClient
from kubesim.api.status import ApiError
from kubesim.clock import Clock, stamp
from kubesim.controllers.conditions import set_condition
from kubesim.registry.registry import Object, Resource
from kubesim.schema import Schema
from kubesim.storage import SetAside

log = logging.getLogger(__name__)

CONDITION: Final = "UnusableObjects"
NAMED: Final = 20
"""The most objects that the message of a condition names."""
CHECKED_AT_ONCE: Final = 50
SYSTEM: Final = "kube-system"

_decode = msgspec.json.Decoder().decode


def set_aside_unusable(api: InProcessClient) -> None:
    """Set aside objects of built-in kinds with fields of wrong types, and log what is set aside."""
    store = api.store
    for resource in [kind for kind in api.registry if not kind.custom]:
        if store.checksums_after:  # what has a checksum was checked when it was written
            for record in store.list(resource.prefix()).records:
                if record.revision <= store.checksums_after:
                    problem = _type_problem(resource, _decode(record.value))
                    if problem:
                        store.exclude(record.key, problem)
    for found in store.set_aside:
        log.error("Set aside an object that cannot be read; it is not served: %s%s", found, api.identity.check_hint)


def _type_problem(resource: Resource, found: Object) -> str:
    *_, fault = metadata.decode_metadata(found.get("metadata"))
    problems = [] if fault else resource.schema.mistyped(found)
    return fault or "; ".join(map(str, problems))


async def report_unusable(api: InProcessClient, clock: Clock) -> None:
    """Report unusable objects once, while requests are answered already; runs until cancelled, as controllers do."""
    try:
        await _report(api, clock)
    except Exception:  # a report that fails is no reason to stop serving
        log.exception("Failed to report unusable objects")
    await asyncio.Event().wait()


async def _report(api: InProcessClient, clock: Clock) -> None:
    """Log the custom objects that their definitions do not allow, and set the conditions of all namespaces."""
    unusable = [*api.store.set_aside]
    for resource in [kind for kind in api.registry if kind.custom and api.registry.stored(kind.qualified) is kind]:
        for number, record in enumerate(api.store.list(resource.prefix()).records):
            if number % CHECKED_AT_ONCE == 0:
                await asyncio.sleep(0)  # requests go on meanwhile
            problems = resource.schema.validate(_decode(record.value))
            if problems:
                text = "; ".join(map(str, problems[:3]))
                unusable.append(SetAside(record.key, record.revision, text))
                log.error("An object is not as its definition demands, and may be ignored: %s: %s", record.key, text)
    by_namespace: dict[str, list[SetAside]] = defaultdict(list)
    for found in unusable:
        by_namespace[_namespace(found.key)].append(found)
    for namespace in api.list("namespaces"):
        name = namespace["metadata"]["name"]
        await _set_condition(api, clock, namespace, by_namespace.pop(name, []))
    left = [found for rest in by_namespace.values() for found in rest]  # their namespaces are gone, or set aside
    system = api.read("namespaces", "", SYSTEM)
    if left and system is not None:
        await _set_condition(api, clock, system, [*left, *(u for u in unusable if _namespace(u.key) == SYSTEM)])


def _namespace(key: str) -> str:
    _, *place = key.split("/")
    return place[0] if len(place) > 1 else SYSTEM


async def _set_condition(api: InProcessClient, clock: Clock, namespace: Object, unusable: list[SetAside]) -> None:
    known = any(entry["type"] == CONDITION for entry in namespace.get("status", {}).get("conditions") or ())
    if not unusable and not known:
        return
    entry = {
        "type": CONDITION,
        "status": "True" if unusable else "False",
        "reason": "ObjectsUnusable" if unusable else "AllObjectsUsable",
        "message": _message(unusable),
    }
    now = stamp(clock.now())

    def edit(found: Object) -> None:
        set_condition(found.setdefault("status", {}), entry, now)

    try:
        await api.modify("namespaces", "", namespace["metadata"]["name"], edit, subresource="status")
    except ApiError as error:
        log.warning("Could not set the condition of a namespace: %s", error)


def _message(unusable: list[SetAside]) -> str:
    if not unusable:
        return "All objects can be used"
    more = f"; and {len(unusable) - NAMED} more" if len(unusable) > NAMED else ""
    return "; ".join(str(found) for found in unusable[:NAMED]) + more


class ObjectChecker:
    """Says of a stored object, without a running server, why it cannot be used.

    ``definitions`` are those that the server applies at its start, whatever is stored of them.
    """

    def __init__(self, resources: Iterable[Resource], definitions: Iterable[Object] = ()) -> None:
        self._kinds = {resource.qualified: resource for resource in resources}
        self._schemas = {
            definition["metadata"]["name"]: Schema.sound(partial(_stored_schema, definition))
            for definition in definitions
        }

    def problem(self, key: str, value: bytes) -> str:
        """What is wrong with an object; empty if nothing is, or if its kind is not known here."""
        qualified = key.partition("/")[0]
        found: Object = _decode(value)
        if qualified in self._kinds:
            return _type_problem(self._kinds[qualified], found)
        if qualified in self._schemas:
            return "; ".join(map(str, self._schemas[qualified].validate(found)[:3]))
        return ""


def _stored_schema(definition: Object) -> Object:
    schema: Object = next(v["schema"]["openAPIV3Schema"] for v in definition["spec"]["versions"] if v["storage"])
    return schema
