"""When ``pumice install --wait`` says that a deployment is available: as ``kubectl rollout status`` does."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from pumice.install.apply import NotReadyError, await_available, await_configuration

WANTED: dict[str, Any] = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {"name": "web", "namespace": "home"},
    "spec": {"replicas": 2},
}


class Configured:
    """Shows one configuration in force after another, the last for ever."""

    def __init__(self, *in_force: str) -> None:
        self._in_force = list(in_force)

    def get(self, path: str) -> dict[str, Any]:
        if path.endswith("/configmaps/pumice-scheduler"):
            return {"data": {"scheduler.yaml": "new"}}
        assert path.endswith("/queues/root")
        now = self._in_force.pop(0) if len(self._in_force) > 1 else self._in_force[0]
        return {"status": {"scheduler": {"configuration": now}}}


CONFIG_MAP = {"kind": "ConfigMap", "metadata": {"name": "pumice-scheduler", "namespace": "home"}}


def test_the_configuration_is_awaited_until_the_scheduler_reports_it() -> None:
    cluster = Configured("old", "old", "new")
    said = list(await_configuration(cluster, CONFIG_MAP, "scheduler.yaml", 60, lambda _: None))  # type: ignore[arg-type]  # as much as it asks
    assert said == ["configmap/pumice-scheduler in force"]


def test_a_configuration_that_stays_old_is_an_error() -> None:
    with pytest.raises(NotReadyError, match="configmap/pumice-scheduler: not in force after 0 s"):
        list(await_configuration(Configured("old"), CONFIG_MAP, "scheduler.yaml", 0, lambda _: None))  # type: ignore[arg-type]  # as much as it asks


class Cluster:
    """Shows one status of the deployment after another, the last for ever."""

    def __init__(self, statuses: Sequence[dict[str, int]]) -> None:
        self._statuses = list(statuses)
        self.looks = 0

    def get(self, _: str) -> dict[str, Any]:
        self.looks += 1
        status = self._statuses[min(self.looks, len(self._statuses)) - 1]
        return {**WANTED, "metadata": {**WANTED["metadata"], "generation": 2}, "status": status}


def status(seen: int, replicas: int, updated: int, available: int) -> dict[str, int]:
    counts = {"replicas": replicas, "updatedReplicas": updated, "availableReplicas": available}
    return {"observedGeneration": seen, **counts}


BEFORE = status(1, 2, 2, 2)
"""The old version works, and its controller has not seen the new one."""
DURING = status(2, 3, 1, 2)
ALMOST = status(2, 3, 2, 2)
"""One replica of the old version still runs."""
STARTING = status(2, 2, 2, 1)
DONE = status(2, 2, 2, 2)


def test_upgrade_is_awaited_until_only_the_new_version_runs() -> None:
    cluster = Cluster([BEFORE, DURING, ALMOST, STARTING, DONE])
    said = list(await_available(cluster, [WANTED], 60, lambda _: None))  # type: ignore[arg-type]  # as much as it asks
    assert said == ["deployment.apps/web available"]
    assert cluster.looks == 5


@pytest.mark.parametrize(
    ("stuck", "reason"),
    [
        (BEFORE, "the spec update has not been observed"),
        (DURING, "1 of 2 new replicas updated"),
        (ALMOST, "1 old replicas pending termination"),
        (STARTING, "1 of 2 updated replicas available"),
    ],
)
def test_deployment_that_is_stuck_says_where(stuck: dict[str, int], reason: str) -> None:
    with pytest.raises(NotReadyError, match=f"deployment.apps/web: {reason} after .* s; see its pods"):
        list(await_available(Cluster([stuck]), [WANTED], -0.1, lambda _: None))  # type: ignore[arg-type]  # as above
