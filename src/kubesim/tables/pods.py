"""The columns of pods: the status of a pod, derived from its containers.

Init containers come first. Until they have completed, the status shows their progress or failure; then it shows the
state of the app containers, where the first one takes precedence. A pod that is being deleted is Terminating in any
case.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from kubebase.ages import age, seconds
from kubesim.registry.registry import Object, TableColumn

NONE: Final = "<none>"

_COMPLETED: Final[dict[str, list[Object]]] = {
    "Succeeded": [
        {
            "type": "Completed",
            "status": "True",
            "reason": "Succeeded",
            "message": "The pod has completed successfully.",
        }
    ],
    "Failed": [{"type": "Completed", "status": "True", "reason": "Failed", "message": "The pod failed."}],
}


def row_conditions(pod: Object) -> list[Object]:
    """The row conditions of a finished pod."""
    return _COMPLETED.get(pod.get("status", {}).get("phase", ""), [])


# ---- status -----------------------------------------------------------------------------------------------


def pod_status(pod: Object) -> str:
    """What the pod is doing, in a word or two."""
    status: Object = pod.get("status", {})
    phase = status.get("phase", "")
    text = _reason(pod, status, phase)
    if "deletionTimestamp" in pod["metadata"]:
        if status.get("reason") == "NodeLost":
            return "Unknown"
        if phase not in {"Succeeded", "Failed"}:
            return "Terminating"
    return text


def _reason(pod: Object, status: Object, phase: str) -> str:
    text: str = status.get("reason") or phase
    for condition in status.get("conditions", ()):
        if condition.get("type") == "PodScheduled" and condition.get("reason") == "SchedulingGated":
            text = "SchedulingGated"
    initial = _initialising(pod, status)
    if initial and not _condition(status, "Initialized"):
        return initial
    text = initial or text
    running = False
    for container in reversed(status.get("containerStatuses", ())):
        found = _stopped(container.get("state", {}))
        text = found or text
        running = running or (not found and _up(container))
    if text == "Completed" and running:
        return "Running" if _condition(status, "Ready") else "NotReady"
    return text


def _initialising(pod: Object, status: Object) -> str:
    """How far the init containers are, or ``""`` if they are through."""
    declared = pod.get("spec", {}).get("initContainers", ())
    sidecars = _sidecars(pod)
    for index, container in enumerate(status.get("initContainerStatuses", ())):
        state: Object = container.get("state", {})
        ended = state.get("terminated")
        if ended is not None and not ended.get("exitCode"):
            continue
        if container.get("started") and container.get("name") in sidecars:
            continue
        if ended is not None or state.get("waiting", {}).get("reason", "") not in {"", "PodInitializing"}:
            return f"Init:{_stopped(state)}"
        return f"Init:{index}/{len(declared)}"
    return ""


def _stopped(state: Object) -> str:
    """Why a container is not running, by its state."""
    waiting: str = state.get("waiting", {}).get("reason", "")
    if waiting:
        return waiting
    ended = state.get("terminated")
    if ended is None:
        return ""
    if ended.get("reason"):
        return str(ended["reason"])
    return f"Signal:{ended['signal']}" if ended.get("signal") else f"ExitCode:{ended.get('exitCode', 0)}"


def _up(container: Object) -> bool:
    return bool(container.get("ready")) and "running" in container.get("state", {})


def _sidecars(pod: Object) -> set[str]:
    declared = pod.get("spec", {}).get("initContainers", ())
    return {container["name"] for container in declared if container.get("restartPolicy") == "Always"}


def _condition(status: Object, kind: str) -> bool:
    return any(c.get("type") == kind and c.get("status") == "True" for c in status.get("conditions", ()))


def _begun(pod: Object, status: Object) -> bool:
    """Whether the containers proper count: the init containers are through, or were once."""
    return not _initialising(pod, status) or _condition(status, "Initialized")


# ---- ready, restarts --------------------------------------------------------------------------------------


def ready(pod: Object) -> str:
    """How many containers are ready, of how many. Init containers that keep running count as containers."""
    status: Object = pod.get("status", {})
    spec: Object = pod.get("spec", {})
    many = len(spec.get("containers", ()))
    up = 0
    if spec.get("initContainers"):
        sidecars = _sidecars(pod)
        many += len(sidecars)
        up = sum(1 for container in _passed(status, sidecars) if container.get("ready"))
    if status.get("containerStatuses") and _begun(pod, status):
        for container in status["containerStatuses"]:
            if _up(container) and not _stopped(container["state"]):
                up += 1
    return f"{up}/{many}"


def _passed(status: Object, sidecars: set[str]) -> Iterator[Object]:
    """The sidecars that have started, up to the first init container that is not through."""
    for container in status.get("initContainerStatuses", ()):
        ended = container.get("state", {}).get("terminated")
        if ended is not None and not ended.get("exitCode"):
            continue
        if not (container.get("started") and container.get("name") in sidecars):
            return
        yield container


def restarts(pod: Object) -> str:
    """How often containers were started again, and when the last of them."""
    status: Object = pod.get("status", {})
    initial = status.get("initContainerStatuses", ())
    if not _begun(pod, status):
        # In turn, as far as they came: those after the one at work have not run.
        counted = list(_until_at_work(pod, status))
    else:
        sidecars = _sidecars(pod) if initial else set()
        counted = [container for container in initial if container.get("name") in sidecars]
        counted += status.get("containerStatuses", ())
    many = sum(container.get("restartCount", 0) for container in counted)
    if not many:
        return "0"
    ends = (container.get("lastState", {}).get("terminated", {}).get("finishedAt") for container in counted)
    last = max((end for end in ends if end), key=lambda end: seconds(end) or 0.0, default=None)
    return f"{many} ({age(last)} ago)" if last else str(many)


def _until_at_work(pod: Object, status: Object) -> Iterator[Object]:
    sidecars = _sidecars(pod)
    for container in status.get("initContainerStatuses", ()):
        yield container
        ended = container.get("state", {}).get("terminated")
        through = ended is not None and not ended.get("exitCode")
        if not through and not (container.get("started") and container.get("name") in sidecars):
            return


# ---- wide -------------------------------------------------------------------------------------------------


def _ip(pod: Object) -> str:
    found = pod.get("status", {}).get("podIPs")
    return (found[0].get("ip") if found else "") or NONE


def _node(pod: Object) -> str:
    return pod.get("spec", {}).get("nodeName") or NONE


def _nominated(pod: Object) -> str:
    return pod.get("status", {}).get("nominatedNodeName") or NONE


def _gates(pod: Object) -> str:
    gates = pod.get("spec", {}).get("readinessGates")
    if not gates:
        return NONE
    status: Object = pod.get("status", {})
    return f"{sum(1 for gate in gates if _condition(status, gate.get('conditionType', '')))}/{len(gates)}"


def columns(name: TableColumn, created: TableColumn) -> tuple[TableColumn, ...]:
    """The columns of pods, including those that every kind has."""
    return (
        name,
        TableColumn("Ready", ready, description="Ready and total containers."),
        TableColumn("Status", pod_status, description="The status of the pod."),
        TableColumn("Restarts", restarts, description="How often containers were started again, and when last."),
        created,
        TableColumn("IP", _ip, priority=1, description="The pod's address."),
        TableColumn("Node", _node, priority=1, description="The node the pod is bound to."),
        TableColumn(
            "Nominated Node", _nominated, priority=1, description="The node that is being cleared for the pod."
        ),
        TableColumn("Readiness Gates", _gates, priority=1, description="True and total readiness gates."),
    )
