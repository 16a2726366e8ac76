"""The change that a plan is about: manifests to apply, objects to delete, and a configuration of the scheduler."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

import yaml

from pumice.config.load import read_config
from pumice.engine.config.scheduler_config import ConfigError, SchedulerConfig
from pumice.input_errors import BadInput, Problem, did_you_mean
from pumice.sim.manifest_files import SCENARIO, Manifest, read_manifests
from pumice.sim.manifest_translation import KNOWN_KINDS, NAMESPACED_KINDS, manifest_name
from pumice.sim.scenario import DeleteEvent

CONFIG_KEY = re.compile(r"scheduler\.yaml|volcano-scheduler[\w-]*\.conf")
"""The key of a ConfigMap that holds the configuration of the scheduler."""

_DELETABLE = ("Queue", "Node", "ResourceQuota", "PriorityClass", "HyperNode", "PodDisruptionBudget")
_PLURALS = {"queues": "Queue", "nodes": "Node", "quota": "ResourceQuota", "resourcequotas": "ResourceQuota"}


@dataclass(slots=True)
class Change:
    """All of it, in the order of the files."""

    manifests: list[Manifest] = field(default_factory=list)
    deletions: list[DeleteEvent] = field(default_factory=list)
    config: SchedulerConfig | None = None
    notes: list[str] = field(default_factory=list)


def read_change(files: Sequence[str], deletions: Sequence[str], namespace: str = "default") -> Change:
    """Read manifests, and objects to delete as KIND/NAME or KIND/NAMESPACE/NAME; raises BadInput."""
    change = Change(deletions=[_deletion(text, namespace) for text in deletions])
    problems: list[Problem] = []
    for manifest in read_manifests(files) if files else ():
        text = _configuration_text(manifest)
        if text is not None:
            try:
                change.config = read_config(text, manifest.file)
            except ConfigError as error:
                problems.append(Problem(manifest.file, "", f"line {error.line}", error.message))
        elif manifest.kind in KNOWN_KINDS:
            if manifest.kind != SCENARIO:
                change.manifests.append(_in_namespace(manifest, namespace))
        elif manifest.kind and not (hint := did_you_mean(manifest.kind, KNOWN_KINDS)):
            change.notes.append(
                f"{manifest_name(manifest.document)} is left out: it has no effect on queues and shares"
            )
        else:
            wrong = f"'{manifest.kind}' is not known{hint}" if manifest.kind else "is missing"
            problems.append(Problem(manifest.file, manifest_name(manifest.document), "kind", wrong))
    if problems:
        raise BadInput(problems)
    return change


def _in_namespace(manifest: Manifest, namespace: str) -> Manifest:
    """A manifest with the namespace into which kubectl would put it."""
    metadata = manifest.document.get("metadata")
    if manifest.kind not in NAMESPACED_KINDS or not isinstance(metadata, dict) or metadata.get("namespace"):
        return manifest
    return Manifest(manifest.file, {**manifest.document, "metadata": {**metadata, "namespace": namespace}})


def _configuration_text(manifest: Manifest) -> str | None:
    """The scheduler configuration that a document is, or that a ConfigMap holds; None: neither."""
    document = manifest.document
    if not manifest.kind and ("actions" in document or "tiers" in document):
        return yaml.safe_dump(dict(document), sort_keys=False)
    if manifest.kind == "ConfigMap" and isinstance(data := document.get("data"), dict):
        return next((str(data[key]) for key in data if CONFIG_KEY.fullmatch(str(key))), None)
    return None


def _deletion(text: str, namespace: str) -> DeleteEvent:
    kind, _, name = text.partition("/")
    known = {one.lower(): one for one in _DELETABLE} | _PLURALS
    kind = known.get(kind.lower(), kind)
    if kind not in _DELETABLE or not name:
        wrong = f"{text!r} is not KIND/NAME; KIND is one of {', '.join(_DELETABLE)}"
        raise BadInput([Problem("--delete", "", "", wrong)])
    own, _, rest = name.partition("/")
    return DeleteEvent(kind, rest, own) if rest else DeleteEvent(kind, name, namespace)
