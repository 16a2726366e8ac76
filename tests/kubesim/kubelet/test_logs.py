from __future__ import annotations

import pytest

from kubesim.api.status import ApiError
from kubesim.clock import parse_time
from kubesim.kubelet.logs import LogOptions, pod_log

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


def test_log_of_a_simulated_pod():
    assert pod_log(pod()) == "main: started busybox on n1 (simulated)\n"
    assert pod_log(pod(DONE)) == "main: started busybox on n1 (simulated)\nmain: exited with 3\n"
    assert pod_log(pod(node="")) == ""


@pytest.mark.parametrize(
    ("excerpt", "text"),
    [
        (LogOptions(tail_lines=1), "main: exited with 3\n"),
        (LogOptions(tail_lines=0), ""),
        (LogOptions(timestamps=True, tail_lines=1), f"{T1} main: exited with 3\n"),
        (LogOptions(since=parse_time(T1)), "main: exited with 3\n"),
        (LogOptions(since=parse_time(T2)), ""),
        (LogOptions(limit_bytes=5), "main:"),
    ],
)
def test_parts_of_a_log(excerpt, text):
    assert pod_log(pod(DONE), excerpt) == text


def test_log_of_previous_container():
    crashed = pod({"waiting": {"reason": "CrashLoopBackOff"}}, DONE)
    assert "exited with 3" in pod_log(crashed)
    assert "exited with 3" in pod_log(pod(RUNNING, DONE), LogOptions(previous=True))


@pytest.mark.parametrize(
    ("found", "excerpt", "message"),
    [
        (
            pod(names=("a", "b")),
            LogOptions(),
            "a container name must be specified for pod p, choose one of: [a b]",
        ),
        (
            pod(names=("a", "b"), init=("i",)),
            LogOptions(),
            "a container name must be specified for pod p, choose one of: [a b] or one of the init containers: [i]",
        ),
        (pod(), LogOptions("x"), "container x is not valid for pod p"),
        (pod(WAITING), LogOptions(), 'container "main" in pod "p" is waiting to start: ContainerCreating'),
        (pod(), LogOptions(previous=True), 'previous terminated container "main" in pod "p" not found'),
        (pod(names=("a",), init=("i",)), LogOptions("i"), 'container "i" in pod "p" is not available'),
    ],
)
def test_refusals(found, excerpt, message):
    with pytest.raises(ApiError) as refused:
        pod_log(found, excerpt)
    assert refused.value.code == 400
    assert refused.value.message == message
