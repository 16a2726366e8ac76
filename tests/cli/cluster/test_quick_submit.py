"""The short way of ``vsub``: what it sends and prints is what the command sends and prints, or it leaves it to that."""

from __future__ import annotations

import contextlib
import io
import json
import os
import socket
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import click
import pytest
from hypothesis import given
from hypothesis import strategies as st

import pumice
from kubebase.kubeconfig_text import kubeconfig_text
from kubebase.local_socket import describe_socket
from pumice.cli.cluster import process_jobs
from pumice.cli.cluster.job_manifest import API_VERSION, KIND
from pumice.cli.cluster.job_run import DEFAULT_REQUESTS, run
from pumice.cli.cluster.quick_submit import ALWAYS_OFFERED, DEFAULTS, JOBS, WITH_VALUE, submit
from pumice.cli.cluster.resource_quantities import format_quantities
from pumice.cli.cluster.volcano_programs import run_vsub
from pumice.kube.client.sync_client import Client
from pumice.kube.resource_name import JOB
from tests.support.processes import run_process

SERVER = "https://127.0.0.1:6440"
OFFERED = {"cpu": "8", "memory": "8Gi", "nvidia.com/gpu": "2"}


def node(**labels: str) -> dict[str, Any]:
    return {"metadata": {"name": "here", "labels": labels}, "status": {"allocatable": OFFERED}}


PROCESSES = node(**{"pumice.dev/runtime": "process"})


class Sent(NamedTuple):
    """A request that changes something."""

    path: str
    credential: str
    body: Any


class Cluster:
    """A server on a Unix socket that has nodes and takes jobs."""

    def __init__(self, folder: Path) -> None:
        self.kubeconfig = folder / "kubeconfig"
        self._listening = socket.socket(socket.AF_UNIX)
        self._listening.bind(str(folder / "s"))
        self._listening.listen()
        place = describe_socket(folder / "s")
        self.kubeconfig.write_text(kubeconfig_text("pumice", SERVER, token="secret", socket=place))
        self.reset()
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def reset(self) -> None:
        self.nodes: tuple[int, Any] = (200, {"metadata": {}, "items": [PROCESSES]})
        self.answer: tuple[int, Any] | None = None  # to jobs: None, the job; of status 0, nothing
        self.annotations: dict[str, str] = {}
        self.sent: list[Sent] = []

    def end(self) -> None:
        self._listening.shutdown(socket.SHUT_RDWR)
        self._thread.join()
        self._listening.close()

    def _serve(self) -> None:
        while True:
            try:
                connected, _ = self._listening.accept()
            except OSError:
                return
            with connected, connected.makefile("rb") as file:
                while line := file.readline():
                    verb, path, _ = line.decode().split(" ")
                    headers = dict(iter(lambda: file.readline().decode().strip().partition(": ")[::2], ("", "")))
                    content = file.read(int(headers.get("Content-Length", "0")))
                    status, body = self._answered(verb, path, headers.get("Authorization", ""), content)
                    if not status:
                        break
                    text = json.dumps(body).encode()
                    connected.sendall(b"HTTP/1.1 %d X\r\nContent-Length: %d\r\n\r\n%b" % (status, len(text), text))

    def _answered(self, verb: str, path: str, credential: str, content: bytes) -> tuple[int, Any]:
        if verb == "GET":
            return self.nodes
        body = json.loads(content)
        self.sent.append(Sent(path, credential, body))
        made = {**body, "spec": {"queue": "default", **body["spec"]}}
        return self.answer or (201, {**made, "metadata": {**made["metadata"], "annotations": self.annotations}})


@pytest.fixture(scope="module")
def only(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    found = Cluster(tmp_path_factory.mktemp("quick"))
    yield found
    found.end()


@pytest.fixture
def cluster(only: Cluster, monkeypatch: pytest.MonkeyPatch) -> Cluster:
    only.reset()
    monkeypatch.setenv("KUBECONFIG", str(only.kubeconfig))
    monkeypatch.setattr(process_jobs, "SUFFIX_LETTERS", "x")  # names that are made up are the same
    monkeypatch.setattr(sys, "argv", list(sys.argv))
    return only


class Ended(NamedTuple):
    """What a program did, and how it ended."""

    sent: list[Sent]
    status: int | str | None
    out: str
    err: str


def quick_and_whole(cluster: Cluster, words: list[str]) -> tuple[bool, Ended, Ended]:
    """Whether the short way was taken, and what ``vsub`` did with and without it."""
    found, taken = [], []

    def short(words: list[str]) -> int | None:
        try:
            taken.append(submit(words))
        except SystemExit:  # it has sent the job, and then ended as the command
            taken.append(0)
            raise
        return taken[0]

    for way in (short, lambda words: None):
        cluster.sent.clear()
        sys.argv[:] = ["vsub", *words]
        out, err = io.StringIO(), io.StringIO()
        with (
            pytest.MonkeyPatch.context() as patch,
            contextlib.redirect_stdout(out),
            contextlib.redirect_stderr(err),
        ):
            patch.setattr("pumice.cli.cluster.quick_submit.submit", way)
            with pytest.raises(SystemExit) as ended:
                run_vsub()
        found.append(Ended([*cluster.sent], ended.value.code, out.getvalue(), err.getvalue()))
    return taken[0] is not None, found[0], found[1]


USUAL = [
    ["--", "true"],
    ["--", ""],
    ["--", "./Train_2.tar.gz", "a b", "$HOME", "é"],
    ["--", "..", "--", "-r", "9"],
    ["name", "-q", "research", "--", "sh", "-c", "exit 3"],
    ["-N", "other", "-r", "4", "-m", "2", "--", "a"],
    ["name", "--clean-env", "--gpus", "2", "--", "a"],
    [
        "--queue",
        "default",
        "--replicas",
        "3",
        "--min",
        "3",
        "--requests",
        "cpu=500m,memory=2Gi,nvidia.com/gpu=1",
        "--",
        "a",
    ],
]


@pytest.mark.parametrize("words", USUAL, ids=" ".join)
def test_usual_lines_take_the_short_way_to_the_same_job(words: list[str], cluster: Cluster) -> None:
    taken, short, whole = quick_and_whole(cluster, words)
    assert taken
    assert short == whole
    assert (short.status, short.err, len(short.sent)) == (0, "", 1)
    assert short.sent[0].credential == "Bearer secret"


UNUSUAL = [
    *(["-h"], ["name"], ["--"], ["a", "b", "--", "c"], ["a", "-N", "b", "--", "c"], ["-q", "", "--", "a"]),
    *(["--array", "1-3", "--", "a"], ["-qresearch", "--", "a"], ["--queue=research", "--", "a"]),
    *(["-r", "0", "--", "a"], ["-r", " 4", "--", "a"], ["-r", "+4", "--", "a"], ["-r", "x", "--", "a"]),
    *(["-r", "2", "-r", "3", "--", "a"], ["-m", "2", "--", "a"], ["-q", "-r", "--", "a"], ["-r", "--", "a"]),
    *(["-R", "cpu=-1", "--", "a"], ["-R", "cpu=1,cpu=2", "--", "a"], ["-R", "cpu", "--", "a"], ["-R", "", "--", "a"]),
    *(["-R", "cpu=1.5", "--", "a"], ["-R", "cpu=1e3", "--", "a"], ["-R", " cpu=1", "--", "a"], ["-R", "=1", "--", "a"]),
    *(["-R", "memory=1Mk", "--", "a"], ["-R", "example.com/slot=1", "--", "a"], ["--image", "x", "--", "a"]),
    *(
        ["--gpus", "1", "-R", "nvidia.com/gpu=1", "--", "a"],
        ["--", "\udcff"],
        ["--dry-run", "--", "a"],
        ["--output", "f", "--", "a"],
    ),
]


@pytest.mark.parametrize("words", UNUSUAL, ids=" ".join)
def test_other_lines_are_left_to_the_command(words: list[str], cluster: Cluster) -> None:
    taken, short, whole = quick_and_whole(cluster, words)
    assert not taken
    assert short == whole


WORDS = [*WITH_VALUE, "a", "b", "1", "2", "cpu=1", "cpu=2,nvidia.com/gpu=1", "--wat", "--clean-env", "-m2", "-", ""]


@given(st.lists(st.sampled_from(WORDS), max_size=6), st.lists(st.sampled_from(["a", "--", "-q", "$x"]), max_size=2))
def test_lines_of_any_words_mean_the_same(only: Cluster, words: list[str], command: list[str]) -> None:
    only.reset()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("KUBECONFIG", str(only.kubeconfig))
        patch.setattr(process_jobs, "SUFFIX_LETTERS", "x")
        patch.setattr(sys, "argv", list(sys.argv))
        _, short, whole = quick_and_whole(only, [*words, "--", *command])
    assert short == whole


def test_clusters_that_are_not_usual_are_left_to_the_command(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """No node that runs processes, nodes that may not be listed, many nodes, a server that does not answer."""
    forbidden = {"kind": "Status", "reason": "Forbidden", "message": "no", "code": 403}
    empty: dict[str, Any] = {"metadata": {}, "items": []}
    for nodes in ((200, {**empty, "items": [node()]}), (200, empty), (403, forbidden), (0, None)):
        cluster.nodes = nodes
        assert submit(["--", "a"]) is None
    cluster.nodes = (200, {"metadata": {"continue": "x"}, "items": [PROCESSES]})
    assert submit(["--", "a"]) is None
    cluster.reset()
    assert submit(["--", "a"]) == 0
    monkeypatch.setenv("KUBECONFIG", f"{cluster.kubeconfig}:{cluster.kubeconfig}")
    assert submit(["--", "a"]) is None
    monkeypatch.setenv("KUBECONFIG", str(cluster.kubeconfig))
    cluster.kubeconfig.with_name("other").write_text(kubeconfig_text("pumice", SERVER, token="secret"))
    monkeypatch.setenv("KUBECONFIG", str(cluster.kubeconfig.with_name("other")))
    assert submit(["--", "a"]) is None
    assert len(cluster.sent) == 1


def test_variables_that_are_no_text_are_named_and_left_out(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("ODD", "\udcff")
    taken, short, whole = quick_and_whole(cluster, ["--", "a"])
    assert not taken
    assert short == whole
    assert "warning: variables not passed on, because they are not text (UTF-8): ODD" in short.err
    (container,) = short.sent[0].body["spec"]["tasks"][0]["template"]["spec"]["containers"]
    assert "ODD" not in {each["name"] for each in container["env"]}
    assert quick_and_whole(cluster, ["--clean-env", "--", "a"])[0]
    monkeypatch.delenv("ODD")
    folder = tmp_path / "\udcff"
    folder.mkdir()
    monkeypatch.chdir(folder)
    taken, short, whole = quick_and_whole(cluster, ["--", "a"])
    assert not taken
    assert short == whole
    assert "the name of the current folder is not text (UTF-8)" in short.err


def test_a_script_with_options_is_left_to_the_command(cluster: Cluster, tmp_path: Path) -> None:
    for name, text, usual in (("plain.sh", "#!/bin/sh\n", True), ("set.sh", "#!/bin/sh\n#PUMICE -q research\n", False)):
        (tmp_path / name).write_text(text)
        taken, short, whole = quick_and_whole(cluster, ["--", str(tmp_path / name)])
        assert taken is usual
        assert short == whole
        assert short.sent[0].body["spec"].get("queue") == (None if usual else "research")


@pytest.mark.parametrize(
    "answer",
    [
        (403, {"kind": "Status", "reason": "Forbidden", "message": "not your queue", "code": 403}),
        (409, {"kind": "Status", "reason": "AlreadyExists", "message": "exists", "code": 409}),
        (500, "no document"),
        (0, None),
    ],
)
def test_what_goes_wrong_is_said_as_the_command_says_it(answer: tuple[int, Any], cluster: Cluster) -> None:
    """And the job is sent once only."""
    cluster.answer = answer
    taken, short, whole = quick_and_whole(cluster, ["name", "--", "a"])
    assert taken
    assert short == whole
    assert (short.status, len(short.sent)) == (1, 1)
    assert short.err.startswith("error: ")


def test_the_job_is_waited_for(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    def wait(client: Client, jobs: list[dict[str, Any]]) -> int:
        click.echo(f"{client.access.server} {jobs[0]['metadata']['name']}")
        return 7

    monkeypatch.setattr("pumice.cli.cluster.job_wait.wait_for_jobs", wait)
    taken, short, whole = quick_and_whole(cluster, ["name", "--wait", "--", "a"])
    assert taken
    assert short == whole
    assert (short.status, short.out) == (7, f"{SERVER} name\n")


def test_where_a_job_was_routed_is_said(cluster: Cluster) -> None:
    cluster.annotations = {"pumice.dev/routed": "the least used leaf below root"}
    taken, short, whole = quick_and_whole(cluster, ["name", "--", "a"])
    assert taken
    assert short == whole
    assert "the least used leaf" in short.out


def test_defaults_and_names_are_those_of_the_command() -> None:
    assert (JOB.api_version, JOB.kind) == (API_VERSION, KIND)
    assert JOB.path("default") == JOBS
    assert format_quantities(DEFAULTS["requests"]) == DEFAULT_REQUESTS
    assert {"cpu", "memory", "ephemeral-storage"} == ALWAYS_OFFERED
    options = {name: param.name for param in run.params for name in param.opts}
    assert all(options[name] == key for name, key in WITH_VALUE.items())


def test_little_is_loaded(cluster: Cluster) -> None:
    """In a process of its own: what takes longest to load is not loaded."""
    program = (
        "import sys; from pumice.cli.cluster.volcano_programs import run_vsub\n"
        "try: run_vsub()\n"
        "except SystemExit as end: assert end.code == 0, end\n"
        "print({'click', 'inspect', 'dataclasses', 'typing', 'pathlib', 'msgspec'} & {*sys.modules})"
    )
    environment = {**os.environ, "PYTHONPATH": str(Path(pumice.__file__).parents[1])}
    done = run_process(
        [sys.executable, "-S", "-c", program, "name", "--", "a"], env=environment, capture_output=True, text=True
    )
    assert done.stdout.splitlines()[-1] == "set()", (done.stdout, done.stderr)
