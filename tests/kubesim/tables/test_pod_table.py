"""The columns of pods: what a real kube-apiserver 1.36 shows of the same pods."""

from typing import Any

import pytest

from kubebase.ages import at, seconds
from kubesim.registry.registry import Object
from kubesim.tables import AGE, NAME
from kubesim.tables.pods import columns, pod_status, ready, restarts

NOW = seconds("2026-11-15T17:05:00Z")
RUNS: Object = {"running": {}}
READY = {"type": "Ready", "status": "True"}
INITIALIZED = {"type": "Initialized", "status": "True"}
LAST: Object = {"terminated": {"exitCode": 1, "finishedAt": "2026-11-15T16:00:00Z"}}
EARLIER: Object = {"terminated": {"exitCode": 1, "finishedAt": "2026-11-15T12:00:00Z"}}
TWO: Object = {"containers": [{"name": "c"}, {"name": "d"}]}
INIT: Object = {**TWO, "initContainers": [{"name": "i"}, {"name": "j"}]}
SIDE: Object = {**TWO, "initContainers": [{"name": "s", "restartPolicy": "Always"}, {"name": "j"}]}


def ended(code: int = 0, **fields: Any) -> Object:
    return {"terminated": {"exitCode": code, **fields}}


def waits(reason: str) -> Object:
    return {"waiting": {"reason": reason}}


def one(name: str, state: Object | None = None, up: bool = False, count: int = 0, **fields: Any) -> Object:
    return {"name": name, "ready": up, "restartCount": count, "state": state or {}, **fields}


def pod(spec: Object, *containers: Object, initial: tuple[Object, ...] = (), **status: Any) -> Object:
    status = {"phase": "Pending", **status}
    if containers:
        status["containerStatuses"] = list(containers)
    if initial:
        status["initContainerStatuses"] = list(initial)
    return {"metadata": {"name": "p"}, "spec": spec, "status": status}


COMPLETED = ended(reason="Completed")
UP = (one("c", RUNS, True), one("d", RUNS, True))
CASES: list[tuple[Object, str]] = [
    (pod(TWO), "0/2 Pending 0"),
    (pod(TWO, *UP, phase="Running"), "2/2 Running 0"),
    (
        pod(TWO, one("c", RUNS, True, 3, lastState=LAST), one("d", RUNS, False, 2, lastState=EARLIER), phase="Running"),
        "1/2 Running 5 (65m ago)",
    ),
    (pod(TWO, one("c", waits("CrashLoopBackOff"), count=5), UP[1], phase="Running"), "1/2 CrashLoopBackOff 5"),
    (pod(TWO, one("c", waits("ContainerCreating")), one("d", waits("ImagePullBackOff"))), "0/2 ContainerCreating 0"),
    (pod(TWO, one("c", COMPLETED), UP[1], phase="Running"), "1/2 NotReady 0"),
    (pod(TWO, one("c", COMPLETED), UP[1], phase="Running", conditions=[READY]), "1/2 Running 0"),
    (pod(TWO, one("c", COMPLETED), one("d", COMPLETED), phase="Succeeded"), "0/2 Completed 0"),
    (pod(TWO, one("c", ended(1, reason="Error")), one("d", COMPLETED), phase="Failed"), "0/2 Error 0"),
    (pod(TWO, one("c", ended(3)), one("d", ended(0, signal=9)), phase="Failed"), "0/2 ExitCode:3 0"),
    (pod(TWO, one("c", ended(0, signal=9)), one("d", RUNS), phase="Failed"), "0/2 Signal:9 0"),
    (pod(TWO, phase="Failed", reason="Evicted"), "0/2 Evicted 0"),
    (pod(INIT), "0/2 Pending 0"),
    (pod(INIT, initial=(one("i", RUNS), one("j", waits("PodInitializing")))), "0/2 Init:0/2 0"),
    (pod(INIT, initial=(one("i", COMPLETED), one("j", waits("PodInitializing")))), "0/2 Init:1/2 0"),
    (
        pod(INIT, initial=(one("i", waits("CrashLoopBackOff"), count=4, lastState=LAST), one("j", count=7))),
        "0/2 Init:CrashLoopBackOff 4 (65m ago)",
    ),
    (pod(INIT, initial=(one("i", ended(2), count=1), one("j"))), "0/2 Init:ExitCode:2 1"),
    (pod(INIT, initial=(one("i", ended(2, signal=9)), one("j"))), "0/2 Init:Signal:9 0"),
    (pod(INIT, initial=(one("i", ended(2, reason="Error")), one("j"))), "0/2 Init:Error 0"),
    # Restarts of init containers that are through do not count any more.
    (
        pod(
            INIT,
            one("c", RUNS, True, 1),
            UP[1],
            initial=(one("i", ended(), count=2), one("j", ended())),
            phase="Running",
        ),
        "2/2 Running 1",
    ),
    # An init container runs again in a pod that was initialised once.
    (
        pod(INIT, *UP, initial=(one("i", RUNS), one("j", ended())), phase="Running", conditions=[INITIALIZED]),
        "2/2 Init:0/2 0",
    ),
    (
        pod(SIDE, initial=(one("s", RUNS, True, 2, lastState=LAST, started=True), one("j", RUNS))),
        "1/3 Init:1/2 2 (65m ago)",
    ),
    (pod(SIDE, initial=(one("s", RUNS, True, started=False), one("j"))), "0/3 Init:0/2 0"),
    (
        pod(
            SIDE,
            one("c", RUNS, True, 1, lastState=EARLIER),
            UP[1],
            initial=(one("s", RUNS, True, 2, lastState=LAST, started=True), one("j", ended(), count=5)),
            phase="Running",
        ),
        "3/3 Running 3 (65m ago)",
    ),
    (pod(TWO, conditions=[{"type": "PodScheduled", "reason": "SchedulingGated"}]), "0/2 SchedulingGated 0"),
    (pod(TWO, phase="Unknown"), "0/2 Unknown 0"),
]


@pytest.mark.parametrize(("found", "text"), CASES, ids=[text for _, text in CASES])
def test_cells(found: Object, text: str) -> None:
    with at(NOW):
        assert f"{ready(found)} {pod_status(found)} {restarts(found)}" == text


@pytest.mark.parametrize(
    ("found", "text"),
    [
        (pod(TWO, *UP, phase="Running"), "Terminating"),
        (pod(TWO), "Terminating"),
        (pod(TWO, phase="Succeeded"), "Succeeded"),
        (pod(TWO, phase="Failed", reason="Evicted"), "Evicted"),
        (pod(TWO, *UP, phase="Running", reason="NodeLost"), "Unknown"),
    ],
)
def test_while_it_is_deleted(found: Object, text: str) -> None:
    found["metadata"]["deletionTimestamp"] = "2026-11-15T17:00:00Z"
    assert pod_status(found) == text


def test_wide() -> None:
    spec = {**TWO, "nodeName": "n1", "readinessGates": [{"conditionType": "a"}, {"conditionType": "b"}]}
    conditions = [{"type": "a", "status": "True"}, {"type": "b", "status": "False"}]
    found = pod(spec, podIPs=[{"ip": "10.0.0.1"}], nominatedNodeName="n2", conditions=conditions)
    assert [column.value(found) for column in columns(NAME, AGE)][5:] == ["10.0.0.1", "n1", "n2", "1/2"]
