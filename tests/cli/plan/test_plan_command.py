"""``pumice plan`` as users call it: outputs, exit statuses and mistakes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import NamedTuple

import click
import pytest
import yaml
from click.testing import CliRunner, Result

from pumice.cli.main import cli
from pumice.cli.plan.plan_output import markdown_lines, text_lines
from pumice.decision_log.log_files import log_files
from pumice.decision_log.replay import replay
from tests.cli.command import EXAMPLES
from tests.support.lives import recorded_halves, recorded_life

CLUSTER, CHANGE = EXAMPLES / "plan" / "cluster.yaml", EXAMPLES / "plan" / "change.yaml"


class Done(NamedTuple):
    exit_code: int
    output: str


def plan(*arguments: object) -> Done:
    found: Result = CliRunner().invoke(cli, ["plan", *map(str, arguments)], standalone_mode=False)
    if isinstance(found.exception, click.ClickException):
        return Done(found.exception.exit_code, found.exception.format_message())
    assert found.exception is None, found.exception
    return Done(found.return_value, found.output)


def test_exit_statuses(tmp_path: Path) -> None:
    same = plan("-f", CLUSTER, "--scenario", CLUSTER)
    assert same.exit_code == 0 and same.output.endswith("No changes\n")
    assert plan("-f", CHANGE, "--scenario", CLUSTER).exit_code == 1
    assert plan("-f", EXAMPLES / "plan" / "refused.yaml", "--scenario", CLUSTER).exit_code == 2


def test_a_cluster_that_cannot_be_reached_is_no_change(tmp_path: Path) -> None:
    # 1 would tell a pipeline that the change does something, and that its plan was written.
    kubeconfig = tmp_path / "kubeconfig"
    cluster = {"name": "c", "cluster": {"server": "http://127.0.0.1:1"}}
    context = {"name": "c", "context": {"cluster": "c", "user": "u"}}
    config = {"clusters": [cluster], "contexts": [context], "users": [{"name": "u"}], "current-context": "c"}
    kubeconfig.write_text(yaml.safe_dump(config))
    done = plan("-f", CHANGE, "--kubeconfig", kubeconfig)
    assert done.exit_code == 2 and "not reachable" in done.output


def test_a_misspelt_field_is_refused(tmp_path: Path) -> None:
    change = tmp_path / "change.yaml"
    queue = {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "Queue",
        "metadata": {"name": "research"},
        "spec": {"wieght": 3},
    }
    change.write_text(yaml.safe_dump(queue))
    done = plan("-f", change, "--scenario", CLUSTER)
    assert done.exit_code == 2
    assert f"{change}: Queue/research: spec.wieght: unknown field, did you mean 'weight'?" in done.output
    assert "none is let in" in done.output


def test_json_and_yaml_hold_the_same(tmp_path: Path) -> None:
    as_json, as_yaml = (plan("-f", CHANGE, "--scenario", CLUSTER, "-o", form) for form in ("json", "yaml"))
    values = json.loads(as_json.output)
    assert values == yaml.safe_load(as_yaml.output)
    assert len(values["evicted"]) == 8 and values["patienceSeconds"] == 30
    assert [one["afterSeconds"] for one in values["started"]] == [30]


def test_markdown_shows_queues_in_a_table_and_escapes_names() -> None:
    done = plan("-f", CHANGE, "--scenario", CLUSTER, "-o", "markdown")
    lines = done.output.splitlines()
    assert (
        lines[0]
        == "### Changes: the entitlement of 3 queues changes, 8 tasks evicted, 4 tasks of 1 waiting job started"
    )
    rows = [line for line in lines if line.startswith("| ")]
    assert all(line.count(" | ") == rows[0].count(" | ") for line in rows)
    values = json.loads(plan("-f", CHANGE, "--scenario", CLUSTER, "-o", "json").output)
    values["queues"][1]["path"] = "root/a|<b>_*"
    assert "a\\|&lt;b>\\_\\*" in "\n".join(markdown_lines(values))


def test_many_tasks_are_counted_not_listed() -> None:
    values = json.loads(plan("-f", CHANGE, "--scenario", CLUSTER, "-o", "json").output)
    values["evicted"] = [{**values["evicted"][0], "task": f"default/t-{number:02d}"} for number in range(20)]
    assert any(line.endswith("t-07 and 12 more") for line in text_lines(values))


def test_plan_on_a_decision_log(tmp_path: Path) -> None:
    recorded_life(tmp_path / "log", 3, seconds=3)
    values = json.loads(plan("--delete", "node/n0", "--log", tmp_path / "log", "-o", "json").output)
    assert values["basis"] == f"decision log {tmp_path / 'log'}"
    assert values["evicted"] or values["queues"][0]["entitled"]["before"] != values["queues"][0]["entitled"]["after"]
    engine = replay(log_files(tmp_path / "log")[-1]).engine
    assert engine is not None
    name = min(engine.state.queues.keys() - {"root", "default"})
    change = tmp_path / "change.yaml"
    fields = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue", "metadata": {"name": name}}
    change.write_text(yaml.safe_dump({**fields, "spec": {"weight": 7}}))
    done = json.loads(plan("-f", change, "--log", tmp_path / "log", "-o", "json").output)
    assert done["objects"][0]["action"] == "changed"
    assert [one["field"] for one in done["objects"][0]["fields"]] == ["spec.weight"]


def test_replay_shows_the_end_of_the_log_with_and_without_the_change(tmp_path: Path) -> None:
    recorded_halves(tmp_path / "log")
    change = tmp_path / "change.yaml"
    about = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue", "metadata": {"name": "a"}}
    change.write_text(yaml.safe_dump({**about, "spec": {"weight": 3}}))
    arguments = ("-f", change, "--log", tmp_path / "log", "--replay", "12s")
    policies = json.loads(plan(*arguments, "-o", "json").output)["replay"]["policies"]
    before, after = policies["as it was"]["queues"], policies["with the change"]["queues"]
    assert before["root/a"]["meanShare"] == pytest.approx(0.5, abs=0.05)  # weights 1 : 1
    assert after["root/a"]["meanShare"] == pytest.approx(0.75, abs=0.1)  # weights 3 : 1
    text = plan(*arguments).output
    assert "The last 12s of the log once more" in text and "with the change" in text
    assert "\n```\n" in plan(*arguments, "-o", "markdown").output


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "nothing to plan: give -f FILE or --delete KIND/NAME"),
        (("-f", CHANGE, "--scenario", CLUSTER, "--log", EXAMPLES), "--scenario and --log exclude each other"),
        (("-f", CHANGE, "--scenario", CLUSTER, "--at", "03:00"), "--at and --replay need --log"),
        (("-f", CHANGE, "--log", EXAMPLES), f"no decision log with a cycle found in {EXAMPLES}"),
    ],
)
def test_mistakes_of_usage(arguments: tuple[object, ...], message: str) -> None:
    done = plan(*arguments)
    assert done.exit_code == 2 and message in done.output
