"""Options of vsub: in comment lines of a script, arrays, order, and where they are not carried out."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from pumice.kube.client.sync_client import Client
from pumice.kube.resources import JOBS
from tests.cli.cluster.calls import Caller

SCRIPT = """#!/bin/sh
# what it does
#PUMICE -N sweep -q default --array 1-9:2,20%2  # six runs

#PUMICE --env A=1 --env "B=two words" -R cpu=2
#PUMICE --time 2h
echo work
#PUMICE --time 3h
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture(autouse=True)
def no_jobs(client: Client) -> Iterator[None]:
    yield
    for job in client.list(JOBS.path()).items:
        client.delete(JOBS.path(job["metadata"]["namespace"], job["metadata"]["name"]))


def dry(call: Caller, line: str) -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load(call.said(line))
    return found


def test_a_script_sets_options_in_its_first_comment_lines(call: Caller, folder: Path) -> None:
    (folder / "run.sh").write_text(SCRIPT)
    for command in ("./run.sh", "sh run.sh"):
        job = dry(call, f"vsub --dry-run -- {command}")
        pod = job["spec"]["tasks"][0]["template"]["spec"]
        assert job["metadata"] == {"name": "sweep", "annotations": {"pumice.dev/array": "1-9:2,20%2"}}
        assert (job["spec"]["queue"], job["spec"]["tasks"][0]["replicas"]) == ("default", 6)
        assert (job["spec"]["minSuccess"], job["spec"]["plugins"]) == (6, {"env": []})
        assert pod["activeDeadlineSeconds"] == 7200  # the line below the first command is no option
        assert pod["containers"][0]["env"] == [{"name": "A", "value": "1"}, {"name": "B", "value": "two words"}]
        assert pod["containers"][0]["resources"] == {"requests": {"cpu": "2"}}


def test_the_command_line_wins_over_the_script(call: Caller, folder: Path) -> None:
    (folder / "run.sh").write_text(SCRIPT)
    job = dry(call, "vsub other --dry-run --array 4 --time 1m --env C=3 -R cpu=1 -- ./run.sh")
    pod = job["spec"]["tasks"][0]["template"]["spec"]
    assert job["metadata"] == {"name": "other", "annotations": {"pumice.dev/array": "4"}}
    assert (job["spec"]["tasks"][0]["replicas"], pod["activeDeadlineSeconds"]) == (1, 60)
    assert pod["containers"][0]["env"] == [{"name": "C", "value": "3"}]
    assert pod["containers"][0]["resources"] == {"requests": {"cpu": "1"}}


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("--time soon", "run.sh:2: Invalid value for '--time': 'soon': must be a duration"),
        ("--array 3-1", "run.sh:2: Invalid value for '--array': '3-1': 3-1 contains no index"),
        ("-R cpu=many", "run.sh:2: Invalid value for '-R' / '--requests': cpu: 'many' is not a quantity"),
        ("--tim 3h", "run.sh:2: No such option '--tim'"),
        ("-q", "run.sh:2: Option '-q' requires an argument"),
        ("train", "run.sh:2: 'train' is not an option"),
        ('"-q', "run.sh:2: No closing quotation"),
        ("-f jobs.yaml", "run.sh:2: --filename cannot be set by a script"),
        ("--help", "run.sh:2: --help cannot be set by a script"),
    ],
)
def test_errors_of_a_script_name_the_file_and_the_line(call: Caller, folder: Path, line: str, words: str) -> None:
    (folder / "run.sh").write_text(f"#!/bin/sh\n#PUMICE {line}\n")
    ended = call("vsub --dry-run -- ./run.sh")
    assert (ended.status, words in ended.err) == (2, True), ended.err


def test_programs_have_no_options(call: Caller, folder: Path) -> None:
    (folder / "program").write_bytes(b"\x7fELF\0\n#PUMICE --time soon\n")
    (folder / "folder").mkdir()
    assert dry(call, "vsub one --dry-run -- ./program")["metadata"]["name"] == "one"
    assert dry(call, "vsub two --dry-run -- ./folder ./missing")["metadata"]["name"] == "two"


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ("--array 1-3 -r 3", "--replicas cannot be combined with --array"),
        ("--array 1-3 -m 2", "--min cannot be combined with --array"),
        ("--output out.txt", "--output needs a command that runs as a process"),
        ("--output json", "json is a format; use -o json"),
        ("--output missing/out.txt", "missing does not exist"),
        ("--after b:c", "JOB or any:JOB is needed"),
    ],
)
def test_options_that_contradict_each_other_are_rejected(call: Caller, folder: Path, options: str, words: str) -> None:
    ended = call(f"vsub one {options} -- true")
    assert (ended.status, words in ended.err) == (2, True), ended.err


def test_after_names_jobs_that_exist(call: Caller, client: Client) -> None:
    ended = call("vsub second -q default --after first")
    assert (ended.status, ended.err) == (1, "error: --after first: there is no job first in namespace default\n")
    call.said("vsub first -q default")
    call.said("vsub second -q default --after first --after any:first")
    made = client.get(JOBS.path("default", "second"))
    assert made["metadata"]["annotations"]["pumice.dev/after"] == "first,any:first"


def test_arrays_and_order_are_refused_where_nobody_carries_them_out(
    call: Caller, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A cluster whose admission is not Pumice's: jobs come back without the user that Pumice would have written."""
    call.said("vsub first -q default")
    create = Client.create

    def without_admission(self: Client, path: str, new: dict[str, Any], *, dry_run: bool = False) -> dict[str, Any]:
        made = create(self, path, new, dry_run=dry_run)
        assert dry_run, "the job must not be created"
        made["metadata"]["annotations"].pop("volcano.sh/user")
        return made

    monkeypatch.setattr(Client, "create", without_admission)
    for option in ("--array 1-3", "--after first"):
        ended = call(f"vsub second -q default {option}")
        assert (ended.status, f"{option.split()[0]}: Pumice is not installed" in ended.err) == (1, True), ended.err
    assert [job["metadata"]["name"] for job in client.list(JOBS.path("default")).items] == ["first"]
