"""From manifests to the objects a cluster starts with, and everything that is wrong with them.

A problem does not end the reading: all are found, each with its file, object and field. What can be read is judged by
the admission rules (``judging``). Objects with a problem are left out whole, with what belongs to them; whether the
rest is run is for the caller to say.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from kubebase.resource_vector import Registry
from pumice.input_errors import Problem
from pumice.kube.decode.manifest_errors import ObjectError
from pumice.model.specs import Described
from pumice.sim.manifest_admission import Entry, judge
from pumice.sim.manifest_files import Manifest
from pumice.sim.manifest_translation import Translated, translate
from pumice.sim.object_set import Objects, key_of
from pumice.sim.scenario import Scenario
from pumice.sim.simulated_admission import Admission

SECOND = 1_000_000


class Origin(NamedTuple):
    """Where an object comes from: the file, and how its manifest is called."""

    file: str
    name: str


@dataclass(slots=True)
class Loaded:
    """The objects a cluster starts with, and what was left out."""

    registry: Registry
    admission: Admission
    objects: Objects
    translated: list[Translated]
    problems: list[Problem]


def load(scenario: Scenario) -> Loaded:
    """Read the objects of a scenario. The file's order is their age, a second apart, unless they say theirs."""
    registry = Registry()
    problems: list[Problem] = []
    entries: list[Entry] = []
    origins: dict[tuple[type[Described], str], Origin] = {}
    seen: dict[str, Manifest] = {}
    for position, manifest in enumerate(scenario.manifests, start=1):
        created = position * SECOND
        try:
            translated = translate(manifest.document, registry, created)
        except ObjectError as error:
            problems.append(Problem(manifest.file, error.object, error.field, error.message))
            continue
        first = seen.setdefault(translated.name, manifest)
        if first is not manifest and first.document == manifest.document:
            continue  # files that go together often repeat what they share
        slots = [(type(part), key_of(part)) for part in translated.parts]
        taken = next((origins[slot] for slot in slots if slot in origins), None)
        if taken is not None or first is not manifest:
            file, name = taken or Origin(first.file, translated.name)
            as_whom = "" if name == translated.name else f" (as {name})"
            message = f"stands in {file} already{as_whom}; keep one of the two"
            problems.append(Problem(manifest.file, translated.name, "metadata.name", message))
            continue
        origins |= dict.fromkeys(slots, Origin(manifest.file, translated.name))
        entries.append(Entry(manifest, translated, created))
    judged = judge(entries, registry, set(_announced(scenario)))
    return Loaded(registry, judged.admission, judged.objects, judged.translated, [*problems, *judged.problems])


def unreadable(manifests: Iterable[Manifest]) -> list[Problem]:
    """What is wrong with objects taken one by one, for when there is no scenario to load them into."""
    registry, problems = Registry(), []
    for manifest in manifests:
        try:
            translate(manifest.document, registry, 0)
        except ObjectError as error:
            problems.append(Problem(manifest.file, error.object, error.field, error.message))
    return problems


def _announced(scenario: Scenario) -> Iterator[str]:
    """The jobs that events will bring."""
    for event in scenario.spec.events:
        document: Mapping[str, Any] = event.apply or {}
        metadata = document.get("metadata")
        if document.get("kind") in ("PodGroup", "Job") and isinstance(metadata, Mapping):
            yield f"{metadata.get('namespace') or 'default'}/{metadata.get('name')}"
