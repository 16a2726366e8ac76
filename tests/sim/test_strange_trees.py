"""Trees and names in files that nobody means: thousands of levels, control characters, fields without effect."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner

from kubebase.resource_vector import Registry
from pumice.cli.main import cli
from pumice.kube.decode.manifest_errors import ObjectError
from pumice.sim.manifest_translation import translate_manifest
from tests.sim.samples import Document, group, job, node, queue, queue_at, scenario

LEVELS = 2000


@pytest.mark.parametrize("command", [("check",), ("run",), ("run", "-o", "json", "--trace"), ("entitle",)])
def test_two_thousand_levels_are_a_tree_like_any_other(tmp_path: Path, command: tuple[str, ...]) -> None:
    path = "/".join(["root", *(f"l{level}" for level in range(LEVELS - 1)), "q"])
    weights = "/".join(["1"] * (LEVELS + 1))
    # One queue has the cluster for itself: 3 tasks of 1 cpu run, of 4 there are.
    expected = {"jobs": {"default/j": {"running": 3}}}
    documents = [scenario(expect=expected), node(cpu=4), queue_at("q", path, weights), job("j", "q", 3, cpu=1)]
    file = tmp_path / "deep.yaml"
    file.write_text(yaml.safe_dump_all(documents))
    result = CliRunner().invoke(cli, [*command, str(file)], catch_exceptions=False)
    assert result.exit_code == 0, result.output[-500:]


def refusal(document: Document) -> str:
    with pytest.raises(ObjectError) as caught:
        translate_manifest(document, Registry(), 0)
    return f"{caught.value.field}: {caught.value.message}"


def test_a_path_is_not_endless() -> None:
    assert refusal(queue_at("q", "root" + "/a" * 60_000, "1" + "/1" * 60_000)) == (
        "metadata.annotations[volcano.sh/hierarchy]: Too deep: the path has 60001 levels; at most 4000 are supported"
    )


def test_entries_do_not_nest_without_end() -> None:
    entries = [{"name": "lowest"}]
    for level in range(LEVELS):
        entries = [{"name": f"level{level}", "hierarchy": entries}]
    assert refusal(queue("q", hierarchy=entries)).startswith(
        "spec.hierarchy: Too deep: entries may nest at most 64 levels"
    )


def test_a_misspelt_key_below_the_first_level_is_named() -> None:
    dev = {"name": "dev", "hierarchy": [{"name": "test1", "paramters": [{"name": "weight", "value": 9}]}]}
    assert refusal(queue("root", weight=1, hierarchy=[{"name": "default"}, dev])).startswith(
        "spec.hierarchy[1].hierarchy[0].paramters: unknown field of a hierarchy entry"
    )


def test_root_is_told_what_cannot_count() -> None:
    assert refusal(queue("root", weight=3)) == (
        "spec.weight: Forbidden: has no effect: queue 'root' stands for the cluster and has no siblings; "
        "remove it, or set it on a queue below"
    )
    assert refusal(queue("root", deserved={"cpu": 4})).startswith("spec.deserved: Forbidden: has no effect")


GARBLED = "a\x1b[31mb"


@pytest.mark.parametrize(
    ("document", "field"),
    [
        (queue(GARBLED), "metadata.name"),
        (queue_at("q", f"root/{GARBLED}/q", "1/1/1"), "metadata.annotations[volcano.sh/hierarchy]"),
        (queue_at("q", "root/ /q", "1/1/1"), "metadata.annotations[volcano.sh/hierarchy]"),
        (queue("q", hierarchy=[{"name": GARBLED}]), "spec.hierarchy[0].name"),
        (job(GARBLED, "q", 1, cpu=1), "metadata.name"),
        (job("j", "q", 1, ns=GARBLED, cpu=1), "metadata.namespace"),
        (job("j", GARBLED, 1, cpu=1), "spec.queue"),
        (group(GARBLED), "metadata.name"),
        (group("g", queue=GARBLED), "spec.queue"),
    ],
)
def test_control_characters_are_refused_and_never_shown(document: Document, field: str) -> None:
    said = refusal(document)
    assert said.startswith(f"{field}: ")
    assert said.isprintable()


def test_users_have_no_control_characters_either() -> None:
    for document in (job("j", "q", 1, cpu=1), group("g")):
        document["metadata"]["annotations"] = {"volcano.sh/user": GARBLED}
        assert refusal(document) == (
            "metadata.annotations[volcano.sh/user]: Invalid value: 'a\\x1b[31mb': may not contain control characters"
        )
