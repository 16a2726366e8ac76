"""From paths to manifests."""

import io
import sys

import pytest

from pumice.input_errors import BadInput
from pumice.sim.manifest_files import read_manifests, read_scenarios


def names(manifests):
    return [manifest.document["metadata"]["name"] for manifest in manifests]


def test_a_stream_a_list_and_json_are_all_objects(tmp_path):
    file = tmp_path / "all.yaml"
    file.write_text(
        "---\nkind: Node\nmetadata: {name: a}\n---\n# nothing here\n---\n"
        "kind: List\nitems:\n- {kind: Node, metadata: {name: b}}\n- {kind: Queue, metadata: {name: c}}\n"
        '---\n{"kind": "Node", "metadata": {"name": "d"}}\n'
    )
    assert names(read_manifests([str(file)])) == ["a", "b", "c", "d"]
    assert {manifest.file for manifest in read_manifests([str(file)])} == {str(file)}


def test_text_that_looks_like_a_date_stays_text(tmp_path):
    file = tmp_path / "date.yaml"
    file.write_text("metadata: {name: a, labels: {day: 2024-05-01}, creationTimestamp: 2024-05-01T00:00:00Z}\n")
    (manifest,) = read_manifests([str(file)])
    assert manifest.document["metadata"]["labels"] == {"day": "2024-05-01"}
    assert manifest.document["metadata"]["creationTimestamp"] == "2024-05-01T00:00:00Z"


def test_a_folder_is_its_yaml_and_json_files_by_name(tmp_path):
    for name in ("b.yml", "a.yaml", "c.json"):
        (tmp_path / name).write_text(f"metadata: {{name: {name}}}\n")
    (tmp_path / "notes.txt").write_text(": no yaml :")
    assert names(read_manifests([str(tmp_path)])) == ["a.yaml", "b.yml", "c.json"]


def test_standard_input_is_a_file(monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"metadata: {name: a}\n")))
    assert names(read_manifests(["-"])) == ["a"]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"a: b: c\n", ":1: not valid YAML"),
        (b"a: 1\nb:\n  c: 1\n  c: 2\n", ":4: not valid YAML: duplicate key 'c'"),
        (b"kind: Node\n---\n- 1\n", "document 2 is a list"),
        (b"just text\n", "document 1 is 'just text'"),
        (b"\xff\xfe\x00", "not UTF-8"),
        (b"a: \x01\n", "not valid YAML"),
        (b"", "contains no object"),
        (b"a: !!python/object:os.system {}\n", "not valid YAML"),
    ],
)
def test_invalid_manifest_is_refused_with_its_line(tmp_path, content, said):
    file = tmp_path / "bad.yaml"
    file.write_bytes(content)
    with pytest.raises(BadInput) as caught:
        read_manifests([str(file)])
    (problem,) = caught.value.problems
    assert str(problem).startswith(str(file))
    assert said in str(problem)


def test_every_file_that_can_not_be_read_is_named(tmp_path):
    (tmp_path / "bad.yaml").write_text("a: b: c\n")
    with pytest.raises(BadInput) as caught:
        read_manifests([str(tmp_path / "gone.yaml"), str(tmp_path), str(tmp_path / "also-gone.yaml")])
    assert [problem.file.rpartition("/")[2] for problem in caught.value.problems] == [
        "gone.yaml",
        "bad.yaml:1",
        "also-gone.yaml",
    ]


def test_folder_without_manifests_is_refused(tmp_path):
    with pytest.raises(BadInput, match="no file with suffix"):
        read_manifests([str(tmp_path)])


class TestApart:
    """Which files of a folder are a scenario each."""

    def test_folder_with_scenario_object_is_one_scenario(self, tmp_path):
        (tmp_path / "a.yaml").write_text("kind: Scenario\nmetadata: {name: s}\n")
        (tmp_path / "b.yaml").write_text("kind: Node\nmetadata: {name: n}\n")
        ((path, manifests),) = read_scenarios(str(tmp_path))
        assert path == str(tmp_path)
        assert names(manifests) == ["s", "n"]

    def test_several_make_each_file_one_and_a_bad_file_spoils_only_itself(self, tmp_path):
        (tmp_path / "a.yaml").write_text("kind: Scenario\nmetadata: {name: s}\n")
        (tmp_path / "b.yaml").write_text("kind: Scenario\nmetadata: {name: t}\n")
        (tmp_path / "c.yaml").write_text("a: b: c\n")
        (tmp_path / "d.yaml").write_text("")
        found = dict(read_scenarios(str(tmp_path)))
        assert names(found[str(tmp_path / "a.yaml")]) == ["s"]
        assert names(found[str(tmp_path / "b.yaml")]) == ["t"]
        assert isinstance(found[str(tmp_path / "c.yaml")], BadInput)
        assert isinstance(found[str(tmp_path / "d.yaml")], BadInput)

    def test_a_bad_file_spoils_a_folder_that_is_one_scenario(self, tmp_path):
        (tmp_path / "a.yaml").write_text("kind: Scenario\nmetadata: {name: s}\n")
        (tmp_path / "c.yaml").write_text("a: b: c\n")
        ((path, outcome),) = read_scenarios(str(tmp_path))
        assert path == str(tmp_path)
        assert isinstance(outcome, BadInput)
