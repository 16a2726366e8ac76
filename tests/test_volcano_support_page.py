"""docs/volcano-support.md is what the table in the code says."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from tests.support.processes import run_process

ROOT = Path(__file__).parent.parent


def test_the_page_is_up_to_date():
    """If not: python tools/volcano_support_page.py > docs/volcano-support.md."""
    done = run_process(
        [sys.executable, "tools/volcano_support_page.py"],
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": str(ROOT / "src"), "PYTHONIOENCODING": "utf-8"},
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=True,
    )
    assert (ROOT / "docs" / "volcano-support.md").read_text(encoding="utf-8") == done.stdout
