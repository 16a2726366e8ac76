"""``pumice simulate --log``: a decision log as a workload."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.command import pumice_command
from tests.support.lives import recorded_halves

pytestmark = pytest.mark.process


def test_log_under_its_own_and_another_configuration(tmp_path: Path) -> None:
    recorded_halves(tmp_path / "log")
    manifest = tmp_path / "more.yaml"
    fields = "apiVersion: scheduling.volcano.sh/v1beta1\nkind: Queue\nmetadata: {name: a}\nspec: {weight: 3}\n"
    manifest.write_text(fields)
    config = tmp_path / "own.yaml"
    heading = json.loads((tmp_path / "log" / "decisions-000001.jsonl").read_text().splitlines()[0])
    config.write_text(heading["config"])
    outputs = []
    for folder in ("one", "two"):
        done = pumice_command(
            *("simulate", "--log", tmp_path / "log", "--policy", "recorded", "--policy", f"more={config},{manifest}"),
            *("--out", tmp_path / folder, "-o", "json"),
            PYTHONHASHSEED=str(len(outputs)),
        )
        assert (done.returncode, done.stderr) == (0, "")
        outputs.append(done.stdout)
    assert outputs[0] == outputs[1]
    for name in ("report.json", "report.html", "jobs.csv"):
        assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "two" / name).read_bytes()
    values = json.loads(outputs[0])
    assert [one["role"] for one in values["inputs"]] == ["decision log", "policy more", "policy more"]
    shares = {name: policy["queues"]["root/a"]["meanShare"] for name, policy in values["policies"].items()}
    assert shares["recorded"] == pytest.approx(0.5, abs=0.05)  # weights 1 : 1
    assert shares["more"] == pytest.approx(0.75, abs=0.1)  # weights 3 : 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--log", "{log}", "--nodes", "1:cpu=1"), "--log is a workload with its cluster"),
        ((), "missing argument WORKLOAD, or --log FOLDER"),
        (("--log", "{empty}"), "no decision log"),
    ],
)
def test_mistakes_leave_nothing_behind(tmp_path: Path, arguments: tuple[str, ...], message: str) -> None:
    (tmp_path / "empty").mkdir()
    given = [one.format(log=tmp_path / "empty", empty=tmp_path / "empty") for one in arguments]
    done = pumice_command("simulate", *given, "--out", tmp_path / "out")
    assert done.returncode == 2 and message in done.stderr
    assert "Traceback" not in done.stderr and not (tmp_path / "out").exists()


def test_half_a_line_and_a_file_of_something_else_are_named(tmp_path: Path) -> None:
    recorded_halves(tmp_path / "log", seconds=6)
    path = tmp_path / "log" / "decisions-000001.jsonl"
    whole = path.read_bytes()
    path.write_bytes(whole[:-20])  # the writer died in the middle of its last line
    done = pumice_command("simulate", "--log", path, "-o", "json")
    assert done.returncode == 0, done.stderr
    path.write_bytes(whole.replace(b'"is":"cycle"', b'"is":"sickle"', 1))
    done = pumice_command("simulate", "--log", path)
    assert done.returncode == 2 and f"{path}:" in done.stderr and "not a record of a decision log" in done.stderr
