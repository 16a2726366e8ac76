"""A live run is recorded, and the record gives the same decisions in another process."""

from __future__ import annotations

import json
import os
import sys
from collections import Counter
from pathlib import Path
from typing import Any

from kubesim.server import RunningCluster
from pumice.audit.certificate import audit
from pumice.decision_log.log_files import log_files
from pumice.decision_log.writer import DecisionLog
from pumice.kube.client.api_errors import ApiError
from tests.support.live_cluster import CPU, QUEUES, eventually, live, phase, placed, scheduling, submit
from tests.support.processes import run_process


def replayed(*arguments: object, seed: str = "123") -> tuple[int, dict[str, Any]]:
    """``pumice replay`` in a process of its own, with other hashes than this one."""
    command = [sys.executable, "-m", "pumice", "replay", "-o", "json", *map(str, arguments)]
    done = run_process(
        command, env={**os.environ, "PYTHONHASHSEED": seed}, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode < 2, done.stderr
    return done.returncode, json.loads(done.stdout)


def decided(folder: Path) -> Counter[str]:
    lines = [json.loads(line) for path in log_files(folder) for line in path.read_text().splitlines()]
    return Counter(decision["does"] for line in lines if line["is"] == "cycle" for decision in line["decisions"])


def restless(running: RunningCluster, folder: Path, **more: Any) -> Any:
    """Gangs, a queue that takes its part back, binds and evictions that are refused."""

    async def run() -> None:
        for name, weight in (("a", 2), ("b", 1)):
            spec = {"weight": weight, "parent": "root"}
            await running.api.create(QUEUES, "", {"metadata": {"name": name}, "spec": spec})
        async with scheduling(running.server, decision_log=DecisionLog(folder, **more)) as scheduler:
            await eventually(lambda: scheduler.cycles > 0)
            bind, evict, refusals = scheduler.binder._api.bind, scheduler.binder._api.evict, Counter[str]()

            def refuse(pod: str, *ends: str) -> None:
                refusals[pod] += 1
                if refusals[pod] == 1 and pod.endswith(ends):
                    raise ApiError(409, "Conflict", "not this time")

            async def unsure_bind(namespace: str, pod: str, node: str, **more: Any) -> None:
                refuse(pod, "0", "3", "6")
                await bind(namespace, pod, node, **more)

            async def unsure_evict(namespace: str, pod: str, **more: Any) -> None:
                refuse(f"e-{pod}", "3")  # one only: who cannot be evicted is left alone for half a minute
                await evict(namespace, pod, **more)

            scheduler.binder._api.bind = unsure_bind  # type: ignore[method-assign]  # that is the test
            scheduler.binder._api.evict = unsure_evict  # type: ignore[method-assign]  # that is the test
            await submit(running, "lent", 12, queue="b", least=1, **{"pumice.dev/stop-seconds": "0.1"})
            await eventually(lambda: len(placed(running)["lent"]) == 12)
            await submit(running, "gang", 4, queue="a", **{"pumice.dev/run-seconds": "0.5"})
            # Alone: beside others of its queue it may need room of theirs and of another queue's, which nobody takes.
            await eventually(lambda: phase(running, "gang") == "Completed")
            await submit(running, "owner", 12, queue="a", least=1)
            # By weight 2 : 1 of 12 cpu: 8 and 4.
            await eventually(lambda: len(placed(running)["owner"]) >= 8)
            await eventually(lambda: scheduler.cache.open_assumptions == 0)
            assert scheduler.binder.failed > 0
            scheduler.engine.validate()
            load = Counter(node for job, where in placed(running).items() if job != "gang" for node in where)
            assert max(load.values()) <= CPU

    return run()


def test_another_process_decides_the_same(tmp_path: Path) -> None:
    folder = tmp_path / "log"

    async def check(running: RunningCluster) -> None:
        await restless(running, folder)

    live(tmp_path, check)
    does = decided(folder)
    assert does["bind"] >= 24 and does["evict"] >= 8 and does["pipeline"]
    for seed in ("0", "4711"):
        status, found = replayed(folder, seed=seed)
        assert status == 0 and found["same"], found
        assert found["files"][0]["decisions"] == sum(does.values())
    certificate = audit(folder)
    assert certificate.clean, certificate.findings.kept
    assert certificate.evictions["reclaim"] >= 8 and certificate.started >= 8 and certificate.recomputed


def test_files_begin_anew_and_each_stands_alone(tmp_path: Path) -> None:
    folder = tmp_path / "log"

    async def check(running: RunningCluster) -> None:
        await restless(running, folder, size=4000, files=100)

    live(tmp_path, check)
    files = log_files(folder)
    assert len(files) > 4
    status, found = replayed(*reversed(files))
    assert status == 0 and len(found["files"]) == len(files)
    assert sum(each["decisions"] for each in found["files"]) == sum(decided(folder).values())
    assert decided(folder)["bind"] >= 24
    certificate = audit(folder)
    assert certificate.clean, certificate.findings.kept
    assert certificate.files == len(files) and not certificate.chain.torn


def test_an_altered_decision_is_found_where_it_is(tmp_path: Path) -> None:
    folder = tmp_path / "log"

    async def check(running: RunningCluster) -> None:
        async with scheduling(running.server, decision_log=DecisionLog(folder)) as scheduler:
            await eventually(lambda: scheduler.cycles > 0)
            await submit(running, "job", 3)
            await eventually(lambda: phase(running, "job") == "Running")

    live(tmp_path, check)
    (path,) = log_files(folder)
    lines = path.read_text().splitlines(keepends=True)
    number = next(i for i, line in enumerate(lines) if '"does":"bind"' in line)
    lines[number] = lines[number].replace('"node":"node-', '"node":"elsewhere-', 1)
    path.write_text("".join(lines))
    status, found = replayed(path)
    difference = found["files"][0]["difference"]
    assert status == 1 and not found["same"]
    assert (difference["line"], difference["cycle"]) == (number + 1, json.loads(lines[number])["cycle"])
    assert difference["recorded"]["node"].startswith("elsewhere-")
    assert difference["replayed"]["node"].startswith("node-")
    assert difference["replayed"]["task"] == difference["recorded"]["task"]
    assert replayed(path, "--until", difference["cycle"] - 1)[0] == 0


def test_a_scheduler_that_died_in_the_middle_of_a_line(tmp_path: Path) -> None:
    folder = tmp_path / "log"

    async def check(running: RunningCluster) -> None:
        async with scheduling(running.server, decision_log=DecisionLog(folder)):
            await submit(running, "job", 3)
            await eventually(lambda: phase(running, "job") == "Running")
        before = log_files(folder)[0]
        before.write_bytes(before.read_bytes()[:-7])
        async with scheduling(running.server, decision_log=DecisionLog(folder)) as scheduler:
            await eventually(lambda: scheduler.cycles > 0)

    live(tmp_path, check)
    status, found = replayed(folder)
    assert status == 0 and [each["torn"] for each in found["files"]] == [True, False]


def test_scheduling_continues_when_decision_log_is_not_writable(tmp_path: Path) -> None:
    (tmp_path / "log").write_text("a file where the folder should be")

    async def check(running: RunningCluster) -> None:
        recorded = DecisionLog(tmp_path / "log" / "deeper")
        async with scheduling(running.server, decision_log=recorded):
            await submit(running, "job", 3)
            await eventually(lambda: phase(running, "job") == "Running")
        assert recorded.trouble and recorded.path is None

    live(tmp_path, check)
