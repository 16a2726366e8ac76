"""``pumice install`` and ``pumice uninstall`` where they cannot work; ``tests/install`` has the rest."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.cluster.calls import Caller
from tests.support.bare_cluster import bare_cluster


def test_cluster_of_pumice_up_is_refused_with_the_reason(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with bare_cluster(tmp_path) as (_, kubeconfig):
        call = Caller(kubeconfig, monkeypatch)
        for command in ("pumice install", "pumice install --take-over", "pumice uninstall"):
            ended = call(command)
            assert ended.status == 1
            assert "does not serve rbac.authorization.k8s.io/v1, so Pumice cannot be installed there" in ended.err
            assert "a cluster of pumice up runs Pumice already" in ended.err


def test_decision_log_without_a_claim_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ended = Caller(tmp_path / "none", monkeypatch)("pumice install --decision-log --dry-run")
    assert ended.status == 2
    assert "--decision-log needs --data-claim" in ended.err
