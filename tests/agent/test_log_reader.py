"""Logs as readers get them: parts of them, across rotated files, and limits."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from pumice.agent.log_reader import LogQuery, NoLogError, log_path, read_log
from pumice.agent.shim.log_writer import LONGEST_PART, LogWriter


def text_of(path: Path, query: LogQuery) -> str:
    async def read() -> bytes:
        return b"".join([block async for block in read_log(path, query, is_over=lambda: True)])

    return asyncio.run(read()).decode()


def write(path: Path, *contents: bytes, most: int = 1 << 20, files: int = 3) -> None:
    log = LogWriter(str(path), most, files)
    for content in contents:
        log.write("stdout", content)
    log.close()


def test_lines_come_back_as_they_were_written(tmp_path: Path) -> None:
    """Also one that came in pieces, one that is very long, and one without an end."""
    long = b"x" * (3 * LONGEST_PART + 5)
    write(tmp_path / "0.log", b"a\nb", b"c\n", long + b"\n", b"end")
    assert text_of(tmp_path / "0.log", LogQuery()) == f"a\nbc\n{long.decode()}\nend"
    assert text_of(tmp_path / "0.log", LogQuery(follow=True)) == f"a\nbc\n{long.decode()}\nend"


def test_tail_and_limit(tmp_path: Path) -> None:
    write(tmp_path / "0.log", b"".join(b"%d\n" % number for number in range(10)))
    path = tmp_path / "0.log"
    assert text_of(path, LogQuery(tail=2)) == "8\n9\n"
    assert text_of(path, LogQuery(tail=0)) == ""
    assert text_of(path, LogQuery(tail=99)) == text_of(path, LogQuery())
    assert text_of(path, LogQuery(limit=5)) == "0\n1\n2"
    assert text_of(path, LogQuery(tail=2, limit=1)) == "8"


def test_rotated_files_are_read_from_the_oldest_on(tmp_path: Path) -> None:
    """Each line takes 45 bytes or 46: two in a file, and the oldest of ten are gone."""
    write(tmp_path / "0.log", *(b"line %d\n" % number for number in range(10)), most=100, files=3)
    assert text_of(tmp_path / "0.log", LogQuery()).splitlines() == [f"line {number}" for number in range(4, 10)]
    assert text_of(tmp_path / "0.log", LogQuery(tail=3)).splitlines() == ["line 7", "line 8", "line 9"]


def test_a_slow_follower_misses_nothing_that_is_still_there(tmp_path: Path) -> None:
    """It goes on with the oldest file that was begun after its own, not with the newest; also if its own is gone."""
    path = tmp_path / "0.log"
    log = LogWriter(str(path), 100, 5)  # two lines in a file

    def numbers(first: int, last: int) -> list[str]:
        return [f"line {number}" for number in range(first, last)]

    def put(first: int, last: int) -> None:
        for line in numbers(first, last):
            log.write("stdout", f"{line}\n".encode())

    put(0, 2)
    steps = iter([(2, 10), (10, 30)])

    def is_over() -> bool:  # asked before each look at the files
        if (step := next(steps, None)) is not None:
            put(*step)
        return step is None

    async def read() -> str:
        blocks = read_log(path, LogQuery(follow=True), is_over=is_over)
        return b"".join([block async for block in blocks]).decode()

    found = asyncio.run(read()).splitlines()
    log.close()
    assert found == [*numbers(0, 10), *numbers(20, 30)]  # five files of two lines are left of the last twenty


def test_the_run_before_is_found_by_its_number(tmp_path: Path) -> None:
    runs = tmp_path / "logs" / "main"
    runs.mkdir(parents=True)
    with pytest.raises(NoLogError, match='container "main" not found'):
        log_path(tmp_path, "main", previous=False)
    for number in (9, 10):
        (runs / f"{number}.log").touch()
    assert log_path(tmp_path, "main", previous=False).name == "10.log"
    assert log_path(tmp_path, "main", previous=True).name == "9.log"


def test_only_newlines_end_lines_also_in_rotated_files(tmp_path: Path) -> None:
    """Progress bars go back to the beginning of their line."""
    lines = [f"{number}%\r{number + 1}%" for number in range(4)]
    write(tmp_path / "0.log", *(f"{line}\n".encode() for line in lines), most=100, files=3)
    assert (tmp_path / "0.log.1").exists()
    assert text_of(tmp_path / "0.log", LogQuery()) == "".join(f"{line}\n" for line in lines)
    assert text_of(tmp_path / "0.log", LogQuery(tail=3)) == "".join(f"{line}\n" for line in lines[1:])
    assert text_of(tmp_path / "0.log", LogQuery(since=0.0)) == text_of(tmp_path / "0.log", LogQuery())


def test_a_line_that_a_full_disk_has_cut_does_not_hide_those_after_it(tmp_path: Path) -> None:
    write(tmp_path / "0.log", b"a\n", b"b\n")
    whole = (tmp_path / "0.log").read_bytes().splitlines(keepends=True)
    (tmp_path / "0.log").write_bytes(whole[0][:12] + b"".join(whole))
    assert text_of(tmp_path / "0.log", LogQuery(since=0.0)).splitlines()[-1] == "b"
