"""The workflows of GitHub: what they run exists, actions are pinned, and no secret is needed."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

from pumice import __version__
from tools import compile_engine

ROOT = Path(__file__).parent.parent
FILES = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
STEPS = [
    (file.name, step)
    for file in FILES
    for job in yaml.safe_load(file.read_text())["jobs"].values()
    for step in job["steps"]
]
MAKEFILE = (ROOT / "Makefile").read_text()


def test_there_are_workflows_for_changes_and_releases() -> None:
    assert [file.name for file in FILES] == ["ci.yml", "release.yml"]


@pytest.mark.parametrize("step", [step for _, step in STEPS if "uses" in step], ids=lambda step: step["uses"])
def test_actions_are_pinned_to_a_version(step: dict[str, Any]) -> None:
    assert re.fullmatch(r"[\w-]+/[\w-]+@v\d+\.\d+\.\d+", step["uses"])


def test_make_targets_exist() -> None:
    targets = re.findall(r"make ([\w-]+)", "\n".join(step.get("run", "") for _, step in STEPS))
    assert {"lint", "test", "test-kube", "package"} <= {*targets}
    for target in targets:
        assert re.search(rf"^{target}:", MAKEFILE, re.MULTILINE), target


def test_every_supported_python_is_tested() -> None:
    matrix = yaml.safe_load(FILES[0].read_text())["jobs"]["test"]["strategy"]["matrix"]["python"]
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    stated = [one.rpartition(" ")[2] for one in project["classifiers"] if " :: Python :: 3." in one]
    assert {*stated} <= {*matrix} and project["requires-python"] == f">={matrix[0]}"


def test_every_supported_python_gets_a_compiled_engine() -> None:
    jobs = yaml.safe_load(FILES[0].read_text())["jobs"]
    tested = jobs["test"]["strategy"]["matrix"]["python"]
    assert jobs["test-compiled"]["strategy"]["matrix"]["python"] == tested
    assert [".".join(map(str, version)) for version in compile_engine.PYTHONS] == tested
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["cibuildwheel"]
    assert settings["build"] == [f"cp{version.replace('.', '')}-manylinux*" for version in tested]
    assert settings["environment"] == {"PUMICE_COMPILE": "1"}


def test_the_only_secret_is_the_token_of_the_workflow() -> None:
    named = {name for file in FILES for name in re.findall(r"secrets\.(\w+)", file.read_text())}
    assert named == {"GITHUB_TOKEN"}


def test_the_release_finds_the_line_of_the_image_and_the_packages() -> None:
    script = "\n".join(step.get("run", "") for name, step in STEPS if name == "release.yml")
    line = re.search(r'sed -i "s\|\^(.*)\$\|', script)
    assert line is not None and line[1] in (ROOT / "deploy" / "helm" / "pumice" / "values.yaml").read_text().split("\n")
    chart = yaml.safe_load((ROOT / "deploy" / "helm" / "pumice" / "Chart.yaml").read_text())
    assert (chart["version"], chart["appVersion"]) == (__version__, __version__), "a tag names all three"
