"""Writes deploy/kustomize and deploy/helm from the manifests in pumice.install, the only place that defines them.

python -m tools.deploy_files

The templates of the chart are the same objects with a few values left open. If an object differs beside Volcano, the
template contains both versions and a value selects one. Two kinds are left out: queues, which the controllers create if
they are missing (an apply would reset them every time), and, in the chart, the namespace, which Helm creates. A schema
rejects invalid values, because to Helm the text "false" is true and a misspelt name is ignored.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from difflib import SequenceMatcher
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any

import yaml

from pumice import __version__
from pumice.engine.config.scheduler_config import DEFAULT_CONFIG
from pumice.install.install_options import INSTALL_NAME, InstallOptions
from pumice.install.manifests import all_manifests, definitions
from pumice.install.pod_settings import DEFAULT_RESOURCES, OWN_LABELS, PodSettings

Object = dict[str, Any]
Key = tuple[str, str]

DEPLOY = Path(__file__).parent.parent / "deploy"
WRITTEN = "# Written by tools/deploy_files.py from the code. Change that instead.\n"

OPEN_PODS = PodSettings(
    {component: f"RESOURCES-OF-{component}" for component in DEFAULT_RESOURCES},
    image_pull_secrets="VALUE-HERE",
    node_selector="VALUE-HERE",
    tolerations="VALUE-HERE",
    affinity="VALUE-HERE",
    pod_annotations="VALUE-HERE",
    pod_labels={"LABELS-HERE": "VALUE-HERE"},
    priority_class_name="VALUE-HERE",
)
OPEN = InstallOptions(
    namespace="NAMESPACE-HERE",
    image="IMAGE-HERE",
    replicas=987654321,
    configuration="SETTINGS-HERE",
    pods=OPEN_PODS,
)
"""Placeholder values, found again in the written manifests."""
VALUE_NAMES = {"annotations": "podAnnotations"}
"""The value of the chart with the contents of a field, where it is called otherwise."""
TEMPLATES = {
    "NAMESPACE-HERE": "{{ .Release.Namespace | quote }}",
    "IMAGE-HERE": (
        '"{{ .Values.image.repository }}{{ if .Values.image.digest }}@{{ .Values.image.digest }}{{ else }}'
        ':{{ .Values.image.tag | default .Chart.AppVersion }}{{ end }}"'
    ),
    "987654321": "{{ .Values.replicas }}",
    "SETTINGS-HERE": "{{ .Values.schedulerConfig | toJson }}",
    "CLAIM-HERE": "{{ .Values.dataClaim | quote }}",
}
KEPT = {"data_claim": "CLAIM-HERE"}
RECORDED = {**KEPT, "decision_log": True}
"""The options by which the data of the scheduler is in a claim, and by which it contains the decision log."""

KUSTOMIZATION = f"""\
{WRITTEN}
# kubectl apply --server-side -k deploy/kustomize
apiVersion: kustomize.config.k8s.io/v1beta1
kind: Kustomization
resources:
- definitions.yaml
- pumice.yaml
images:
- name: pumice
  newTag: "{__version__}"
"""

CHART = f"""\
{WRITTEN}
apiVersion: v2
name: {INSTALL_NAME}
description: A hierarchical fair-share batch scheduler that speaks the Volcano API
type: application
version: {__version__}
appVersion: "{__version__}"
kubeVersion: ">=1.30.0-0"
"""

_TRUTH = {"type": "boolean"}
_TEXTS = {"type": "object", "additionalProperties": {"type": "string"}}
VALUES = {
    "type": "object",
    "additionalProperties": False,
    "properties": {
        "global": {"type": "object"},  # from a chart that includes this one
        "image": {
            "type": "object",
            "additionalProperties": False,
            "properties": {
                "repository": {"type": "string", "minLength": 1},
                "tag": {"type": "string"},
                "digest": {"type": "string", "pattern": "^(sha256:[0-9a-f]{64})?$"},
            },
        },
        "replicas": {"type": "integer", "minimum": 1},
        "webhooks": _TRUTH,
        "ui": _TRUTH,
        "besideVolcano": _TRUTH,
        "dataClaim": {"type": "string"},
        "decisionLog": _TRUTH,
        "serviceMonitor": _TRUTH,
        "schedulerConfig": {"type": "string"},
        "resources": {
            "type": "object",
            "additionalProperties": False,
            "properties": {component: {"type": "object"} for component in DEFAULT_RESOURCES},
        },
        "imagePullSecrets": {
            "type": "array",
            "items": {
                "type": "object",
                "additionalProperties": False,
                "required": ["name"],
                "properties": {"name": {"type": "string"}},
            },
        },
        "nodeSelector": _TEXTS,
        "tolerations": {"type": "array", "items": {"type": "object"}},
        "affinity": {"type": "object"},
        "podAnnotations": _TEXTS,
        "podLabels": {**_TEXTS, "propertyNames": {"not": {"enum": list(OWN_LABELS)}}},
        "priorityClassName": {"type": "string"},
    },
    "if": {"properties": {"decisionLog": {"const": True}}, "required": ["decisionLog"]},
    "then": {"properties": {"dataClaim": {"minLength": 1}}, "required": ["dataClaim"]},
}

NOTES = """\
{{- if .Values.besideVolcano -}}
Pumice places pods with schedulerName: pumice. Volcano's jobs, definitions and webhooks are its own.
{{- else -}}
Pumice places pods with schedulerName: pumice or volcano, and runs Volcano Jobs.
{{- end }}

  kubectl get queues
  kubectl -n {{ .Release.Namespace }} get pods

Before you uninstall for good, or nobody can delete queues any more:
  pumice uninstall --namespace {{ .Release.Namespace }}
"""


class _Plain(yaml.SafeDumper):
    """Without anchors, and with texts of several lines as such."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None)


_Plain.add_representer(str, _text)


def written(objects: Iterable[Object]) -> str:
    """Objects as a YAML stream."""
    return yaml.dump_all(objects, Dumper=_Plain, sort_keys=False, width=2000, allow_unicode=True)


def files() -> Iterator[tuple[str, str]]:
    """All files, by their path below deploy/."""
    yield "kustomize/kustomization.yaml", KUSTOMIZATION
    yield "kustomize/definitions.yaml", WRITTEN + written(definitions())
    yield "kustomize/pumice.yaml", WRITTEN + written(_own(InstallOptions()))
    chart = f"helm/{INSTALL_NAME}"
    yield f"{chart}/Chart.yaml", CHART
    yield f"{chart}/values.yaml", _values()
    yield f"{chart}/values.schema.json", json.dumps(VALUES, indent=2) + "\n"
    yield f"{chart}/templates/NOTES.txt", NOTES
    yield f"{chart}/crds/definitions.yaml", WRITTEN + written(definitions())
    for name, text in _templates():
        yield f"{chart}/templates/{name}.yaml", WRITTEN + text


def _own(choices: InstallOptions) -> list[Object]:
    """All but definitions, which have files of their own, and queues."""
    return [one for one in all_manifests(choices) if one["kind"] not in {"CustomResourceDefinition", "Queue"}]


def _values() -> str:
    settings = written([{"schedulerConfig": DEFAULT_CONFIG}])
    resources = written([{"resources": DEFAULT_RESOURCES}])
    return f"""\
{WRITTEN}
image:
  repository: {INSTALL_NAME}
  tag: ""  # that of the chart
  digest: ""  # sha256:..., instead of a tag, which can be moved to another image
replicas: {InstallOptions().replicas}  # of each component
webhooks: true  # without them nothing is filled in and nothing refused
ui: true  # the web page, one replica
besideVolcano: false  # leave Volcano's jobs, definitions and webhooks alone; install with --skip-crds then
dataClaim: ""  # a PersistentVolumeClaim for the history of the page; the scheduler then has one replica
decisionLog: false  # record decisions in the claim: evictions with numbers, and the page Then
serviceMonitor: false  # tell the Prometheus operator of the metrics
# Of the container of each component; a value replaces one of these.
{resources}# Of the pods of all components.
imagePullSecrets: []  # for example [{{name: registry}}]
nodeSelector: {{}}
tolerations: []
affinity: {{}}
podAnnotations: {{}}
podLabels: {{}}
priorityClassName: {PodSettings().priority_class_name}  # "": none
# The scheduler's configuration.
{settings}"""


def _templates() -> Iterator[tuple[str, str]]:
    """The templates of the chart, one file a component and one for what all share."""
    whole = replace(OPEN, service_monitor=True)
    plain, kept, recorded = (_texts(replace(whole, **options)) for options in ({}, KEPT, RECORDED))
    unjudged, unseen = _by_key(replace(whole, webhooks=False)), _by_key(replace(whole, ui=False))
    found: dict[str, list[str]] = {}
    for key, one in _by_key(whole).items():
        component = one["metadata"]["labels"].get("app.kubernetes.io/component", INSTALL_NAME)
        text = _merged(plain[key], kept[key], recorded[key])
        if key not in unjudged:
            text = _if(".Values.webhooks", text)
        if key not in unseen:
            text = _if(".Values.ui", text)
        if one["kind"] == "ServiceMonitor":
            text = _if(".Values.serviceMonitor", text)
        found.setdefault(component, []).append(text)
    for name, texts in found.items():
        yield name, "".join(texts)


def _texts(choices: InstallOptions) -> dict[Key, str]:
    beside = _by_key(replace(choices, beside_volcano=True))
    return {key: _template(one, beside.get(key)) for key, one in _by_key(choices).items()}


def _merged(plain: str, kept: str, recorded: str) -> str:
    """One template with the lines of all three; those that differ stand under the values that select them."""
    before, lines = plain.splitlines(keepends=True), recorded.splitlines(keepends=True)
    in_kept = _matched(kept.splitlines(keepends=True), lines)
    found: list[tuple[str, str]] = []  # condition and line
    for operation, start, end, first, last in SequenceMatcher(None, before, lines, autojunk=False).get_opcodes():
        if operation == "equal":
            found += [("", line) for line in lines[first:last]]
            continue
        found += [("not .Values.dataClaim", line) for line in before[start:end]]
        found += [
            (".Values.dataClaim" if number in in_kept else ".Values.decisionLog", lines[number])
            for number in range(first, last)
        ]
    parts = ((condition, "".join(line for _, line in group)) for condition, group in groupby(found, itemgetter(0)))
    return "".join(_if(condition, text) if condition else text for condition, text in parts)


def _matched(part: list[str], lines: list[str]) -> set[int]:
    """The places of the lines of a part, all of which are among them in order."""
    blocks = SequenceMatcher(None, part, lines, autojunk=False).get_matching_blocks()
    found = {block.b + j for block in blocks for j in range(block.size)}
    assert len(found) == len(part), "with a decision log there must be nothing less than with a claim alone"
    return found


def _by_key(choices: InstallOptions) -> dict[Key, Object]:
    own = (one for one in _own(choices) if one["kind"] != "Namespace")
    return {(one["kind"], one["metadata"]["name"]): one for one in own}


def _template(alone: Object, beside: Object | None) -> str:
    """An object with its values left open; both, where it is another one beside Volcano."""
    text = "---\n" + written([alone])
    if beside is None:
        text = _if("not .Values.besideVolcano", text)
    elif beside != alone:
        other = "---\n" + written([beside])
        text = f"{{{{- if .Values.besideVolcano }}}}\n{other}{{{{- else }}}}\n{text}{{{{- end }}}}\n"
    for value, template in TEMPLATES.items():
        text = text.replace(value, template)
    return _open_pod_fields(text)


def _open_pod_fields(text: str) -> str:
    """The optional fields of pods, each written only if its value is set."""

    def field(match: re.Match[str]) -> str:
        indent, name = match["indent"], match["name"]
        value = f".Values.{VALUE_NAMES.get(name, name)}"
        return f"{indent}{{{{- with {value} }}}}\n{indent}{name}: {{{{ toJson . }}}}\n{indent}{{{{- end }}}}\n"

    def own_labels(match: re.Match[str]) -> str:
        indent = match["indent"]
        lines = f"{{{{- toYaml . | nindent {len(indent)} }}}}"
        return f"{indent}{{{{- with .Values.podLabels }}}}\n{indent}{lines}\n{indent}{{{{- end }}}}\n"

    text = re.sub(r"(?m)^(?P<indent> *)LABELS-HERE: VALUE-HERE\n", own_labels, text)
    text = re.sub(r"(?m)^(?P<indent> *)(?P<name>\w+): VALUE-HERE\n", field, text)
    return re.sub(r"RESOURCES-OF-(\w+)", r"{{ toJson .Values.resources.\1 }}", text)


def _if(condition: str, text: str) -> str:
    return f"{{{{- if {condition} }}}}\n{text}{{{{- end }}}}\n"


def main() -> None:
    """Write all of them, and remove what is not among them any more."""
    current = dict(files())
    for name, text in current.items():
        path = DEPLOY / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    for folder in ("kustomize", "helm"):
        for path in sorted((DEPLOY / folder).rglob("*")):
            if path.is_file() and path.relative_to(DEPLOY).as_posix() not in current:
                path.unlink()


if __name__ == "__main__":
    main()
