"""deploy/kustomize in a real cluster: as it is, again, and changed by an overlay."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.installed import HOME, Real, real_server, take_away
from tests.support.kubectl import Namespace
from tools.deploy_files import DEPLOY

pytestmark = pytest.mark.kube
BASE = DEPLOY / "kustomize"
TRUSTED = "jsonpath={.webhooks[*].clientConfig.caBundle}"


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Real]:
    with real_server(tmp_path_factory.mktemp("kustomize")) as real:
        yield real


@pytest.fixture
def kubectl(real: Real) -> Iterator[Namespace]:
    yield real.kubectl(HOME)
    take_away(real)


@pytest.mark.parametrize("how", [[], ["--server-side"]], ids=["by the client", "by the server"])
def test_applied_and_applied_again(kubectl, how):
    kubectl("apply", *how, "-k", str(BASE))
    patch = {"webhooks": [{"name": "queues.admission.pumice.dev", "clientConfig": {"caBundle": "QUFB"}}]}
    kubectl("patch", "validatingwebhookconfiguration", "pumice", "--type=strategic", "-p", json.dumps(patch))
    before = kubectl("get", "clusterrole,deployment", "-o", "jsonpath={.items[*].metadata.resourceVersion}")

    kubectl("apply", *how, "-k", str(BASE))
    after = kubectl("get", "clusterrole,deployment", "-o", "jsonpath={.items[*].metadata.resourceVersion}")
    assert after == before, "what is the same is left alone"
    assert kubectl("get", "validatingwebhookconfiguration", "pumice", "-o", TRUSTED) == "QUFB", "so is what we add"


def test_an_overlay_changes_where_it_runs_and_how(kubectl, tmp_path):
    overlay: dict[str, Any] = {
        "apiVersion": "kustomize.config.k8s.io/v1beta1",
        "kind": "Kustomization",
        "resources": [relative(BASE, tmp_path)],
        "namespace": "batch",
        "images": [{"name": "pumice", "newName": "registry.example/pumice", "newTag": "7"}],
        "replicas": [{"name": f"pumice-{name}", "count": 3} for name in ("scheduler", "controllers", "webhooks")],
    }
    (tmp_path / "kustomization.yaml").write_text(yaml.safe_dump(overlay))
    batch = Namespace(kubectl.kubeconfig, "batch")
    batch("apply", "-k", str(tmp_path))
    for name in ("scheduler", "controllers", "webhooks"):
        spec = batch.object("deployment", f"pumice-{name}")["spec"]
        assert spec["replicas"] == 3
        assert spec["template"]["spec"]["containers"][0]["image"] == "registry.example/pumice:7"
        for binding in ("clusterrolebinding", "rolebinding"):
            (subject,) = batch.object(binding, f"pumice-{name}")["subjects"]
            assert subject["namespace"] == "batch", f"{binding} pumice-{name}"
    for kind in ("mutatingwebhookconfiguration", "validatingwebhookconfiguration"):
        for webhook in batch.object(kind, "pumice")["webhooks"]:
            assert webhook["clientConfig"]["service"]["namespace"] == "batch"
    assert batch.object("namespace", "batch")["metadata"]["labels"]["app.kubernetes.io/part-of"] == "pumice"


def relative(path: Path, start: Path) -> str:
    """kustomize wants to be told from where it stands."""
    steps = len(start.resolve().parts) - 1
    return "/".join([".."] * steps) + str(path.resolve())
