"""benchmarks/peers: what the comparison with other schedulers says, and which programs it builds."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from benchmarks import peer_trials
from benchmarks.peer_report import COMPILED, PURE, summarise, table
from benchmarks.peer_trials import PEERS, Check, Trial, UnavailableError, build_key, peer_program
from tests.support.processes import run_process


def trial(peer: str, rate: float, workload: str = "C", **more: object) -> Trial:
    fields = {
        "peer": peer,
        "version": "",
        "workload": workload,
        "placements": 1000,
        "seconds": 1000 / rate,
        "placements_per_second": rate,
        "cpu_seconds": 0.5,
        "peak_rss_mib": 40.0,
        "check": Check(ok=True),
        **more,
    }
    return Trial(**fields)  # type: ignore[arg-type]  # of the right types by their names


def test_multiples_are_of_medians_of_the_same_workload() -> None:
    trials = [trial(COMPILED, rate) for rate in (30_000, 50_000, 40_000)]
    trials += [trial(PURE, 20_000), trial("YuniKorn", 4_000, version="v1.9.0"), trial(COMPILED, 90_000, "A")]
    summaries = {(s.workload, s.system): s for s in summarise(trials)}
    yunikorn = summaries["C", "YuniKorn"]
    assert yunikorn.times == {COMPILED: 10.0, PURE: 5.0}
    assert summaries["C", PURE].times == {COMPILED: 2.0}
    assert summaries["C", COMPILED].times == {}
    compiled = summaries["C", COMPILED]
    assert (compiled.min, compiled.median, compiled.max, compiled.runs) == (30_000, 40_000, 50_000, 3)
    assert compiled.cpu_microseconds == 500


def test_table_marks_stopped_runs_and_names_who_is_missing() -> None:
    stopped = trial("Volcano", 70, version="v1.14.1", partial=True, reason="stopped after 20s")
    text = table(summarise([trial(PURE, 14_000), stopped]), {"kube-scheduler": "Go is not installed"})
    row = next(line for line in text.splitlines() if "Volcano v1.14.1" in line)
    assert [cell.strip() for cell in row.strip("|").split("|")] == [
        "C",
        "Volcano v1.14.1",
        "70* (70-70)",
        "200.0x",
        "500 µs",
        "40 MiB",
    ]
    assert "* Volcano: stopped after 20s; its rate is that until then" in text
    assert "kube-scheduler is not in the table: Go is not installed" in text


def test_table_says_which_rates_are_of_admitted_jobs() -> None:
    text = table(summarise([trial(PURE, 14_000), trial("Kueue", 7_000, version="v0.19.2", partial=True)]), {})
    assert "7,000†* (7,000-7,000)" in next(line for line in text.splitlines() if "Kueue v0.19.2" in line)
    assert "† Kueue picks no nodes: these are the tasks of admitted jobs." in text
    assert "†" not in table(summarise([trial(PURE, 14_000), trial("KAI", 7_000)]), {})


def test_system_that_placed_nothing_has_no_multiple() -> None:
    none = trial("Volcano", 1, placements=0, placements_per_second=0.0)
    assert summarise([trial(PURE, 14_000), none])[1].times == {}


def test_programs_built_elsewhere_are_taken_by_the_name_of_their_folder(tmp_path: Path) -> None:
    (tmp_path / "yunikorn").touch()
    yunikorn, volcano = PEERS[:2]
    assert peer_program(yunikorn, tmp_path) == tmp_path / "yunikorn"
    with pytest.raises(UnavailableError, match="has no program volcano"):
        peer_program(volcano, tmp_path)


def test_peer_without_go_is_left_out_with_the_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    with pytest.raises(UnavailableError, match="Go is not installed"):
        peer_program(PEERS[0], None)


def test_program_is_built_again_when_what_the_programs_share_has_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(peer_trials, "HERE", tmp_path)
    for folder in ("kubeobjects", "trial", "yunikorn", "volcano"):
        (tmp_path / "peers" / folder).mkdir(parents=True)
        (tmp_path / "peers" / folder / "main.go").write_text("package main\n")
    before = build_key(PEERS[0], "/bin/true")
    (tmp_path / "peers" / "volcano" / "main.go").write_text("package volcano\n")
    assert build_key(PEERS[0], "/bin/true") == before
    (tmp_path / "peers" / "trial" / "main.go").write_text("package trial\n")
    assert build_key(PEERS[0], "/bin/true") != before


@pytest.mark.parametrize("peer", PEERS, ids=lambda peer: peer.folder)
def test_every_peer_has_a_module_with_pinned_sums(peer: peer_trials.Peer) -> None:
    folder = peer_trials.HERE / "peers" / peer.folder
    assert f"module pumice/benchmarks/peers/{peer.folder}\n" in (folder / "go.mod").read_text()
    assert (folder / "go.sum").stat().st_size > 0


@pytest.mark.skipif(not shutil.which("go"), reason="there is no Go")
def test_ledger_of_the_programs_finds_wrong_placements() -> None:
    folder = peer_trials.HERE / "peers" / "trial"
    environment = {**os.environ, "CGO_ENABLED": "0", "GOFLAGS": "-p=1"}
    done = run_process(["go", "test", "."], timeout=300, cwd=folder, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
