"""Follows a decision log that grows, begins new files, and has lines that are not whole yet."""

from __future__ import annotations

from pathlib import Path

from pumice.ui.decision_log_tail import DecisionLogTail
from pumice.ui.decisions import DecisionFeed, DecisionQuery
from pumice.ui.log_index import LogIndex
from pumice.ui.picture import ClusterPicture
from pumice.ui.viewer import EVERYTHING

JOB = '{"is":"changed","kind":"job","object":{"namespace":"a","name":"x","queue":"q","user":"user-1"}}\n'
SECOND = 1_000_000


def cycle(number: int, *decisions: str) -> str:
    return f'{{"is":"cycle","cycle":{number},"now":{number * SECOND},"decisions":[{",".join(decisions)}]}}\n'


def bind(task: str) -> str:
    return f'{{"does":"bind","task":"{task}","node":"n","job":"a/x"}}'


EVICT = '{"does":"evict","task":"a/x-0","node":"n","job":"a/x","preemptor":"b/y","action":"reclaim"}'


def tasks(feed: DecisionFeed) -> list[str]:
    return [row["task"] for row in feed.document(DecisionQuery(), EVERYTHING)["decisions"]]


def test_new_lines_and_files_are_followed(tmp_path: Path) -> None:
    feed = DecisionFeed(ClusterPicture(), "log")
    tail = DecisionLogTail(tmp_path, feed)
    tail.poll()  # there is no file yet
    first = tmp_path / "decisions-000001.jsonl"
    first.write_text(JOB + cycle(1, bind("a/x-0")))
    tail.poll()
    row = feed.document(DecisionQuery(), EVERYTHING)["decisions"][0]
    assert (row["task"], row["queue"], row["user"], row["time"]) == ("a/x-0", "q", "user-1", "1970-01-01T00:00:01Z")
    with first.open("a") as file:
        whole = cycle(2, bind("a/x-1"), EVICT)
        file.write(whole[:30])
        file.flush()
        tail.poll()
        assert tasks(feed) == ["a/x-0"]
        file.write(whole[30:] + "nonsense\n" + '{"is":"cycle","cycle":"x"}\n' + cycle(3))
    (tmp_path / "decisions-000002.jsonl").write_text(cycle(4, bind("a/x-2")))
    tail.poll()
    assert tasks(feed) == ["a/x-2", "a/x-0", "a/x-1", "a/x-0"]
    tail.close()
    assert feed.since(1) == feed.document(DecisionQuery(after=1), EVERYTHING)["decisions"]


def test_short_files_before_the_last_are_read_too(tmp_path: Path) -> None:
    for number in (1, 2, 3):
        (tmp_path / f"decisions-00000{number}.jsonl").write_text(cycle(number, bind(f"a/x-{number}")))
    feed = DecisionFeed(ClusterPicture(), "log")
    tail = DecisionLogTail(tmp_path, feed)
    tail.poll()
    tail.poll()
    assert tasks(feed) == ["a/x-3", "a/x-2", "a/x-1"]
    (tmp_path / "decisions-000004.jsonl").write_text(cycle(4, bind("a/x-4")))
    for number in (1, 2, 3):
        (tmp_path / f"decisions-00000{number}.jsonl").unlink()
    tail.poll()
    tail.close()
    assert tasks(feed)[0] == "a/x-4"


def test_index_has_the_times_of_decisions(tmp_path: Path) -> None:
    index = LogIndex(tmp_path / "none")
    index.refresh()
    assert (index.span, index.document()["marks"]) == (None, [])
    (tmp_path / "decisions-000001.jsonl").write_text(cycle(10, bind("a/x-0")) + cycle(20) + cycle(30, EVICT, EVICT))
    index = LogIndex(tmp_path)
    index.refresh()
    with (tmp_path / "decisions-000001.jsonl").open("a") as file:
        file.write(cycle(40))
    index.refresh()
    assert index.span == (10 * SECOND, 40 * SECOND)
    assert index.neighbours(20 * SECOND) == (10 * SECOND, 30 * SECOND)
    assert index.neighbours(10 * SECOND) == (0, 30 * SECOND)
    assert [mark["count"] for mark in index.document()["marks"]] == [2]
    (tmp_path / "decisions-000002.jsonl").write_text("")
    (tmp_path / "decisions-000003.jsonl").write_text(cycle(50))
    index.refresh()
    files = [index.file_at(seconds * SECOND).name for seconds in (10, 49, 50, 99)]
    assert files == [f"decisions-00000{number}.jsonl" for number in (1, 1, 3, 3)]
