"""Writes the objects that a cluster has from the start as JSON, beside the YAML in which people write them.

python -m tools.shipped_json
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import yaml

from pumice.crds import FOLDER


def files() -> Iterator[tuple[Path, str]]:
    """Every file that is made, and what belongs into it."""
    for source in sorted(FOLDER.glob("**/*.yaml")):
        objects = list(yaml.safe_load_all(source.read_bytes()))
        yield source.with_suffix(".json"), json.dumps(objects, separators=(",", ":")) + "\n"


if __name__ == "__main__":
    for file, content in files():
        file.write_text(content)
