"""How the manifests that Volcano ships are found and judged (``manifests``)."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.volcano.manifests import (
    ACCEPTED,
    BROKEN,
    NO_OBJECT,
    WARNED,
    Manifest,
    classify,
    named_namespaces,
    page_manifests,
    readable,
)

PAGE = """
A job:

  ```yaml
  apiVersion: v1
  kind: Pod
  metadata:
    name: one
  ```

A part of a configuration:

```yaml
actions: enqueue
```
"""


def test_blocks_of_a_page_are_manifests_if_they_are_objects(tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "page.md").write_text(PAGE)
    (manifest,) = page_manifests(tmp_path)
    assert manifest.source == "docs/page.md block 1"
    assert manifest.text == "apiVersion: v1\nkind: Pod\nmetadata:\n  name: one"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("kind: Pod", ""),
        ("spec: [1, 2", BROKEN),
        ("just words", BROKEN),
        ("actions: enqueue", NO_OBJECT),
        ("kind: Pod\nspec: ...\n  more: 1", BROKEN),
    ],
)
def test_what_cannot_be_sent_is_said(text: str, reason: str) -> None:
    assert readable(Manifest("file", text)) == reason


@pytest.mark.parametrize(
    ("status", "said", "class_"),
    [
        (0, "", ACCEPTED),
        (0, "Warning: spec.plugins: has no effect", WARNED),
        (1, 'no matches for kind "Workflow" in version "argoproj.io/v1alpha1"', "kind not served"),
        (1, 'strict decoding error: unknown field "metadata.spec"', "refused by the schema"),
        (1, 'admission webhook "jobs.admission.pumice.dev" denied the request: spec.queue', "refused by admission"),
        (1, "cannot use generate name with apply", "refused otherwise"),
    ],
)
def test_classes_of_manifests(status: int, said: str, class_: str) -> None:
    assert classify(status, said) == class_


def test_namespaces_that_a_manifest_names() -> None:
    text = "metadata: {namespace: a}\n---\nmetadata: {name: x}\n---\n---\nmetadata: {namespace: b}\n"
    assert named_namespaces(Manifest("file", text)) == {"a", "b"}
