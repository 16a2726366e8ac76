from __future__ import annotations

import pytest

from kubesim.api.status import ApiError
from kubesim.clock import moment
from kubesim.kubelet.logs import Excerpt, log_of

T0, T1, T2 = "2024-05-01T12:00:00Z", "2024-05-01T12:00:05Z", "2024-05-01T12:00:09Z"
RUNNING = {"running": {"startedAt": T0}}
DONE = {"terminated": {"startedAt": T0, "finishedAt": T1, "exitCode": 3}}
WAITING = {"waiting": {"reason": "ContainerCreating"}}


def pod(state=RUNNING, last=None, names=("main",), init=(), node="n1"):
    entry = {"image": "busybox", "state": state, "lastState": last or {}}
    spec = {"containers": [{"name": name} for name in names], "initContainers": [{"name": name} for name in init]}
    if node:
        spec["nodeName"] = node
    status = {"containerStatuses": [{"name": name, **entry} for name in names]}
    return {"metadata": {"name": "p"}, "spec": spec, "status": status if node else {}}


def test_what_a_log_tells():
    assert log_of(pod()) == "main: started busybox on n1 (simulated)\n"
    assert log_of(pod(DONE)) == "main: started busybox on n1 (simulated)\nmain: exited with 3\n"
    assert log_of(pod(node="")) == ""


@pytest.mark.parametrize(
    ("excerpt", "text"),
    [
        (Excerpt(tail_lines=1), "main: exited with 3\n"),
        (Excerpt(tail_lines=0), ""),
        (Excerpt(timestamps=True, tail_lines=1), f"{T1} main: exited with 3\n"),
        (Excerpt(since=moment(T1)), "main: exited with 3\n"),
        (Excerpt(since=moment(T2)), ""),
        (Excerpt(limit_bytes=5), "main:"),
    ],
)
def test_parts_of_a_log(excerpt, text):
    assert log_of(pod(DONE), excerpt) == text


def test_the_run_before():
    crashed = pod({"waiting": {"reason": "CrashLoopBackOff"}}, DONE)
    assert "exited with 3" in log_of(crashed)
    assert "exited with 3" in log_of(pod(RUNNING, DONE), Excerpt(previous=True))


@pytest.mark.parametrize(
    ("found", "excerpt", "message"),
    [
        (
            pod(names=("a", "b")),
            Excerpt(),
            "a container name must be specified for pod p, choose one of: [a b]",
        ),
        (
            pod(names=("a", "b"), init=("i",)),
            Excerpt(),
            "a container name must be specified for pod p, choose one of: [a b] or one of the init containers: [i]",
        ),
        (pod(), Excerpt("x"), "container x is not valid for pod p"),
        (pod(WAITING), Excerpt(), 'container "main" in pod "p" is waiting to start: ContainerCreating'),
        (pod(), Excerpt(previous=True), 'previous terminated container "main" in pod "p" not found'),
        (pod(names=("a",), init=("i",)), Excerpt("i"), 'container "i" in pod "p" is not available'),
    ],
)
def test_refusals(found, excerpt, message):
    with pytest.raises(ApiError) as refused:
        log_of(found, excerpt)
    assert refused.value.code == 400
    assert refused.value.message == message
