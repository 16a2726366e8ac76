"""``pumice run``."""

import json
import shutil
import sys
from pathlib import Path

import pytest
import yaml

from tests.cli.command import EXAMPLES, SOURCES, pumice_command
from tests.support.processes import run_process

GOLDEN = Path(__file__).parent / "golden"


def test_the_json_of_a_run_is_an_interface():
    """Others build on it. If a change is meant: pumice run --trace -o json two-queues.yaml > two-queues.json."""
    done = pumice_command("run", "--trace", "-o", "json", GOLDEN / "two-queues.yaml")
    assert done.returncode == 0
    report, golden = json.loads(done.stdout), json.loads((GOLDEN / "two-queues.json").read_text(encoding="utf-8"))
    assert done.stdout == json.dumps(report, indent=2, sort_keys=True) + "\n"
    for decision in [*report["decisions"], *golden["decisions"]]:
        if decision["type"] == "condition":
            assert decision.pop("message")  # words for people, which may change
    assert report == golden


def test_the_same_scenario_gives_the_same_output_every_time():
    first, second = (
        pumice_command("run", "--trace", "-o", "json", EXAMPLES / "rescaling.yaml", PYTHONHASHSEED=seed).stdout
        for seed in ("1", "2")
    )
    assert first == second


def test_yaml_says_the_same_as_json():
    as_json = json.loads(pumice_command("run", "-o", "json", GOLDEN / "two-queues.yaml").stdout)
    as_yaml = yaml.safe_load(pumice_command("run", "-o", "yaml", GOLDEN / "two-queues.yaml").stdout)
    assert as_yaml == as_json
    assert all("path" not in decision for decision in as_json["decisions"])


def test_the_table_shows_the_tree_and_the_jobs():
    done = pumice_command("run", EXAMPLES / "namespaces.yaml")
    assert done.returncode == 0
    assert "\x1b" not in done.stdout
    lines = done.stdout.splitlines()
    assert lines[0] == "namespaces: 2 cycles, 2 s of cluster time"
    tree = {line.split()[0]: line for line in lines[2:9]}
    assert list(tree) == ["root", "|--q1", "|", "|--q2"]
    assert lines[8].split() == ["|", "|--ns4", "1", "██", "12%", "12%", "2", "0", "cpu", "2"]
    assert lines[-1].split() == ["ns4/work", "q2", "Running", "2", "0", "2", "12%", "cpu", "2"]


def test_a_terminal_that_knows_no_blocks_gets_signs():
    done = pumice_command("run", EXAMPLES / "namespaces.yaml", PYTHONIOENCODING="ascii")
    assert done.returncode == 0
    assert "####################" in done.stdout
    assert done.stdout.isascii()


def test_trace_shows_chosen_node_and_runner_up():
    done = pumice_command("run", "--trace", GOLDEN / "two-queues.yaml")
    assert "  bind      default/sweep-t-0 to n1\n" in done.stdout
    lines = [" ".join(line.split()) for line in done.stdout.splitlines()]
    assert "play want 1.0000 before prod with 0.5000" in lines
    assert "prod want 1.0000 before play with 1.0000, a tie" in lines


def test_wide_shows_more():
    done = pumice_command("run", "-o", "wide", EXAMPLES / "gang.yaml")
    assert "REASON" in done.stdout
    assert "the job must start 13 tasks together (cpu 13)" in done.stdout
    assert "ENTITLED TO" in done.stdout


def test_refused_events_are_shown_without_failure():
    done = pumice_command("run", GOLDEN / "two-queues.yaml")
    assert done.returncode == 0
    assert done.stdout.splitlines()[-1].startswith("refused Queue/lost: spec.parent: Not found: 'nowhere'")


def test_several_files_a_folder_and_standard_input_are_one_scenario(tmp_path):
    documents = (GOLDEN / "two-queues.yaml").read_text(encoding="utf-8").split("---\n")
    whole = pumice_command("run", "-o", "json", GOLDEN / "two-queues.yaml").stdout
    first, second = tmp_path / "a.yaml", tmp_path / "b.yaml"
    first.write_text("---\n".join(documents[:3]), encoding="utf-8")
    second.write_text("---\n".join(documents[3:]), encoding="utf-8")
    assert pumice_command("run", "-o", "json", first, second).stdout == whole
    assert pumice_command("run", "-o", "json", tmp_path).stdout == whole
    assert pumice_command("run", "-o", "json", first, "-", given=second.read_text(encoding="utf-8")).stdout == whole


def test_a_folder_of_several_scenarios_can_not_be_run_as_one():
    done = pumice_command("run", EXAMPLES)
    assert done.returncode == 2
    assert "these files are one scenario" in done.stderr


def test_options_without_effect_are_noted_beside_the_result(tmp_path):
    config = "actions: allocate\\ntiers:\\n- plugins:\\n  - {name: drf, enableTargetJob: false}\\n"
    file = tmp_path / "s.yaml"
    file.write_text(f'apiVersion: pumice.dev/v1\nkind: Scenario\nmetadata: {{name: s}}\nspec: {{config: "{config}"}}\n')
    done = pumice_command("run", "-o", "json", file)
    assert done.returncode == 0
    assert "note: spec.config: drf: enableTargetJob has no effect here" in done.stderr
    assert json.loads(done.stdout)["scenario"] == "s"


@pytest.mark.skipif(shutil.which("script") is None, reason="needs script(1) for a terminal")
@pytest.mark.parametrize(("no_color", "coloured"), [("", True), ("1", False)])
def test_color_only_on_terminals(no_color, coloured):
    command = f"{sys.executable} -m pumice run {EXAMPLES}/namespaces.yaml"
    done = run_process(
        ["script", "-qec", command, "/dev/null"],
        capture_output=True,
        text=True,
        check=True,
        env={"PYTHONPATH": str(SOURCES), "NO_COLOR": no_color, "PATH": "/usr/bin:/bin", "PYTHONIOENCODING": "utf-8"},
    )
    assert ("\x1b[32m" in done.stdout) is coloured
