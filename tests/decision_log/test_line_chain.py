"""Every line of a decision log has a hash over itself and the line before, from file to file."""

from __future__ import annotations

import json
from pathlib import Path

from pumice.decision_log.line_chain import chain_of, last_chain, sealed, unsealed
from pumice.decision_log.log_files import log_files
from pumice.decision_log.replay import replay
from pumice.decision_log.writer import DecisionLog
from tests.support.lives import KINDS, Life, recorded_life
from tests.support.recorded import Recorded


def chain_holds(folder: Path) -> int:
    """Go along the chain over all files; returns the number of lines."""
    chain, lines = "", 0
    for path in log_files(folder):
        for number, line in enumerate(path.read_bytes().splitlines(keepends=True)):
            if not line.endswith(b"\n"):
                break  # half a line that a crash left behind
            body, said = unsealed(line[:-1])
            assert said == chain_of(body, chain), f"{path}:{number + 1}"
            if number == 0:
                assert json.loads(body)["follows"] == chain
            chain, lines = said, lines + 1
    return lines


def test_a_sealed_line_is_json_and_gives_its_text_back() -> None:
    body = b'{"is":"gone","kind":"task","key":"ns/a"}'
    chain = chain_of(body, "")
    line = sealed(body, chain)
    assert json.loads(line) == {"is": "gone", "kind": "task", "key": "ns/a", "chain": chain}
    assert unsealed(line) == (body, chain)
    assert unsealed(body) == (body, "")
    assert chain_of(body, chain) != chain


def test_lines_are_chained_from_file_to_file(tmp_path: Path) -> None:
    recorded_life(tmp_path, 3, seconds=12, replaced=0.5)
    assert len(log_files(tmp_path)) > 2
    assert chain_holds(tmp_path) > 50


def test_the_chain_goes_on_after_a_crash_that_tore_a_line(tmp_path: Path) -> None:
    recorded_life(tmp_path, 5, seconds=6, replaced=0)
    (first,) = log_files(tmp_path)
    whole = first.read_bytes()
    torn = whole[:-9]
    first.write_bytes(torn)
    assert last_chain(first) == unsealed(torn[: torn.rindex(b"\n")].rpartition(b"\n")[2])[1]
    (tmp_path / "decisions-000002.jsonl").write_bytes(b'{"is":"log","form')  # and once more, in its first line
    recorded_life(tmp_path, 6, seconds=3, replaced=0)
    assert len(log_files(tmp_path)) == 3
    assert chain_holds(tmp_path) > 50


def test_a_very_long_last_line_has_its_chain_found(tmp_path: Path) -> None:
    path = tmp_path / "decisions-000001.jsonl"
    body = b'{"is":"x","text":"' + b"y" * 200_000 + b'"}'
    path.write_bytes(sealed(body, chain_of(body, "")) + b"\n" + b"z" * 300_000)
    assert last_chain(path) == chain_of(body, "")
    path.write_bytes(b"")
    assert last_chain(path) == ""


def test_a_log_without_hashes_can_be_replayed_and_continued(tmp_path: Path) -> None:
    recorded_life(tmp_path, 7, seconds=5, replaced=0)
    (path,) = log_files(tmp_path)
    bodies = [unsealed(line)[0] for line in path.read_bytes().splitlines()]
    heading = json.loads(bodies[0]) | {"format": 3}
    del heading["follows"]
    path.write_bytes(b"\n".join([json.dumps(heading).encode(), *bodies[1:], b""]))
    assert replay(path).difference is None and replay(path).cycles == 5
    log = DecisionLog(tmp_path)
    Life(Recorded(KINDS["steer"](), log), 8).second()
    log.close()
    heading = json.loads(log_files(tmp_path)[-1].read_bytes().splitlines()[0])
    assert (heading["format"], heading["follows"]) == (4, "")
