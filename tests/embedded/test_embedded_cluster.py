"""Pumice on the embedded server: its rules, the first queues and their finalizers, from start to start."""

from __future__ import annotations

import asyncio
import contextlib
from pathlib import Path
from typing import Any

from kubesim.api.status import ApiError
from kubesim.server import RunningCluster, ServerSettings, running_cluster
from pumice.embedded.embedded_cluster import with_pumice

QUEUES = "queues.scheduling.volcano.sh"


def settings(place: Path, data: Path | None = None) -> ServerSettings:
    return ServerSettings(data=data, kubeconfig=place / "kubeconfig", nodes=[])


def test_admission_rules_are_on_by_default(tmp_path: Path) -> None:
    lost = {"metadata": {"name": "lost"}, "spec": {"parent": "nowhere"}}

    async def create(**more: Any) -> list[str]:
        async with running_cluster(with_pumice(settings(tmp_path), **more)) as running:
            with contextlib.suppress(ApiError):
                await running.api.create(QUEUES, "", lost)
            return [queue["metadata"]["name"] for queue in running.api.list(QUEUES)]

    assert asyncio.run(create()) == ["default", "root"]
    assert asyncio.run(create(admission=False)) == ["default", "lost", "root"]


def test_initial_queues_are_unchanged_by_admission_defaults(tmp_path: Path) -> None:
    async def look() -> None:
        async with running_cluster(with_pumice(settings(tmp_path))) as running:
            before = running.api.list(QUEUES)
            for queue in before:

                def touch(found: dict[str, Any]) -> None:
                    found["metadata"]["labels"] = {"touched": "yes"}

                after = await running.api.modify(QUEUES, "", queue["metadata"]["name"], touch)
                assert after and after["spec"] == queue["spec"]

    asyncio.run(look())


def test_queues_have_a_finalizer_only_with_controllers(tmp_path: Path) -> None:
    """Through three starts: with controllers, without, with. What is being deleted stays as it was."""

    def finalizers(running: RunningCluster) -> dict[str, list[str]]:
        return {q["metadata"]["name"]: q["metadata"].get("finalizers", []) for q in running.api.list(QUEUES)}

    async def live() -> None:
        ours, theirs = "pumice.dev/queue", "example.com/theirs"
        kept = settings(tmp_path, tmp_path / "data")
        async with running_cluster(with_pumice(kept, controllers=True)) as running:
            for name in ("leaving", "staying"):
                about = {"name": name, "finalizers": [theirs]}
                await running.api.create(QUEUES, "", {"metadata": about, "spec": {}})
            await running.api.delete(QUEUES, "", "leaving")
            assert finalizers(running) == {
                "default": [ours], "leaving": [theirs, ours], "root": [ours], "staying": [theirs, ours]
            }  # fmt: skip
        async with running_cluster(with_pumice(kept)) as running:
            assert finalizers(running) == {"default": [], "leaving": [theirs, ours], "root": [], "staying": [theirs]}
            await running.api.create(QUEUES, "", {"metadata": {"name": "new"}, "spec": {}})
            assert finalizers(running)["new"] == []
        async with running_cluster(with_pumice(kept, controllers=True)) as running:
            assert finalizers(running)["new"] == [ours]
            assert finalizers(running)["staying"] == [theirs, ours]

    asyncio.run(live())
