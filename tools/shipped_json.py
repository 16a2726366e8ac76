"""Writes the initial objects of a cluster as JSON, beside their YAML sources.

python -m tools.shipped_json

Several kinds contain the spec of a Job. Their sources have the tag ``!job-spec`` and a description in its place. Here
it is replaced by the schema in job.yaml, without its defaults: the job that is made gets them, a patch must have none.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from pumice.crds import FOLDER


class _Source(yaml.SafeLoader):
    """YAML with the tag ``!job-spec``."""


def _job_spec(loader: yaml.SafeLoader, node: yaml.nodes.ScalarNode) -> Any:
    (definition,) = yaml.safe_load_all((FOLDER / "job.yaml").read_bytes())
    (version,) = definition["spec"]["versions"]
    spec = version["schema"]["openAPIV3Schema"]["properties"]["spec"]
    return {**_without_defaults(spec), "description": loader.construct_scalar(node)}


def _without_defaults(schema: Any) -> Any:
    if isinstance(schema, list):
        return [_without_defaults(each) for each in schema]
    if isinstance(schema, dict):
        return {name: _without_defaults(each) for name, each in schema.items() if name != "default"}
    return schema


_Source.add_constructor("!job-spec", _job_spec)


def files() -> Iterator[tuple[Path, str]]:
    """Every written file with its content."""
    for source in sorted(FOLDER.glob("**/*.yaml")):
        objects = list(yaml.load_all(source.read_bytes(), _Source))
        yield source.with_suffix(".json"), json.dumps(objects, separators=(",", ":")) + "\n"


if __name__ == "__main__":
    for file, content in files():
        file.write_text(content)
