"""YAML files of cases, read at collection by every worker: by libyaml, which takes a tenth of the time."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

CASES = Path(__file__).parents[1] / "cases"


def read_yaml(path: Path) -> Any:
    """A file as it is written, by the quickest loader there is."""
    return yaml.load(path.read_text(), Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))  # both are safe


def read_cases(name: str) -> Any:
    """The content of ``tests/cases/<name>.yaml``."""
    return read_yaml(CASES / f"{name}.yaml")
