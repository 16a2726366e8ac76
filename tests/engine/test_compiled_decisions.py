"""The compiled engine decides what pure Python decides. Run by ``make test-compiled``, which compiles it first."""

from __future__ import annotations

import json
import os
import sys
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


def digests_with(source: Path) -> dict[str, Any]:
    done = run_process(
        [sys.executable, "-m", "tests.support.decision_digest", "100"],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(source)},
        capture_output=True,
        text=True,
        timeout=600,
        check=True,
    )
    found: dict[str, Any] = json.loads(done.stdout)
    assert found["module"].startswith(str(source)), found["module"]
    return found


@pytest.mark.timeout(900)
def test_compiled_engine_makes_the_same_decisions() -> None:
    compiled = digests_with(Path(os.environ["PYTHONPATH"].split(os.pathsep)[0]).resolve())
    pure = digests_with(ROOT / "src")
    assert compiled["module"] != pure["module"]
    assert pure["decisions"] > 5_000
    assert compiled["digests"] == pure["digests"]
