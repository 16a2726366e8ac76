"""The programs where everybody is at work: ``pumice up`` with its scheduler and controllers."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.cli.cluster.calls import Caller
from tests.support.api_servers import pumice_up

SECONDS = 90.0  # suspended pods take the 30 seconds of their grace period


@pytest.fixture(scope="module")
def up() -> Iterator[Path]:
    with pumice_up("--nodes", "3", everything=True) as (_, kubeconfig):
        yield kubeconfig


@pytest.fixture
def live(up: Path, monkeypatch: pytest.MonkeyPatch) -> Caller:
    return Caller(up, monkeypatch)


def until(seen: Callable[[], bool]) -> None:
    deadline = time.monotonic() + SECONDS
    while not seen():
        assert time.monotonic() < deadline, "not seen in time"
        time.sleep(0.1)


def phase(call: Caller, job: str) -> str:
    return call.said(f"vcctl job get {job}").splitlines()[1].split()[2]


def running(call: Caller, queue: str) -> int:
    return int(call.said(f"vqueues {queue}").splitlines()[1].split()[-2])


def test_a_day_on_a_cluster(live: Caller) -> None:
    live.said("vcctl queue create team --weight 3")
    live.said("vcctl queue create night -p team")
    assert live.said("vsub sleep -q night -r 3 -m 3") == "job.batch.volcano.sh/sleep created in queue night\n"
    until(lambda: phase(live, "sleep") == "Running")
    until(lambda: running(live, "root") == running(live, "team") == running(live, "night") == 1)
    # 3 pods of 1 cpu each; of 3 nodes with 32 each that is 3 / 96
    until(lambda: "3.1%" in live.said("vqueues night -o wide"))
    assert "sleep-main-2" in live.said("vcctl job view sleep")

    assert live.said("vcctl queue operate team -a close").startswith("queue.scheduling.volcano.sh/team closing")
    assert "night" in live("vsub late -q night").err
    overruled = live.said("vcctl queue operate night -a open --wait 600")  # it does not wait for what cannot come
    assert "night is Closing: OpenQueue was executed, but " in overruled and "team" in overruled
    live.said("vcctl queue operate team -a open")
    assert live.said("vsuspend sleep") == "job.batch.volcano.sh/sleep suspended\n"
    until(lambda: running(live, "root") == 0)

    live.said("vsub brief -q night --run-seconds 0.1")
    until(lambda: phase(live, "brief") == "Completed")
    assert live.said("vcctl queue delete team --yes") == "queue.scheduling.volcano.sh/team deleted\n"
    assert live("vjobs") == (0, "", "no jobs in namespace default; -A looks in all\n")
    assert len(live.said("vqueues").splitlines()) == 3  # the heading, root and default
