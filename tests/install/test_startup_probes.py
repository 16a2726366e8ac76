"""A component that starts slowly is not killed by its liveness probe: a startup probe holds that back."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

MANIFESTS = Path(__file__).parent.parent.parent / "deploy" / "kustomize" / "pumice.yaml"


def probed_containers() -> dict[str, dict[str, Any]]:
    objects = yaml.safe_load_all(MANIFESTS.read_text())
    workloads = [each for each in objects if each and each["kind"] == "Deployment"]
    pods = {each["metadata"]["name"]: each["spec"]["template"]["spec"]["containers"] for each in workloads}
    return {
        f"{name}/{container['name']}": container
        for name, containers in pods.items()
        for container in containers
        if "livenessProbe" in container
    }


def test_every_container_with_a_liveness_probe_has_minutes_to_start() -> None:
    found = probed_containers()
    assert len(found) >= 3
    for name, container in found.items():
        probe = container["startupProbe"]
        assert probe["httpGet"] == container["livenessProbe"]["httpGet"], name
        assert probe["periodSeconds"] * probe["failureThreshold"] >= 120, name
