"""What is recorded can be replayed, wherever it was cut off and whatever came in."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubebase.label_selector import Requirement
from kubebase.resource_vector import Registry
from pumice.decision_log import writer
from pumice.decision_log.log_files import log_files
from pumice.decision_log.records import (
    ENCODER,
    FORMAT,
    Memories,
    Quiet,
    Ran,
    event_of,
    event_record,
    read_line,
    standing_of,
    standing_records,
)
from pumice.decision_log.replay import LogError, Outcome, Replayed, replay
from pumice.decision_log.writer import DecisionLog
from pumice.engine.checkpoint.restore import snapshot_engine
from pumice.engine.events import BindFailed, Changed, Event, EvictFailed, Gone
from pumice.engine.preemption.cooldown import PreemptionCooldown
from pumice.model.specs import (
    Attachment,
    Constraints,
    NodeSpec,
    NodeTerm,
    Queue,
    TaskSpec,
    VolumeDemand,
    VolumeNodes,
)
from tests.support.examples import fewer_examples
from tests.support.histories import History
from tests.support.lives import KINDS, Life, recorded_life
from tests.support.recorded import Recorded
from tests.support.taking import SECOND, taking_engine

seeds = st.integers(0, 2**32 - 1)


def outcomes(folder: Path) -> list[Outcome]:
    return [replay(path) for path in log_files(folder)]


# --- the same again --------------------------------------------------------------------------------------------------


@fewer_examples(2)
@given(seed=seeds)
def test_a_replay_decides_the_same(tmp_path_factory: pytest.TempPathFactory, seed: int) -> None:
    folder = tmp_path_factory.mktemp("log")
    recorded_life(folder, seed)
    found = outcomes(folder)
    assert [outcome.difference for outcome in found] == [None] * len(found)
    assert sum(outcome.cycles for outcome in found) == 8 and not any(outcome.torn for outcome in found)


def some_log(folder: Path) -> Path:
    """A file with a beginning of its own, events and decisions."""
    for seed in range(100):
        recorded_life(folder / str(seed), seed, seconds=6, replaced=0.3)
        for path in log_files(folder / str(seed))[1:]:
            text = path.read_text()
            if text.count('"is":"cycle"') >= 3 and '"does":"bind"' in text and '"is":"task"' in text:
                return path
    raise AssertionError("no such log")


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return some_log(tmp_path_factory.mktemp("recorded"))


def test_a_time_ends_with_its_last_cycle_and_no_later_event(recorded: Path) -> None:
    times: list[int] = []
    replay(recorded, watch=lambda cycle: times.append(cycle.now))
    lines = recorded.read_bytes().splitlines(keepends=True)
    for cycle, now in enumerate(times, 1):
        by_time = replay(recorded, at=now)
        assert by_time.cycles == cycle
        cut, seen = recorded.with_name("cut.jsonl"), 0
        for number, line in enumerate(lines):
            seen += cycles_in(line)
            if seen >= cycle:
                cut.write_bytes(b"".join(lines[: number + 1]))
                break
        if seen == cycle:  # not within a line of several idle cycles
            whole = replay(cut)
            assert by_time.engine is not None and whole.engine is not None
            assert by_time.engine.state.jobs.keys() == whole.engine.state.jobs.keys()
            assert by_time.engine.state.tasks.keys() == whole.engine.state.tasks.keys()
        cut.unlink(missing_ok=True)


def cycles_in(line: bytes) -> int:
    record = read_line(line)
    return len(list(record.cycles())) if isinstance(record, Quiet) else isinstance(record, Ran)


@given(part=st.floats(0, 1))
def test_whatever_is_torn_off_the_rest_can_be_replayed(
    tmp_path_factory: pytest.TempPathFactory, recorded: Path, part: float
) -> None:
    whole = recorded.read_bytes()
    rest = whole[: int(part * len(whole))]
    path = tmp_path_factory.mktemp("torn") / "torn.jsonl"
    path.write_bytes(rest)
    lines = rest.split(b"\n")
    if len(lines) == 1:  # not even its heading
        with pytest.raises(LogError, match="truncated before its first record"):
            replay(path)
        return
    outcome = replay(path)
    assert outcome.difference is None
    assert outcome.cycles == sum(map(cycles_in, lines[:-1]))
    if outcome.cycles:
        assert outcome.torn == bool(lines[-1])


@given(number=st.integers(0, 10_000))
def test_whatever_is_altered_is_found_in_its_cycle(
    tmp_path_factory: pytest.TempPathFactory, recorded: Path, number: int
) -> None:
    lines = recorded.read_text().splitlines()
    decided = [(i, j) for i, line in enumerate(lines) for j, _ in enumerate(json.loads(line).get("decisions", ()))]
    i, j = decided[number % len(decided)]
    cycle = json.loads(lines[i])
    if number % 3:
        taken = cycle["decisions"].pop(j)
    else:
        taken = cycle["decisions"][j] = {"does": "bind", "task": "ns/nobody", "node": "n0", "job": "ns/none"}
    lines[i] = json.dumps(cycle, separators=(",", ":"))
    path = tmp_path_factory.mktemp("altered") / "altered.jsonl"
    path.write_text("\n".join([*lines, ""]))
    difference = replay(path).difference
    assert difference is not None and taken
    assert (difference.cycle, difference.line, difference.what) == (cycle["cycle"], i + 1, "decision")
    # Where equal decisions stand side by side, it shows behind the one that was taken out.
    assert int(difference.where) >= j + 1 and difference.expected != difference.found


def test_altered_targets_are_found_before_what_follows_from_them(recorded: Path, tmp_path: Path) -> None:
    lines = [json.loads(line) for line in recorded.read_text().splitlines()]
    number = next(i for i, line in enumerate(lines) if line.get("targets"))
    lines[number]["targets"]["jobs"] = "0" * 16
    (tmp_path / "x").write_bytes(b"".join(msgspec.json.encode(line) + b"\n" for line in lines))
    difference = replay(tmp_path / "x").difference
    assert difference is not None
    assert (difference.line, difference.what, difference.where) == (number + 1, "target", "jobs")


def test_until_and_what_a_cycle_was(recorded: Path) -> None:
    seen: list[Replayed] = []
    first = json.loads(recorded.read_text().splitlines()[0])["cycles"] + 1
    outcome = replay(recorded, until=first + 1, watch=seen.append)
    assert outcome.cycles == 2 and [cycle.number for cycle in seen] == [first, first + 1]
    assert outcome.decisions == sum(len(cycle.decisions) for cycle in seen)
    assert outcome.events == sum(len(cycle.events) for cycle in seen)


VOLUMES = VolumeDemand(
    nodes=(VolumeNodes((NodeTerm((Requirement("zone", "In", ("a",)),)),), "elsewhere"),),
    attached=(Attachment("disk", private=1, shared=("ns/c",)),),
    exclusive=("ns/d",),
)


# --- what is written --------------------------------------------------------------------------------------------------


@given(seed=seeds)
def test_events_and_standings_come_back_as_they_were(seed: int) -> None:
    events: list[Event] = [event for step in History(seed).steps() for event in step]
    events += [
        BindFailed("ns/a"),
        EvictFailed("ns/a"),
        Gone(TaskSpec, "ns/a"),
        Changed(Queue("q", user_limit_factor=0.1)),
        Changed(NodeSpec("n", (1,), volume_limits=(("disk", 3),))),
        Changed(TaskSpec("ns", "a", (1,), constraints=Constraints(volumes=VOLUMES))),
    ]
    for event in events:
        back = event_of(read_line(ENCODER.encode(event_record(event))))  # type: ignore[arg-type]  # read as one of several records
        assert back == event
        assert ENCODER.encode(event_record(back)) == ENCODER.encode(event_record(event))
    life = Life(KINDS[random.Random(seed).choice(list(KINDS))](), seed)
    for _ in range(3):
        life.second()
    passed_on = snapshot_engine(life.shell.engine)
    was = passed_on.cluster
    memories = Memories(passed_on.checkpoint, was.terms, was.label_keys)
    first = read_line(ENCODER.encode(memories))
    assert isinstance(first, Memories) and first.memory == passed_on.checkpoint
    records = [read_line(ENCODER.encode(record)) for record in standing_records(was)]
    assert standing_of(first, records) == was  # type: ignore[arg-type]  # read as one of several records
    assert len(records) == len(was)


def test_amounts_are_integers_and_the_heading_says_everything(recorded: Path) -> None:
    heading, *lines = [json.loads(line) for line in recorded.read_text().splitlines()]
    assert heading["is"] == "log" and heading["format"] == FORMAT
    assert "actions:" in heading["config"] and heading["resources"][:3] == ["cpu", "memory", "pods"]
    tasks = [line.get("object") for line in lines if line.get("kind") == "task" or line["is"] == "task"]
    tasks = [task for task in tasks if task is not None]
    assert tasks and all(isinstance(amount, int) for task in tasks for amount in task["request"])


def test_resources_that_come_later_have_the_same_place(tmp_path: Path) -> None:
    registry = Registry()
    log = DecisionLog(tmp_path)
    engine = Recorded(taking_engine(registry=registry), log)
    life = Life(engine, 1)
    life.second()
    registry.index("example.com/fpga")  # by an object that said nothing else that is new
    registry.index("nvidia.com/gpu")
    life.shell.node("gpus", 8, 8, 100, labels={})
    for _ in range(3):
        life.second()
    log.close()
    assert '{"is":"resources","names":["example.com/fpga","nvidia.com/gpu"],' in log_files(tmp_path)[0].read_text()
    assert replay(log_files(tmp_path)[0]).difference is None


# --- files -----------------------------------------------------------------------------------------------------------


def begin(log: DecisionLog, cycles: int = 0) -> None:
    engine = taking_engine()
    log.begin(
        engine.policy.config, PreemptionCooldown(), engine.state.registry, cycles, snapshot_engine(engine), SECOND
    )


def test_the_oldest_files_go_and_numbers_go_on(tmp_path: Path) -> None:
    log = DecisionLog(tmp_path, files=3)
    for _ in range(5):
        begin(log)
    log.close()
    another = DecisionLog(tmp_path, files=3)  # of another process
    begin(another)
    another.close()
    (tmp_path / "notes.txt").write_text("somebody else's")
    assert [path.name for path in log_files(tmp_path)] == [f"decisions-{n:06d}.jsonl" for n in (4, 5, 6)]
    assert (tmp_path / "notes.txt").exists()


def test_a_file_is_long_enough_when_more_has_followed_than_it_began_with(tmp_path: Path) -> None:
    log = DecisionLog(tmp_path, size=500)
    assert log.wants_another  # the first
    begin(log)
    assert not log.wants_another
    beginning, registry = log.written, Registry()
    while not log.wants_another:
        log.told(BindFailed("ns/nobody"), registry)
        log.decides(registry)
    assert max(500, beginning) <= log.written - beginning <= max(500, beginning) + 100
    log.close()
    assert log.path is not None and log.path.stat().st_size == log.written


def test_cycles_in_which_nothing_happens_share_a_line(tmp_path: Path) -> None:
    log = DecisionLog(tmp_path)
    engine = Recorded(taking_engine(), log)
    now, beginning = 0, log.written
    for cycle in range(1, 201):
        now += SECOND + cycle
        if cycle == 100:
            engine.apply(BindFailed("ns/nobody"))
        engine.cycle(now)
    log.close()
    (path,) = log_files(tmp_path)
    outcome = replay(path)
    assert outcome.difference is None and (outcome.cycles, outcome.events) == (200, 1)
    kinds = [json.loads(line)["is"] for line in path.read_text().splitlines()[2:]]
    # 60 + 39 cycles have no news, the 100th has, and 60 + 40 have none.
    assert kinds == ["quiet", "quiet", "happened", "cycle", "quiet", "quiet"]
    assert log.written - beginning < 200 * 12


def test_a_full_disk_is_said_once_and_tried_again_later(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    time = [0.0]
    folder = tmp_path / "log"
    log = DecisionLog(folder, clock=lambda: time[0])
    begin(log)
    log.close()
    log._file = open("/dev/full", "wb")  # noqa: SIM115  # the log closes it
    for _ in range(3):
        log.told(BindFailed("ns/nobody"), Registry())
        log.decides(Registry())
    assert "No space left" in log.trouble and not log.wants_another
    time[0] = writer.AGAIN
    assert log.wants_another
    folder.rename(tmp_path / "away")
    folder.touch()
    begin(log)  # in vain: there is no folder
    assert "exists" in log.trouble and not log.wants_another
    folder.unlink()
    begin(log)
    assert not log.trouble and not log.wants_another
    log.close()
    assert [record.levelname for record in caplog.records] == ["ERROR", "WARNING"]
    assert (
        "scheduling continues" in caplog.records[0].message
        and "Continuing the decision log in a new file" in caplog.records[1].message
    )
    assert replay(log_files(folder)[0]).difference is None


# --- what cannot be replayed ------------------------------------------------------------------------------------------


def altered(recorded: Path, folder: Path, **heading: Any) -> Path:
    first, *lines = recorded.read_text().splitlines(keepends=True)
    path = folder / "altered.jsonl"
    path.write_text(json.dumps({**json.loads(first), **heading}) + "\n" + "".join(lines))
    return path


def test_a_plugin_that_is_not_installed_is_named(recorded: Path, tmp_path: Path) -> None:
    text = 'actions: "allocate"\ntiers:\n- plugins: [{name: acme-policy}]\n'
    with pytest.raises(LogError, match=r'cannot use the recorded configuration: .*:3: .*"acme-policy"'):
        replay(altered(recorded, tmp_path, config=text))


def test_another_format_is_refused_by_name(recorded: Path, tmp_path: Path) -> None:
    with pytest.raises(LogError, match=r"written by Pumice 9\.9 in format 1; this version reads formats 3 and 4"):
        replay(altered(recorded, tmp_path, format=1, pumice="9.9"))


@pytest.mark.parametrize("text", ["", "hello\n", '{"is":"cycle"}\n', '{"some":"json"}\n', "[]\n", "\x00" * 50])
def test_replay_rejects_file_that_is_no_decision_log(tmp_path: Path, text: str) -> None:
    (tmp_path / "x").write_text(text)
    with pytest.raises(LogError, match=r"decision log"):
        replay(tmp_path / "x")


def test_a_line_that_is_damaged_in_the_middle_is_named(recorded: Path, tmp_path: Path) -> None:
    lines = recorded.read_text().splitlines(keepends=True)
    number = next(i for i, line in enumerate(lines) if '"is":"changed"' in line)
    for bad in ('{"is":"changed","kind":"ghost","object":{}}\n', '{"is":"chan\n', '{"is":"task","object":{}}\n'):
        (tmp_path / "x").write_text("".join([*lines[:number], bad, *lines[number + 1 :]]))
        with pytest.raises(LogError, match=f"x:{number + 1}: "):
            replay(tmp_path / "x")
