"""A shim with real processes: exit codes, signals, order, restarts, probes, ends, logs.

Every test runs on the shim in Python, and on the compiled one as far as its pods are plain (``tests/agent/conftest.py``
makes both).
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from pumice.agent.pod_folders import PodFolder
from pumice.agent.shim.cgroup_removal import remove_cgroups
from pumice.agent.shim.process_table import cgroup_processes, kill_all, marked_processes, start_ticks
from pumice.agent.shim.records import SHIM, read_record
from pumice.agent.shim_start import NATIVE
from tests.support.processes import end_process, start_process
from tests.support.shims import SECONDS, container, shimmed_pod

DAEMON = """
import os, sys, time
from os import fork
said, saying = os.pipe()
if fork() == 0:
    os.setsid()
    if fork() == 0:
        print(os.getpid(), flush=True)
        os.close(saying)
        time.sleep(600)
    os._exit(0)
os.close(saying)
os.read(said, 1)
time.sleep(float(sys.argv[1]))
"""


HIERARCHIES = (Path("/sys/fs/cgroup"), Path("/sys/fs/cgroup/unified"))
"""Where version 2 of cgroups may be; beside version 1 it limits nothing, but knows its processes."""


@contextlib.contextmanager
def unified_cgroup() -> Iterator[Path]:
    """A cgroup of version 2 for a pod with a container."""
    mount = next((mount for mount in HIERARCHIES if (mount / "cgroup.controllers").exists()), None)
    if mount is None or not os.access(mount, os.W_OK):
        pytest.skip("needs cgroups of version 2 that can be written")
    pod = mount / f"pumice-test-{os.getpid()}"
    (pod / "main").mkdir(parents=True)
    try:
        yield pod
    finally:
        assert kill_all(lambda: cgroup_processes([str(pod / "main"), str(pod)]))
        remove_cgroups([str(pod / "main"), str(pod)])


def probe(*command: str, failures: int = 1) -> dict[str, object]:
    """A probe that runs often."""
    return {"command": [*command], "delay": 0.0, "period": 0.05, "timeout": 5.0, "successes": 1, "failures": failures}


def test_exit_codes_streams_and_times_are_written_down(tmp_path: Path) -> None:
    """A pod with a container that fails is Failed, and each container has its own code and log."""
    good = container("good", "sh", "-c", "echo out; echo err >&2; printf unended")
    bad = container("bad", "sh", "-c", "exit 7")
    before = time.time()
    with shimmed_pod(tmp_path / "a", good, bad) as pod:
        record = pod.wait_finished()
        assert record["phase"] == "Failed"
        runs = [each["run"] for each in record["containers"]]
        assert [(run["exit_code"], run["reason"]) for run in runs if run] == [(0, "Completed"), (7, "Error")]
        assert all(before <= run["started"] <= run["finished"] <= time.time() for run in runs if run)
        assert sorted(pod.log("good")) == [("stderr", "err"), ("stdout", "out"), ("stdout", "unended")]


def test_each_test_runs_on_the_shim_that_it_names(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    """Not on the other one, which has the same tests."""
    with shimmed_pod(tmp_path / "a", container("main", "sleep", "600")) as pod:
        program = Path(f"/proc/{pod.shim_pid}/exe").readlink().name
        assert (program == NATIVE.name) is (request.node.callspec.params["shim_kind"] == "native"), program


def test_a_signal_is_128_more_and_a_missing_program_is_a_start_error(tmp_path: Path) -> None:
    """Exit codes are those that Kubernetes shows."""
    killed = container("killed", "sh", "-c", "kill -9 $$")
    missing = container("missing", "no-such-program-here")
    with shimmed_pod(tmp_path / "a", killed, missing) as pod:
        first, second = (each["run"] for each in pod.wait_finished()["containers"])
        assert first and first["exit_code"] == 128 + signal.SIGKILL
        assert second and (second["exit_code"], second["reason"]) == (128, "StartError")
        assert 'exec: "no-such-program-here": executable file not found in $PATH' in second["message"]


def test_a_script_that_names_no_interpreter_is_told_what_it_lacks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A shell would have run it, so that it works until it is submitted."""
    script = tmp_path / "train"
    script.write_text("echo on\n")
    script.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    with shimmed_pod(tmp_path / "a", container("main", str(script)), container("found", "train")) as pod:
        words = "not a program; a script begins with a line such as #!/bin/sh"
        runs = [each["run"] for each in pod.wait_finished()["containers"]]
        assert [run and run["message"].partition('": ')[2] for run in runs] == [words, words]


def test_init_containers_run_in_order_before_the_others(tmp_path: Path) -> None:
    """Each sees what the one before has done; a failure keeps the others from starting."""
    steps = [container(name, "sh", "-c", f"cat {tmp_path}/x; echo {name} >> {tmp_path}/x", init=True) for name in "ab"]
    with shimmed_pod(tmp_path / "a", *steps, container("main", "cat", f"{tmp_path}/x")) as pod:
        assert pod.wait_finished()["phase"] == "Succeeded"
        assert pod.log("main") == [("stdout", "a"), ("stdout", "b")]
    with shimmed_pod(tmp_path / "b", container("first", "false", init=True), container("main", "true")) as pod:
        record = pod.wait_finished()
        assert record["phase"] == "Failed"
        assert [each["state"] for each in record["containers"]] == ["terminated", "waiting"]


def test_on_failure_starts_again_and_keeps_the_log_before(tmp_path: Path) -> None:
    """A container that fails once succeeds at its second run; both logs are there."""
    script = f"echo $$; test -e {tmp_path}/seen || {{ touch {tmp_path}/seen; exit 3; }}"
    with shimmed_pod(tmp_path / "a", container("main", "sh", "-c", script), restart_policy="OnFailure") as pod:
        record = pod.wait_finished()
        main = record["containers"][0]
        assert record["phase"] == "Succeeded"
        assert main["restarts"] == 1 and main["last"] and main["last"]["exit_code"] == 3
        assert pod.log("main", 0) != pod.log("main", 1)


def test_a_process_that_ignores_sigterm_is_killed_after_the_grace_period(tmp_path: Path) -> None:
    """SIGTERM reaches it, SIGKILL ends it."""
    script = "trap 'echo asked' TERM; echo on; while :; do sleep 0.05; done"
    with shimmed_pod(tmp_path / "a", container("main", "sh", "-c", script)) as pod:
        pod.wait(lambda record: record["phase"] == "Running" and pod.log("main"))
        pod.stop(grace=0.3)
        run = pod.wait_finished()["containers"][0]["run"]
        assert run and run["exit_code"] == 128 + signal.SIGKILL
        assert ("stdout", "asked") in pod.log("main")


def test_daemons_end_with_their_container(tmp_path: Path) -> None:
    """A process in a session of its own, whose parents have ended, still belongs to its container."""
    with shimmed_pod(tmp_path / "a", container("main", sys.executable, "-c", DAEMON, "0")) as pod:
        pod.wait_finished()
        daemon = int(pod.log("main")[0][1])
        assert start_ticks(daemon) == 0
        assert not marked_processes(pod.uid)


def test_a_cgroup_of_version_2_finds_what_hides_and_goes_with_its_pod(tmp_path: Path) -> None:
    """Also what has left its session and cleared its environment, by which it would be found otherwise."""
    note = tmp_path / "note"
    script = f"""
        cat /proc/self/cgroup
        env -i setsid sh -c 'echo $$ > {note}; exec sleep 600' &
        while ! test -s {note}; do sleep 0.02; done
        exit 3
    """
    with unified_cgroup() as folder:
        main = container("main", "sh", "-c", script, joined=[str(folder / "main" / "cgroup.procs")])
        with shimmed_pod(tmp_path / "a", main, cgroups=[str(folder / "main"), str(folder)]) as pod:
            run = pod.wait_finished()["containers"][0]["run"]
            assert run and run["exit_code"] == 3
            assert any(line.endswith(f"/{folder.name}/main") for _, line in pod.log("main"))
            assert start_ticks(int(note.read_text())) == 0
            while folder.exists():  # the shim removes it after its last record
                time.sleep(0.01)


@pytest.mark.parametrize(
    ("name", "before", "after"),
    [
        ("memory.events", "low 0\nmax 9\noom 1\noom_kill 0\n", "low 0\nmax 9\noom 2\noom_kill 1\n"),
        ("memory.oom_control", "under_oom 0\noom_kill 4\n", "under_oom 0\noom_kill 5\n"),
    ],
)
def test_a_kill_for_lack_of_memory_is_read_as_the_kernel_counts(
    name: str, before: str, after: str, tmp_path: Path
) -> None:
    """Version 2 of cgroups counts in memory.events, version 1 in memory.oom_control."""
    counter = tmp_path / name
    counter.write_text(before)
    (tmp_path / "after").write_text(after)
    script = f"cat {tmp_path}/after > {counter}; kill -9 $$"
    with shimmed_pod(tmp_path / "a", container("main", "sh", "-c", script, oom_counter=str(counter))) as pod:
        run = pod.wait_finished()["containers"][0]["run"]
        assert run and (run["exit_code"], run["reason"]) == (128 + signal.SIGKILL, "OOMKilled")


def test_the_deadline_ends_the_pod(tmp_path: Path) -> None:
    """The reason is that of a kubelet."""
    with shimmed_pod(tmp_path / "a", container("main", "sleep", "600"), deadline=0.2) as pod:
        record = pod.wait_finished()
        assert (record["phase"], record["reason"]) == ("Failed", "DeadlineExceeded")
        run = record["containers"][0]["run"]
        assert run and run["exit_code"] == 128 + signal.SIGTERM


def test_probes_decide_readiness_and_restarts(tmp_path: Path) -> None:
    """Ready as soon as its file is there; started again when the liveness probe fails."""
    ready = {"readinessProbe": probe("test", "-e", f"{tmp_path}/ready")}
    with shimmed_pod(tmp_path / "a", container("main", "sleep", "600", probes=ready)) as pod:
        pod.wait(lambda record: record["phase"] == "Running")
        assert not pod.record["containers"][0]["ready"]
        (tmp_path / "ready").touch()
        pod.wait(lambda record: record["containers"][0]["ready"])
    alive = {"livenessProbe": probe("test", "!", "-e", f"{tmp_path}/dead")}
    with shimmed_pod(tmp_path / "b", container("main", "sleep", "600", probes=alive), restart_policy="Always") as pod:
        pod.wait(lambda record: record["phase"] == "Running")
        (tmp_path / "dead").touch()
        record = pod.wait(lambda record: record["containers"][0]["restarts"] > 0)
        last = record["containers"][0]["last"]
        assert last and last["message"] == "the liveness probe failed"
    (tmp_path / "dead").unlink()
    alive["livenessProbe"]["grace"] = 0.1  # instead of the pod's 600 seconds
    stays = container("main", "sh", "-c", "trap '' TERM; while :; do sleep 0.05; done", probes=alive)
    with shimmed_pod(tmp_path / "c", stays, grace=600.0) as pod:
        pod.wait(lambda record: record["phase"] == "Running")
        (tmp_path / "dead").touch()
        run = pod.wait_finished()["containers"][0]["run"]
        assert run and run["exit_code"] == 128 + signal.SIGKILL


def test_output_is_rotated(tmp_path: Path) -> None:
    """Endless output takes no more than the files that are allowed, and its end is there."""
    script = "i=0; while [ $i -lt 3000 ]; do echo line-$i-xxxxxxxxxxxxxxxxxxxxxxxxxx; i=$((i+1)); done"
    main = container("main", "sh", "-c", script)
    with shimmed_pod(tmp_path / "a", main, log_bytes=20_000, log_files=3) as pod:
        pod.wait_finished()
        files = sorted((tmp_path / "a" / "logs" / "main").iterdir())
        assert [file.name for file in files] == ["0.log", "0.log.1", "0.log.2"]
        assert all(file.stat().st_size <= 20_000 for file in files)
        assert pod.log("main")[-1][1].startswith("line-2999-")


def test_a_pod_ends_although_others_write_into_its_output_without_end(tmp_path: Path) -> None:
    """Programs outside the pod, of the same user, can open the output of its processes."""
    with shimmed_pod(tmp_path / "a", container("main", "sleep", "600"), log_bytes=1 << 20) as pod:
        run = pod.wait(lambda record: record["phase"] == "Running")["containers"][0]["run"]
        assert run
        flood = [start_process(["sh", "-c", f"exec yes > /proc/{run['pid']}/fd/1"]) for _ in range(3)]
        try:
            pod.wait(lambda _: len(pod.log("main")) > 1000)
            pod.stop(grace=0.0)
            ended = pod.wait_finished()["containers"][0]["run"]
            assert ended and ended["exit_code"] in (128 + signal.SIGTERM, 128 + signal.SIGKILL)
        finally:
            for each in flood:
                end_process(each)


def test_a_pod_is_run_once_however_often_its_shim_is_started(tmp_path: Path) -> None:
    """While it runs, and after its end."""
    with shimmed_pod(tmp_path / "a", container("main", "sh", "-c", f"echo >> {tmp_path}/runs; sleep 0.2")) as pod:
        first = pod.shim_pid
        pod.start()
        pod.wait_finished()
        pod.start()
        assert pod.shim_pid == first
        assert (tmp_path / "runs").read_text() == "\n"


def test_processes_end_with_a_killed_shim(tmp_path: Path) -> None:
    """The kernel ends the first process of each container; daemons are found by their environment."""
    with shimmed_pod(tmp_path / "a", container("main", sys.executable, "-c", DAEMON, "600")) as pod:
        pod.wait(lambda record: record["phase"] == "Running" and pod.log("main"))
        run = pod.record["containers"][0]["run"]
        assert run
        os.kill(read_record(str(pod.folder / SHIM))["pid"], signal.SIGKILL)
        while start_ticks(run["pid"]):
            time.sleep(0.01)
        assert marked_processes(pod.uid) == {int(pod.log("main")[0][1])}


def test_a_shim_that_is_killed_as_it_begins_leaves_a_pod_that_failed_and_never_runs_again(tmp_path: Path) -> None:
    """Before its first record nobody can tell what has run: no process is left, and the end of each is not known."""
    script = f"echo x >> {tmp_path}/runs; setsid sleep 600 & sleep 600"
    for number in range(5):
        with shimmed_pod(tmp_path / f"pod-{number}", container("main", "sh", "-c", script)) as pod:
            os.kill(pod.shim_pid, signal.SIGKILL)
            (tmp_path / pod.uid).symlink_to(pod.folder)  # an agent names folders so
            folder = PodFolder(tmp_path / pod.uid)
            while folder.is_shim_alive():
                time.sleep(0.001)
            before = folder.record()
            folder.write_off()
            assert not marked_processes(pod.uid)
            found = pod.record
            assert (found["phase"], found["reason"], found["finished"]) == ("Failed", "ShimLost", True)
            run = found["containers"][0]["run"]
            assert run and (run["exit_code"], run["reason"]) == (137, "ContainerStatusUnknown"), before
            pod.start()
            assert not marked_processes(pod.uid)
    runs = tmp_path / "runs"
    assert not runs.exists() or runs.read_text() in {"x\n" * count for count in range(6)}


def test_word_to_an_agent_that_has_no_room_for_it_is_sent_again(tmp_path: Path) -> None:
    """The socket of the agent takes few messages; nothing else tells it soon that a pod runs."""
    path = tmp_path / "bell"
    kind = (socket.AF_UNIX, socket.SOCK_DGRAM)
    with socket.socket(*kind) as bell, socket.socket(*kind) as loud:
        bell.bind(str(path))
        bell.settimeout(SECONDS)
        loud.setblocking(False)
        with contextlib.suppress(BlockingIOError):
            while True:
                loud.sendto(b"other", str(path))
        with shimmed_pod(tmp_path / "a", container("main", "sleep", "600"), notify=str(path)) as pod:
            pod.wait(lambda record: record["phase"] == "Running")
            while (word := bell.recv(256)) == b"other":
                pass
            assert word.decode() == pod.uid
