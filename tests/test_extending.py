"""docs/extending.md: every command in it runs, its hooks are the hooks, and the example is as short as it says."""

from __future__ import annotations

import inspect
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from pumice.engine.config.enable_flags import Flag
from pumice.engine.plugins.plugin import Plugin
from tests.support.processes import run_process

ROOT = Path(__file__).parent.parent
TEXT = (ROOT / "docs" / "extending.md").read_text(encoding="utf-8")
COMMANDS = re.findall(r"^((?:pip|pumice) .*)$", TEXT, re.MULTILINE)
EXAMPLE = ROOT / "examples" / "plugins" / "joblimit"


def command(line: str, target: Path) -> subprocess.CompletedProcess[str]:
    """Run a command of the page, with what it installs in a folder of its own, and without a network."""
    module, *arguments = shlex.split(line)
    if module == "pip":
        arguments += ["--no-index", "--no-deps", "--no-build-isolation", "--target", str(target)]
    path = os.pathsep.join([str(target), str(ROOT / "src")])
    return run_process(
        [sys.executable, "-m", module, *arguments],
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": path, "PIP_DISABLE_PIP_VERSION_CHECK": "1"},
        capture_output=True,
        text=True,
        check=False,
    )


def test_every_command_runs(tmp_path: Path) -> None:
    outputs = []
    for line in COMMANDS:
        done = command(line, tmp_path)
        assert done.returncode == 0, f"{line}: {done.stderr}"
        outputs.append(done.stdout)
    assert [line.split()[0] for line in COMMANDS] == ["pip", "pumice", "pumice"]
    assert "condition default/third: 2 jobs of its queue run" in outputs[1]
    assert "1 passed, 0 failed" in outputs[2]


def test_without_the_package_the_configuration_is_refused(tmp_path: Path) -> None:
    done = command("pumice check examples/plugins/joblimit/scenario.yaml", tmp_path)
    assert done.returncode != 0
    assert 'spec.config: line 5: unknown plugin "joblimit"' in done.stdout + done.stderr


def test_arguments_that_the_example_refuses(tmp_path: Path) -> None:
    command(COMMANDS[0], tmp_path)
    scenario = tmp_path / "scenario.yaml"
    text = (EXAMPLE / "scenario.yaml").read_text(encoding="utf-8")
    scenario.write_text(text.replace("joblimit.most: 2", "joblimit.most: none"), encoding="utf-8")
    done = command(f"pumice check {scenario}", tmp_path)
    assert done.returncode != 0
    message = "spec.config: line 6: joblimit: joblimit.most: 'none' given; write a whole number, 1 or more"
    assert message in done.stdout + done.stderr


def test_the_table_lists_the_hooks() -> None:
    rows = re.findall(r"^\| (`.*?) \|.*\| (.*?) ?\|$", TEXT, re.MULTILINE)
    hooks = [name for names, _ in rows for name in re.findall(r"`(\w+)`", names)]
    methods = [name for name, found in vars(Plugin).items() if inspect.isfunction(found) and name != "__init__"]
    assert sorted(hooks) == sorted(methods)
    known = {flag.value for flag in Flag}
    for names, flag in rows:
        assert flag.strip("`") in known or not flag, f"{names}: {flag}"
        # The docstring of the hook names its flag too.
        assert not flag or flag.strip("`") in (getattr(Plugin, names.split("`")[1]).__doc__ or ""), names


def test_the_example_is_twenty_lines() -> None:
    code = [line for line in (EXAMPLE / "joblimit.py").read_text(encoding="utf-8").splitlines() if line.strip()]
    assert len(code) <= 20


@pytest.mark.parametrize("link", re.findall(r"\]\((\.\./[^)]+)\)", TEXT))
def test_links(link: str) -> None:
    assert (ROOT / "docs" / link).exists()
