"""What is read from files of changes, and from ``--delete``."""

from __future__ import annotations

from pathlib import Path

import pytest

from pumice.input_errors import BadInput
from pumice.plan.change_file import read_change


def change_file(place: Path, text: str) -> list[str]:
    path = place / "change.yaml"
    path.write_text(text)
    return [str(path)]


def test_other_kinds_are_left_out_with_a_note(tmp_path: Path) -> None:
    change = read_change(change_file(tmp_path, "kind: Deployment\nmetadata: {name: web}\n"), ())
    assert change.notes == ["Deployment/web is left out: it has no effect on queues and shares"]
    assert not change.manifests and change.config is None


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("kind: Qeue\nmetadata: {name: a}\n", "Qeue/a: kind: 'Qeue' is not known, did you mean 'Queue'?"),
        ("metadata: {name: a}\n", "?/a: kind: is missing"),
        ("actions: 'enqueue, alocate'\ntiers: []\n", "line 1: "),
    ],
)
def test_mistakes_name_file_and_field(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(BadInput) as error:
        read_change(change_file(tmp_path, text), ())
    assert str(error.value).startswith(f"{tmp_path / 'change.yaml'}: ") and message in str(error.value)


def test_objects_get_the_namespace_of_the_context(tmp_path: Path) -> None:
    text = "kind: ResourceQuota\nmetadata: {name: w}\n---\nkind: Queue\nmetadata: {name: q}\n"
    quota, queue = read_change(change_file(tmp_path, text), (), "team").manifests
    assert quota.document["metadata"] == {"name": "w", "namespace": "team"}
    assert queue.document["metadata"] == {"name": "q"}


def test_deletions() -> None:
    change = read_change((), ("queue/a", "Node/n", "quota/team/w"), "default")
    assert [(one.kind, one.name, one.namespace) for one in change.deletions] == [
        ("Queue", "a", "default"),
        ("Node", "n", "default"),
        ("ResourceQuota", "w", "team"),
    ]


@pytest.mark.parametrize("text", ["a", "pod/x", "queue/"])
def test_wrong_deletions(text: str) -> None:
    with pytest.raises(BadInput, match="is not KIND/NAME"):
        read_change((), (text,))
