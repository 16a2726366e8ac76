"""What a cluster has from the start is read as JSON, and is what stands in the YAML."""

from __future__ import annotations

from kubebase.go_regexp import Pattern, patterns_of
from pumice.crds import FOLDER, definitions
from tools.shipped_json import files


def test_the_json_is_what_the_yaml_says() -> None:
    made = dict(files())
    there = {file: file.read_text() for file in FOLDER.glob("**/*.json")}
    assert len(made) >= 5  # four kinds, and the first queues
    assert there == made, "python -m tools.shipped_json"


def test_the_patterns_compile_that_the_server_assumes_valid() -> None:
    patterns = {pattern for definition in definitions() for pattern in patterns_of(definition)}
    assert len(patterns) >= 2  # durations and quantities
    for pattern in patterns:
        assert Pattern(pattern).found_in("0")
