"""The compiled engine decides what pure Python decides. Run by ``make test-compiled``, which compiles it first."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pumice.cli.engine_form import engine_form
from tests.support.processes import run_process

ROOT = Path(__file__).parent.parent.parent

pytestmark = [
    pytest.mark.process,
    pytest.mark.skipif(engine_form() == "pure Python", reason="the engine is not compiled; make test-compiled"),
]


def run_with(source: Path, *arguments: str) -> str:
    """What a process prints that runs with the engine of this source tree."""
    done = run_process(
        [sys.executable, *arguments],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(source)},
        capture_output=True,
        text=True,
        timeout=1700,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def pure() -> Path:
    return ROOT / "src"


def compiled() -> Path:
    return Path(os.environ["PYTHONPATH"].split(os.pathsep)[0]).resolve()


def digests_with(source: Path, lives: int) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(run_with(source, "-m", "tests.support.decision_digest", str(lives)))
    assert found["module"].startswith(str(source)), found["module"]
    return found


def same_digests(lives: int) -> dict[str, Any]:
    here, there = digests_with(compiled(), lives), digests_with(pure(), lives)
    assert here["module"] != there["module"]
    assert here["digests"] == there["digests"]
    return there


@pytest.mark.timeout(900)
def test_compiled_engine_makes_the_same_decisions() -> None:
    assert same_digests(100)["decisions"] > 10_000


@pytest.mark.long
@pytest.mark.timeout(3600)
def test_same_decisions_on_100_000_events() -> None:
    assert same_digests(320)["events"] >= 100_000


@pytest.mark.timeout(900)
@pytest.mark.parametrize(("recorder", "player"), [(pure, compiled), (compiled, pure)])
def test_logs_of_one_form_replay_in_the_other(
    tmp_path: Path, recorder: Callable[[], Path], player: Callable[[], Path]
) -> None:
    record = "import sys; from pathlib import Path; from tests.support.lives import recorded_life"
    life = "for seed in range(10): recorded_life(Path(sys.argv[1]) / str(seed), seed)"
    run_with(recorder(), "-c", f"{record}\n{life}", str(tmp_path))
    folders = [str(folder) for folder in sorted(tmp_path.iterdir())]
    assert len(folders) == 10
    run_with(player(), "-m", "pumice", "replay", *folders)
