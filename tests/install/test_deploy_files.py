"""deploy/ is what the code says: written anew it is the same, and kustomize makes of it what `pumice install` would.

``test_chart_kube`` has what Helm makes of it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from pumice.install.install_options import InstallOptions
from pumice.install.manifests import all_manifests
from tests.support.kubectl import KUBECTL, run
from tools import deploy_files, grafana_board

DEPLOY = deploy_files.DEPLOY
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


def expected(choices: InstallOptions, *without: str) -> dict[tuple[str, str], Object]:
    return by_key([one for one in all_manifests(choices) if one["kind"] not in without])


@pytest.mark.skipif(KUBECTL is None, reason="kubectl is not on PATH")
def test_kustomize_gives_the_same(tmp_path):
    status, text = run(tmp_path / "none", "kustomize", str(DEPLOY / "kustomize"))
    assert status == 0, text
    assert by_key(yaml.safe_load_all(text)) == expected(InstallOptions(), "Queue")


def test_the_board_shows_metrics_that_there_are():
    known = set(re.findall(r"`((?:pumice|volcano)_\w+)`", METRICS.read_text()))
    text = json.dumps([panel.get("targets", []) for panel in grafana_board.board()["panels"]])
    shown = set(re.findall(r"\b(?:pumice|volcano)_\w+", text))
    assert {re.sub("_bucket$", "", name) for name in shown} <= known
    identities = [panel["id"] for panel in grafana_board.board()["panels"]]
    assert len(set(identities)) == len(identities)
