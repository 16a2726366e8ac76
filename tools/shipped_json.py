"""Writes the initial objects of a cluster as JSON, beside their YAML sources.

python -m tools.shipped_json
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import yaml

from pumice.crds import FOLDER


def files() -> Iterator[tuple[Path, str]]:
    """Every written file with its content."""
    for source in sorted(FOLDER.glob("**/*.yaml")):
        objects = list(yaml.safe_load_all(source.read_bytes()))
        yield source.with_suffix(".json"), json.dumps(objects, separators=(",", ":")) + "\n"


if __name__ == "__main__":
    for file, content in files():
        file.write_text(content)
