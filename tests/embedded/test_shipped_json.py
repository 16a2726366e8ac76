"""What a cluster has from the start is read as JSON, and is what stands in the YAML."""

from __future__ import annotations

from pumice.crds import FOLDER
from tools.shipped_json import files


def test_the_json_is_what_the_yaml_says() -> None:
    made = dict(files())
    there = {file: file.read_text() for file in FOLDER.glob("**/*.json")}
    assert len(made) >= 5  # four kinds, and the first queues
    assert there == made, "python -m tools.shipped_json"
