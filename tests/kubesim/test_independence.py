"""kubesim and kubebase are packages of their own: they do not name the scheduler that embeds them."""

from __future__ import annotations

from pathlib import Path

import pytest

import kubebase
import kubesim

SCHEDULER = "pumice"


@pytest.mark.parametrize("package", [kubesim, kubebase], ids=lambda package: package.__name__)
def test_sources_do_not_name_the_scheduler(package) -> None:
    (root,) = package.__path__
    files = [path for path in Path(root).rglob("*") if path.is_file() and "__pycache__" not in path.parts]
    assert len(files) > 5
    assert [str(path) for path in files if SCHEDULER in path.read_text(encoding="utf-8").lower()] == []
    assert [str(path) for path in files if SCHEDULER in path.name.lower()] == []
