"""Another configuration while everything runs: taken over between two cycles, or refused with its line."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from kubesim.server import RunningCluster
from pumice.decision_log.replay import replay
from pumice.decision_log.writer import DecisionLog, log_files
from pumice.engine.config.scheduler_config import DEFAULT_CONFIG, ConfigError
from pumice.kube.client.api import Api
from pumice.kube.client.kubeconfig import Access
from pumice.kube.client.sync_client import Client
from pumice.kube.client.transport import Session
from pumice.observability.metrics.scheduler_metrics import SchedulerMetrics
from pumice.scheduler import config_watcher
from pumice.scheduler.config_map_watch import ConfigMapWatch
from pumice.scheduler.config_watcher import ConfigWatcher
from tests.support.live_cluster import eventually, live, phase, placed, scheduling, submit

NOTHING_STARTS = 'actions: "enqueue"\n'


def file_with(path: Path, text: str) -> tuple[ConfigWatcher, list[str]]:
    path.write_text(text)
    said: list[str] = []
    return ConfigWatcher(path, said.append), said


def test_config_watcher_compares_content_not_modification_time(tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    file, said = file_with(path, DEFAULT_CONFIG)
    assert file.first().actions[0] == "enqueue"
    os.utime(path, (1, 1))
    assert file.read_if_changed() is None
    before = path.stat()
    path.write_text(DEFAULT_CONFIG.replace("reclaim, preempt", "preempt, reclaim"))
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))  # within the same tick of a coarse clock
    changed = file.read_if_changed()
    assert changed is not None and changed.actions[-1] == "reclaim"
    assert file.read_if_changed() is None and said == []


def test_a_bad_file_is_refused_once_with_its_line(tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    file, said = file_with(path, DEFAULT_CONFIG)
    file.first()
    path.write_text('actions: "allocate"\ntiers:\n- plugins:\n  - name: gagn\n')
    assert file.read_if_changed() is None and file.read_if_changed() is None
    assert len(said) == 1
    assert said[0].startswith(f"{path}:4: ") and '"gang"' in said[0] and said[0].endswith("stays in force")
    path.write_bytes(b"\xff\xfe")
    assert file.read_if_changed() is None and len(said) == 2 and "UTF-8" in said[1]
    path.unlink()
    assert file.read_if_changed() is None and len(said) == 3 and "No such file" in said[2]
    path.write_text(DEFAULT_CONFIG)  # as it was: nothing to do
    assert file.read_if_changed() is None and len(said) == 3
    path.write_text("actions: allocate\n")
    assert file.read_if_changed() is not None


def test_a_mounted_configmap_is_swapped_behind_a_link(tmp_path: Path) -> None:
    for version, text in (("..v1", DEFAULT_CONFIG), ("..v2", NOTHING_STARTS)):
        (tmp_path / version).mkdir()
        (tmp_path / version / "config.yaml").write_text(text)
    (tmp_path / "..data").symlink_to("..v1")
    (tmp_path / "config.yaml").symlink_to("..data/config.yaml")
    file = ConfigWatcher(tmp_path / "config.yaml", pytest.fail)
    file.first()
    (tmp_path / "..data_tmp").symlink_to("..v2")
    (tmp_path / "..data_tmp").replace(tmp_path / "..data")
    changed = file.read_if_changed()
    assert changed is not None and changed.actions == ("enqueue",)


def test_a_watched_config_map_takes_the_place_of_its_mounted_file(tmp_path: Path) -> None:
    """The file is never read again: it is checked every 1000 s only."""
    path = tmp_path / "config.yaml"
    file, said = file_with(path, NOTHING_STARTS)
    place = "/api/v1/namespaces/default/configmaps"

    async def check(running: RunningCluster) -> None:
        config_map = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "settings"}}
        client = Client(Access(running.server))
        await asyncio.to_thread(client.create, place, {**config_map, "data": {"config.yaml": NOTHING_STARTS}})
        async with Session(Access(running.server)) as session:
            file.follow(ConfigMapWatch(Api(session), "default", "settings", "config.yaml"))
            async with scheduling(running.server, file.first(), config_file=file) as scheduler:
                for text in (DEFAULT_CONFIG, "actions: nonsense\n", NOTHING_STARTS):
                    await asyncio.to_thread(client.merge, f"{place}/settings", {"data": {"config.yaml": text}})
                    if text == "actions: nonsense\n":
                        await eventually(lambda: bool(said))
                        assert scheduler.config.text == DEFAULT_CONFIG
                    else:
                        await eventually(lambda text=text: scheduler.config.text == text)

    with mock.patch.object(config_watcher, "EVERY", 1000):
        live(tmp_path, check)
    assert len(said) == 1 and 'unknown action "nonsense"' in said[0]


def test_a_config_map_that_is_not_there_leaves_the_file(tmp_path: Path) -> None:
    file, _ = file_with(tmp_path / "config.yaml", NOTHING_STARTS)
    missing = mock.Mock(text=None)
    file.follow(missing)
    assert file.first().text == NOTHING_STARTS
    missing.text = DEFAULT_CONFIG
    changed = file.read_if_changed()
    assert changed is not None and changed.text == DEFAULT_CONFIG


def test_a_bad_file_at_the_start_is_an_error(tmp_path: Path) -> None:
    file, _ = file_with(tmp_path / "config.yaml", "actions: nonsense\n")
    with pytest.raises(ConfigError, match=r"config\.yaml:1: "):
        file.first()


def test_a_running_scheduler_follows_its_file_and_the_log_knows(tmp_path: Path) -> None:
    path, folder = tmp_path / "config.yaml", tmp_path / "log"
    file, said = file_with(path, NOTHING_STARTS)

    async def check(running: RunningCluster) -> None:
        more: dict[str, Any] = {"config_file": file, "decision_log": DecisionLog(folder)}
        async with scheduling(running.server, file.first(), **more) as scheduler:
            await submit(running, "job", 3)
            await eventually(lambda: phase(running, "job") == "Inqueue")
            path.write_text("actions: [allocate]\n")
            await eventually(lambda: bool(said))
            assert "config.yaml:1: actions must be one text" in said[0] and not placed(running)
            assert scheduler.config.actions == ("enqueue",)
            path.write_text(DEFAULT_CONFIG)
            file.check_now()
            await eventually(lambda: phase(running, "job") == "Running")
            assert len(scheduler.config.actions) == 5 and not scheduler.config_refused
            scheduler.engine.validate()

    with mock.patch.object(config_watcher, "EVERY", 0.1):
        live(tmp_path, check)
    assert [replay(each).difference for each in log_files(folder)] == [None, None]
    headings = [replay(each).heading.config for each in log_files(folder)]
    assert headings == [NOTHING_STARTS, DEFAULT_CONFIG]


def test_a_configuration_that_fails_when_it_is_tried_leaves_everything_as_it_was(tmp_path: Path) -> None:
    async def check(running: RunningCluster) -> None:
        async with scheduling(running.server) as scheduler:
            await submit(running, "job", 2, **{"pumice.dev/run-seconds": "0.3"})
            await eventually(lambda: phase(running, "job") == "Running")
            before, engine = scheduler.config, scheduler.engine
            with mock.patch("pumice.scheduler.loop.restore_engine", side_effect=ZeroDivisionError("in a plugin")):
                scheduler.reconfigure(before)
                await eventually(lambda: bool(scheduler.config_refused))
            assert "ZeroDivisionError: in a plugin" in scheduler.config_refused
            assert scheduler.engine is engine and scheduler.config is before
            await submit(running, "next", 2)
            await eventually(lambda: phase(running, "next") == "Running")
            await asyncio.sleep(0)

    live(tmp_path, check)


def test_a_file_that_cannot_be_used_shows_in_the_metrics_until_it_can(tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    file, _ = file_with(path, DEFAULT_CONFIG)

    async def check(running: RunningCluster) -> None:
        async with scheduling(running.server, file.first(), config_file=file) as scheduler:
            metrics = SchedulerMetrics(scheduler)

            def refused() -> float:
                (family,) = (found for found in metrics.collect() if found.name == "pumice_configuration_refused")
                return family.samples[0].value

            assert refused() == 0
            path.write_text(f"{DEFAULT_CONFIG}nonsense: 3\n")
            file.check_now()
            await eventually(lambda: refused() == 1)
            path.write_text(DEFAULT_CONFIG)
            file.check_now()
            await eventually(lambda: refused() == 0)

    live(tmp_path, check)
