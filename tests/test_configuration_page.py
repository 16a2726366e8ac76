"""docs/configuration.md is what the code says, and what the code says of its arguments is true."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from pumice.config.load import default_config, read_config
from pumice.engine.plugins.builtin import BUILT_IN
from tests.support.processes import run_process

ROOT = Path(__file__).parent.parent
ARGUMENTS = [(name, argument) for name, plugin in sorted(BUILT_IN.items()) for argument in plugin.takes]


def test_the_page_is_up_to_date():
    """If not: python tools/configuration_page.py > docs/configuration.md."""
    done = run_process(
        [sys.executable, "tools/configuration_page.py"],
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": str(ROOT / "src"), "PYTHONIOENCODING": "utf-8"},
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=True,
    )
    assert (ROOT / "docs" / "configuration.md").read_text(encoding="utf-8") == done.stdout


@pytest.mark.parametrize(("name", "argument"), [case for case in ARGUMENTS if "<" not in case[1].name])
def test_a_default_is_what_counts_if_nobody_says_anything(name, argument):
    silent = vars(BUILT_IN[name]({}))
    given = {} if argument.default == "none" else {argument.name: argument.default}
    said = vars(BUILT_IN[name](given))
    plain = [key for key in silent if not key.startswith("_")]
    assert {key: said[key] for key in plain} == {key: silent[key] for key in plain}


def test_arguments_that_nobody_takes_are_noted():
    text = """\
actions: allocate, reclaim
tiers:
- plugins:
  - name: drf
    arguments: {drf.patiense: 3, drf.rule: paper}
  - name: overcommit
    arguments: {overcommit-factor.cpu: 2, overcommit-factor: 2}
  - name: predicates
    arguments: {predicate.CacheEnable: true}
configurations:
- name: reclaim
  arguments: {reclaim.minRunTime: 3}
- name: allocate
  arguments: {x: 1}
"""
    assert read_config(text, "here").notes == (
        'action reclaim: argument reclaim.minRunTime has no effect, did you mean "reclaim.minRuntime"?',
        "action allocate: argument x has no effect",
        'plugin drf: argument drf.patiense has no effect, did you mean "drf.patience"?',
        "plugin predicates: argument predicate.CacheEnable has no effect",
    )
    assert default_config().notes == ()
