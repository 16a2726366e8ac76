"""deploy/ is what the code says: written anew it is the same, and it installs what `pumice install` would."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from pumice import __version__
from pumice.install.choices import Choices
from pumice.install.manifests import manifests
from tests.support.kubectl import KUBECTL, run
from tools import deploy_files, grafana_board

DEPLOY = deploy_files.DEPLOY
CHART = DEPLOY / "helm" / "pumice"
METRICS = Path(__file__).parents[2] / "docs" / "metrics.md"
Object = dict[str, Any]


def test_the_files_are_current():
    current = dict(deploy_files.files())
    there = {
        path.relative_to(DEPLOY).as_posix(): path.read_text()
        for folder in ("kustomize", "helm")
        for path in (DEPLOY / folder).rglob("*")
        if path.is_file()
    }
    assert there == current, "python -m tools.deploy_files"
    assert json.loads(grafana_board.BOARD.read_text()) == grafana_board.board(), "python -m tools.grafana_board"


def by_key(objects: Iterator[Object] | list[Object]) -> dict[tuple[str, str], Object]:
    return {(one["kind"], one["metadata"]["name"]): one for one in objects if one}


def expected(choices: Choices, *without: str) -> dict[tuple[str, str], Object]:
    return by_key([one for one in manifests(choices) if one["kind"] not in without])


@pytest.mark.skipif(KUBECTL is None, reason="kubectl is not on PATH")
def test_kustomize_gives_the_same(tmp_path):
    status, text = run(tmp_path / "none", "kustomize", str(DEPLOY / "kustomize"))
    assert status == 0, text
    assert by_key(yaml.safe_load_all(text)) == expected(Choices(), "Queue")


class Helm:
    """As much of Helm as our templates need: values, and one condition inside another."""

    def __init__(self, namespace: str, **values: Any) -> None:
        self.values = {**yaml.safe_load((CHART / "values.yaml").read_text()), **values}
        image = self.values["image"]
        self.texts = {
            "{{ .Release.Namespace | quote }}": json.dumps(namespace),
            "{{ .Values.image.repository }}": image["repository"],
            "{{ .Values.image.tag | default .Chart.AppVersion }}": image["tag"] or __version__,
            "{{ .Values.replicas }}": str(self.values["replicas"]),
            "{{ .Values.schedulerConfig | toJson }}": json.dumps(self.values["schedulerConfig"]),
        }

    def rendered(self) -> Iterator[Object]:
        for path in sorted((CHART / "templates").glob("*.yaml")):
            text = "\n".join(self.chosen(path.read_text().splitlines()))
            for template, value in self.texts.items():
                text = text.replace(template, value)
            assert "{{" not in text, path
            yield from yaml.safe_load_all(text)

    def chosen(self, lines: list[str]) -> Iterator[str]:
        """The lines whose conditions hold."""
        conditions: list[bool] = []
        for line in lines:
            if found := re.fullmatch(r"\{\{- if (not )?\.Values\.(\w+) \}\}", line):
                conditions.append(bool(self.values[found[2]]) is not bool(found[1]))
            elif line == "{{- else }}":
                conditions[-1] = not conditions[-1]
            elif line == "{{- end }}":
                conditions.pop()
            elif all(conditions):
                yield line


@pytest.mark.parametrize("beside", [False, True])
@pytest.mark.parametrize("monitor", [False, True])
def test_the_chart_gives_the_same(beside, monitor):
    values = {"image": {"repository": "mine", "tag": "7"}, "replicas": 5, "schedulerConfig": "actions: allocate\n"}
    found = by_key(Helm("batch", besideVolcano=beside, serviceMonitor=monitor, **values).rendered())
    wanted = Choices("batch", "mine:7", 5, "actions: allocate\n", beside_volcano=beside, service_monitor=monitor)
    assert found == expected(wanted, "Queue", "Namespace", "CustomResourceDefinition")


def test_the_chart_gives_what_install_gives_if_nothing_is_chosen():
    found = by_key(Helm("pumice-system").rendered())
    assert found == expected(Choices(), "Queue", "Namespace", "CustomResourceDefinition")


def test_the_board_shows_metrics_that_there_are():
    known = set(re.findall(r"`((?:pumice|volcano)_\w+)`", METRICS.read_text()))
    text = json.dumps([panel.get("targets", []) for panel in grafana_board.board()["panels"]])
    shown = set(re.findall(r"\b(?:pumice|volcano)_\w+", text))
    assert {re.sub("_bucket$", "", name) for name in shown} <= known
    identities = [panel["id"] for panel in grafana_board.board()["panels"]]
    assert len(set(identities)) == len(identities)
