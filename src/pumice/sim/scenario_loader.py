"""Load the objects with which the cluster of a scenario starts, and collect all errors.

Loading does not stop at the first problem: each problem names its file, object and field. The objects that could be
decoded are checked by the admission rules (``manifest_admission``). An object with a problem is left out together with
its dependents; the caller decides whether to run the rest.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from kubebase.resource_vector import Registry
from pumice.input_errors import Problem
from pumice.kube.decode.manifest_errors import ObjectError
from pumice.model.specs import Described
from pumice.sim.manifest_admission import ManifestEntry, admit_manifests
from pumice.sim.manifest_files import Manifest
from pumice.sim.manifest_translation import TranslatedManifest, translate_manifest
from pumice.sim.object_set import ObjectSet, object_key
from pumice.sim.scenario import Scenario
from pumice.sim.simulated_admission import SimulatedAdmission

SECOND = 1_000_000


class ManifestOrigin(NamedTuple):
    """The file of an object, and the name of its manifest."""

    file: str
    name: str


@dataclass(slots=True)
class LoadedScenario:
    """The objects a cluster starts with, and what was left out."""

    registry: Registry
    admission: SimulatedAdmission
    objects: ObjectSet
    translated: list[TranslatedManifest]
    problems: list[Problem]


def load_scenario(scenario: Scenario) -> LoadedScenario:
    """Load the objects of a scenario. Objects without a creation time are one second apart, in file order."""
    registry = Registry()
    problems: list[Problem] = []
    entries: list[ManifestEntry] = []
    origins: dict[tuple[type[Described], str], ManifestOrigin] = {}
    seen: dict[str, Manifest] = {}
    for position, manifest in enumerate(scenario.manifests, start=1):
        created = position * SECOND
        try:
            translated = translate_manifest(manifest.document, registry, created)
        except ObjectError as error:
            problems.append(Problem(manifest.file, error.object, error.field, error.message))
            continue
        first = seen.setdefault(translated.name, manifest)
        if first is not manifest and first.document == manifest.document:
            continue  # files that go together often repeat what they share
        slots = [(type(part), object_key(part)) for part in translated.parts]
        taken = next((origins[slot] for slot in slots if slot in origins), None)
        if taken is not None or first is not manifest:
            file, name = taken or ManifestOrigin(first.file, translated.name)
            as_whom = "" if name == translated.name else f" (as {name})"
            message = f"is already defined in {file}{as_whom}; keep one of the two"
            problems.append(Problem(manifest.file, translated.name, "metadata.name", message))
            continue
        origins |= dict.fromkeys(slots, ManifestOrigin(manifest.file, translated.name))
        entries.append(ManifestEntry(manifest, translated, created))
    judged = admit_manifests(entries, registry, set(_jobs_of_events(scenario)), scenario.config.default_queue)
    return LoadedScenario(registry, judged.admission, judged.objects, judged.translated, [*problems, *judged.problems])


def decode_problems(manifests: Iterable[Manifest]) -> list[Problem]:
    """Errors in single objects, if no scenario could be read to load them into."""
    registry, problems = Registry(), []
    for manifest in manifests:
        try:
            translate_manifest(manifest.document, registry, 0)
        except ObjectError as error:
            problems.append(Problem(manifest.file, error.object, error.field, error.message))
    return problems


def _jobs_of_events(scenario: Scenario) -> Iterator[str]:
    """The jobs that events will bring."""
    for event in scenario.spec.events:
        document: Mapping[str, Any] = event.apply or {}
        metadata = document.get("metadata")
        if document.get("kind") in ("PodGroup", "Job") and isinstance(metadata, Mapping):
            yield f"{metadata.get('namespace') or 'default'}/{metadata.get('name')}"
