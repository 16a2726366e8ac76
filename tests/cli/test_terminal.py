"""Printing."""

import io
import sys

import pytest

from pumice.cli.terminal import called_as, can_encode, echo_values, use_color


@pytest.mark.parametrize(("encoding", "shows"), [("utf-8", True), ("ascii", False), ("latin-1", False)])
def test_can_encode_depends_on_the_output_encoding(monkeypatch, encoding, shows):
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(io.BytesIO(), encoding=encoding))
    assert can_encode("█▓░") is shows


@pytest.mark.parametrize(("said", "colour"), [(None, None), ("", None), ("1", False)])
def test_no_color_turns_color_off(monkeypatch, said, colour):
    monkeypatch.delenv("NO_COLOR", raising=False)
    if said is not None:
        monkeypatch.setenv("NO_COLOR", said)
    assert use_color() is colour


def test_a_program_off_the_path_is_named_by_its_path(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(sys, "argv", [".venv/bin/pumice", "demo"])
    assert called_as("pumice") == ".venv/bin/pumice"
    monkeypatch.setattr(sys, "argv", ["/usr/bin/python", "demo"])
    assert called_as("pumice") == "pumice"
    (tmp_path / "pumice").touch(mode=0o755)
    monkeypatch.setattr(sys, "argv", [".venv/bin/pumice", "demo"])
    assert called_as("pumice") == "pumice"


def test_values_are_sorted_and_keep_their_letters(capsys):
    echo_values({"b": "é", "a": {"d": None, "c": [1.5]}}, "json")
    assert capsys.readouterr().out == '{\n  "a": {\n    "c": [\n      1.5\n    ],\n    "d": null\n  },\n  "b": "é"\n}\n'
    echo_values({"b": "é", "a": [1]}, "yaml")
    assert capsys.readouterr().out == "a:\n- 1\nb: é\n"
