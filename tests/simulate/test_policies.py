"""Policies as ``--policy`` names them."""

from __future__ import annotations

from pathlib import Path

import pytest

from pumice.input_errors import BadInput
from pumice.simulate.policies import BUILT_IN_POLICIES, read_policy
from tests.simulate.samples import QUIET


def said(text: str) -> str:
    with pytest.raises(BadInput) as raised:
        read_policy(text)
    return str(raised.value)


@pytest.mark.parametrize("name", BUILT_IN_POLICIES)
def test_built_in_policy_is_a_configuration_without_notes(name: str) -> None:
    assert read_policy(name).config.notes == ()


def test_unknown_policy_is_refused_with_the_known_ones() -> None:
    assert said("fair").startswith("--policy: 'fair' is not known; write NAME=FILE or one of steer, paper")
    assert said("steeer") == "--policy: 'steeer' is not known, did you mean 'steer'?"
    assert said("a=") == "--policy: 'a=' is not NAME=FILE"


def test_configuration_and_manifests_are_told_apart(tmp_path: Path) -> None:
    config, queues = tmp_path / "config.yaml", tmp_path / "queues.yaml"
    config.write_text(QUIET)
    queues.write_text("kind: Queue\nmetadata: {name: a}\n")
    both = read_policy(f"new={queues},{config}")
    assert (both.name, both.config_source, both.objects) == ("new", str(config), (str(queues),))
    assert read_policy(f"new={queues}").config_source == "the default configuration"
    assert "keep one of the two" in said(f"new={config},{config}")


def test_broken_files_are_refused_by_name_and_line(tmp_path: Path) -> None:
    config = tmp_path / "config.yaml"
    assert said(f"a={config}") == f"{config}: No such file or directory"
    config.write_text("actions: allocate\ntiers: [{plugins: [{name: dfr}]}]\n")
    assert said(f"a={config}").startswith(f"{config}:2: ")
    config.write_text("a: [\n")
    assert said(f"a={config}").startswith(f"{config}: not valid YAML")
