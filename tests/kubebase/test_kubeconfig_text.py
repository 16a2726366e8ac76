"""A kubeconfig that is written and read without a YAML parser says what YAML says."""

from __future__ import annotations

import pytest
import yaml

from kubebase.kubeconfig_text import kubeconfig_text, read_kubeconfig_text

WRITTEN = [
    kubeconfig_text("pumice", "https://127.0.0.1:6443", "QUJD", "a: b # c"),
    kubeconfig_text("my-cluster", "http://127.0.0.1:8080"),
    kubeconfig_text("pumice", "https://[::1]:6443", token='quote" and \\ and é'),
    kubeconfig_text("pumice", "https://127.0.0.1:6443", "QUJD", "t", {"path": "/a: b/s", "boot": "x-y", "inode": 7}),
]


@pytest.mark.parametrize("text", WRITTEN)
def test_what_was_written_is_read_as_yaml_reads_it(text: str) -> None:
    assert read_kubeconfig_text(text.encode()) == yaml.safe_load(text)


@pytest.mark.parametrize("text", WRITTEN)
def test_any_other_text_is_left_to_yaml(text: str) -> None:
    for other in (text + "# more\n", text.replace("user:", "user: "), text.replace("pumice", "1"), "", "{}", "a: b\n"):
        assert other == text or read_kubeconfig_text(other.encode()) is None
    assert read_kubeconfig_text(text.replace('"http', "'http").encode()) is None
    assert read_kubeconfig_text(b"\xff\xfe") is None
