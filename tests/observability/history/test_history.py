"""The history of queues: tiers, means, gaps, restarts, and a file that stays small."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path

import aiohttp
import pytest

from kubesim.server import RunningCluster
from pumice.observability.endpoints import Endpoints
from pumice.observability.history.reader import NoHistoryError, read_history
from pumice.observability.history.recorder import HistoryRecorder, sample
from pumice.observability.history.store import CAPACITY, HistoryError, HistoryStore, Point
from pumice.observability.history.tiers import DAY, HOUR, MINUTES, SECONDS
from pumice.observability.probes import scheduler_probes
from tests.support.live_cluster import eventually, live, scheduling, submit

NAMES = ("cpu", "memory", "pods", "gpu")
START = 1_800_000_000 // DAY * DAY


@pytest.fixture
def place(tmp_path: Path) -> Path:
    return tmp_path / "data" / "history.db"


@pytest.fixture
def store(place: Path) -> Iterator[HistoryStore]:
    made = HistoryStore(place, largest=64 << 20)
    yield made
    made.close()


def write(store: HistoryStore, time: int, cpu: int, names: tuple[str, ...] = NAMES) -> None:
    used = [cpu if name == "cpu" else 0 for name in names]
    whole = [8000 if name == "cpu" else 0 for name in names]
    queue = Point(used, used, [], [1, 2, 3, 4] if cpu else [])
    store.write(time, names, {"root/q": queue, "root/idle": Point(), CAPACITY: Point(whole)})


def known(column: list[int | None]) -> list[int]:
    return [value for value in column if value is not None]


def test_hour_has_every_step_and_gaps(store: HistoryStore, place: Path) -> None:
    for number in range(6):
        if number != 3:
            write(store, START + number * SECONDS.step, 1000 * number)
    found = read_history(place, "root/q", "hour", START + 5 * SECONDS.step)
    assert found["step"] == SECONDS.step and len(found["times"]) == HOUR // SECONDS.step
    assert found["times"][-1] == START + 5 * SECONDS.step
    assert found["used"]["cpu"][-6:] == [0, 1000, 2000, None, 4000, 5000]
    assert found["capacity"]["cpu"][-6:] == [8000, 8000, 8000, None, 8000, 8000]
    assert found["tasks"]["waiting"][-2:] == [4, 4]
    assert known(read_history(place, "root/idle", "hour", START + 60)["used"]["cpu"]) == [0] * 5
    assert known(read_history(place, "none", "hour", START + 60)["jobs"]["running"]) == [0] * 5


def test_coarser_tiers_are_means_of_the_finer(store: HistoryStore, place: Path) -> None:
    for number in range(2 * HOUR // SECONDS.step + 1):
        write(store, START + number * SECONDS.step, 1000 if number % 2 else 3000)
    day = read_history(place, "root/q", "day", START + 2 * HOUR)
    assert day["step"] == MINUTES.step
    assert known(day["used"]["cpu"]) == [2000] * (2 * HOUR // MINUTES.step)
    month = read_history(place, "root/q", "month", START + 2 * HOUR)
    assert month["step"] == 2 * HOUR and known(month["used"]["cpu"]) == [2000]
    assert known(read_history(place, "root/q", "year", START + 2 * HOUR)["jobs"]["pending"]) == [2]


def test_history_survives_a_restart_with_other_resources(store: HistoryStore, place: Path) -> None:
    write(store, START, 1000)
    store.close()
    again = HistoryStore(place, largest=64 << 20)
    write(again, START + SECONDS.step, 2000, ("gpu", "cpu"))
    again.close()
    found = read_history(place, "root/q", "hour", START + SECONDS.step)
    assert found["used"]["cpu"][-2:] == [1000, 2000]


def test_old_points_are_deleted_and_the_file_stays_small(place: Path) -> None:
    store = HistoryStore(place, largest=200_000)
    for number in range(400):
        points = {f"root/q{j}": Point([10**12 + number + j], [10**12], [], [1, 1, 1, 1]) for j in range(40)}
        store.write(START + number * SECONDS.step, ["cpu"], {**points, CAPACITY: Point([1])})
    store.close()
    database = sqlite3.connect(place)
    size, pages, free = (
        database.execute(f"PRAGMA {name}").fetchone()[0] for name in ("page_size", "page_count", "freelist_count")
    )
    oldest = database.execute("SELECT min(time) FROM points WHERE tier=?", (SECONDS.number,)).fetchone()[0]
    database.close()
    assert (pages - free) * size < 300_000
    assert oldest > START


def test_file_of_something_else_is_refused(place: Path) -> None:
    place.parent.mkdir(parents=True)
    place.write_text("not a database, but long enough to be looked at as one " * 100)
    with pytest.raises(HistoryError, match=str(place)):
        HistoryStore(place, largest=1 << 20)
    with pytest.raises(NoHistoryError, match=str(place)):
        read_history(place, "root", "hour", START)
    with pytest.raises(NoHistoryError, match="no history yet"):
        read_history(place.with_name("none"), "root", "hour", START)


def test_scheduler_records_and_serves_its_history(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pumice.observability.history.recorder.SAMPLE_SECONDS", 0.0)
    recorder = HistoryRecorder(tmp_path / "history.db")

    async def check(running: RunningCluster) -> None:
        async with scheduling(running.server) as scheduler:
            probes = scheduler_probes(scheduler, recorder)
            await submit(running, "big", 40, least=1)
            await eventually(lambda: sample(scheduler.engine)["root/default"].counts == [1, 0, 12, 28])
            point = sample(scheduler.engine)["root/default"]
            assert (point.used[0], point.waiting[0]) == (12_000, 28_000)
            scheduler.cycle()
            recorder.close()  # writes what there is
            async with Endpoints(("127.0.0.1", 0), probes) as endpoints, aiohttp.ClientSession() as session:
                async with session.get(f"{endpoints.url}/history?queue=root/default&range=hour") as response:
                    assert max(known((await response.json())["used"]["cpu"])) > 0
                async with session.get(f"{endpoints.url}/history?range=week") as response:
                    assert (response.status, "hour, day" in await response.text()) == (400, True)

    live(tmp_path, check)
