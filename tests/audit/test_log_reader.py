"""A log of which a line was changed, removed, inserted or moved is refused, and the place is named."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pumice.audit.certificate import audit
from pumice.audit.log_reader import AlteredLogError, LogReader, UnusableLogError
from pumice.decision_log.line_chain import unsealed
from pumice.decision_log.log_files import log_files
from tests.support.lives import recorded_life


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    folder = tmp_path_factory.mktemp("log")
    recorded_life(folder, 3, seconds=8, replaced=0.5)
    files = {path.name: path.read_bytes() for path in log_files(folder)}
    assert len(files) > 2
    return files


def written(files: dict[str, bytes], folder: Path) -> Path:
    for name, text in files.items():
        (folder / name).write_bytes(text)
    return folder


def read(folder: Path) -> LogReader:
    reader = LogReader(folder)
    for _ in reader:
        pass
    return reader


def test_an_untouched_log_is_read_to_its_end(log: dict[str, bytes], tmp_path: Path) -> None:
    reader = read(written(log, tmp_path))
    assert reader.seen.lines == sum(text.count(b"\n") for text in log.values())
    assert not reader.seen.torn and not reader.seen.unchained and not reader.seen.began
    assert audit(tmp_path).clean


Edit = Callable[[list[bytes], int], int]
"""Changes lines, at a number; returns the number of the first line that is wrong."""


def altered(lines: list[bytes], number: int) -> int:
    body = lines[number]
    at = body.rindex(b'"', 0, body.rindex(b',"chain"'))
    lines[number] = body[:at] + b"x" + body[at:]
    return number


def removed(lines: list[bytes], number: int) -> int:
    del lines[number]
    return number


def inserted(lines: list[bytes], number: int) -> int:
    lines.insert(number, lines[number])
    return number + 1


def moved(lines: list[bytes], number: int) -> int:
    lines[number], lines[number + 1] = lines[number + 1], lines[number]
    return number


def without_hash(lines: list[bytes], number: int) -> int:
    lines[number] = unsealed(lines[number].rstrip(b"\n"))[0] + b"\n"
    return number


@settings(max_examples=40)
@given(
    edit=st.sampled_from([altered, removed, inserted, moved, without_hash]),
    file=st.integers(0, 2),
    part=st.floats(0, 0.99),
)
def test_a_changed_line_is_refused_and_named(
    tmp_path_factory: pytest.TempPathFactory, log: dict[str, bytes], edit: Edit, file: int, part: float
) -> None:
    folder = tmp_path_factory.mktemp("altered")
    name = list(log)[file]
    lines = log[name].splitlines(keepends=True)
    number = edit(lines, 1 + int(part * (len(lines) - 3)))
    written(log | {name: b"".join(lines)}, folder)
    with pytest.raises(AlteredLogError, match=rf"{name}:{number + 1}: "):
        read(folder)


def test_lines_removed_at_the_end_of_a_file_are_missed_by_the_next(log: dict[str, bytes], tmp_path: Path) -> None:
    first, second = list(log)[:2]
    lines = log[first].splitlines(keepends=True)
    written(log | {first: b"".join(lines[:-1])}, tmp_path)
    with pytest.raises(AlteredLogError, match=rf"{second}:1: this file does not continue the file before"):
        read(tmp_path)


def test_a_missing_file_is_missed_by_the_next(log: dict[str, bytes], tmp_path: Path) -> None:
    names = list(log)
    written({name: log[name] for name in (names[0], *names[2:])}, tmp_path)
    with pytest.raises(AlteredLogError, match=rf"{names[2]}:1: .* files between the two, are missing"):
        read(tmp_path)


def test_older_files_may_have_been_deleted(log: dict[str, bytes], tmp_path: Path) -> None:
    names = list(log)
    reader = read(written({name: log[name] for name in names[1:]}, tmp_path))
    last = log[names[0]].splitlines()[-1]
    assert reader.seen.began == unsealed(last)[1]


def test_half_a_line_at_the_end_is_no_alteration(log: dict[str, bytes], tmp_path: Path) -> None:
    last = list(log)[-1]
    written(log | {last: log[last][:-20]}, tmp_path)
    certificate = audit(tmp_path)
    assert certificate.clean and [path.name for path in certificate.chain.torn] == [last]


def test_a_log_without_hashes_is_audited_and_said_to_have_none(log: dict[str, bytes], tmp_path: Path) -> None:
    files = {}
    for name, text in log.items():
        bodies = [unsealed(line)[0] for line in text.splitlines()]
        heading = json.loads(bodies[0]) | {"format": 3}
        del heading["follows"]
        files[name] = b"\n".join([json.dumps(heading).encode(), *bodies[1:], b""])
    certificate = audit(written(files, tmp_path))
    assert certificate.clean and certificate.chain.lines == 0
    assert [path.name for path in certificate.chain.unchained] == list(log)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"", "not a decision log, or truncated before its first record"),
        (b"hello\n", "not a decision log"),
        (b'{"is":"gone","kind":"task","key":"a"}\n', "its first line is no heading"),
        (
            b'{"is":"log","format":9,"pumice":"9.9","config":"","resources":[]}\n',
            "written by Pumice 9.9 in format 9; this version reads formats 3 and 4",
        ),
        (b'{"is":"log","format":3,"pumice":"1","config":"a: [","resources":[]}\n', "cannot read the recorded"),
        (b'{"is":"log","format":3,"pumice":"1","config":"[1]","resources":[]}\n', "cannot read the recorded"),
    ],
)
def test_what_is_no_log_is_refused(tmp_path: Path, text: bytes, message: str) -> None:
    path = tmp_path / "decisions-000001.jsonl"
    path.write_bytes(text)
    with pytest.raises(UnusableLogError, match=message):
        audit(path)


def test_a_directory_without_a_log_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UnusableLogError, match="no decision log in this directory"):
        audit(tmp_path)
