"""Container statuses as a kubelet reports them, and the pod conditions that follow from them. Pure."""

from __future__ import annotations

from binascii import crc32
from collections.abc import Callable
from typing import Any

from kubesim.identity import ServerIdentity
from kubesim.registry.registry import Object

State = dict[str, Any]

KILLED, STOPPED = 137, 143  # exit codes after SIGKILL and SIGTERM


def waiting(reason: str, message: str = "") -> State:
    """The state of a waiting container."""
    return {"waiting": {"reason": reason} | ({"message": message} if message else {})}


def running(at: str) -> State:
    """The state of a running container."""
    return {"running": {"startedAt": at}}


def terminated(code: int, started: str, finished: str, container_id: str) -> State:
    """The state of a terminated container."""
    reason = "Completed" if code == 0 else "Error"
    end = {"containerID": container_id, "exitCode": code, "reason": reason}
    return {"terminated": end | {"startedAt": started, "finishedAt": finished}}


def set_container_states(
    pod: Object, state: Callable[[Object | None, str], State], identity: ServerIdentity, *, restarted: int = 0
) -> None:
    """Set the state of every container; ``state`` gets the old status, if any, and the container's id."""
    status = pod["status"]
    entries = {entry["name"]: entry for entry in status.get("containerStatuses") or ()}
    status["containerStatuses"] = [
        _container_status(pod, container, entries.get(container["name"]), state, restarted, identity)
        for container in pod["spec"]["containers"]
    ]


def set_init_container_states(
    pod: Object, at: str, identity: ServerIdentity, *, done: bool, over: bool = False
) -> None:
    """Set the states of init containers: waiting, or completed; sidecars run until the pod has finished."""
    containers = pod["spec"].get("initContainers")
    if not containers:
        return

    def state(sidecar: bool) -> Callable[[Object | None, str], State]:
        def of(old: Object | None, container_id: str) -> State:
            if not done:
                return waiting("PodInitializing")
            if sidecar and not over:
                return running(_started_at(old) or at)
            if old is not None and "terminated" in old["state"]:
                return dict(old["state"])
            return terminated(0, _started_at(old) or at, at, container_id)

        return of

    status = pod["status"]
    entries = {entry["name"]: entry for entry in status.get("initContainerStatuses") or ()}
    status["initContainerStatuses"] = [
        _container_status(pod, container, entries.get(container["name"]), state(_is_sidecar(container)), 0, identity)
        for container in containers
    ]
    for entry in status["initContainerStatuses"]:
        entry["ready"] = done and ("terminated" in entry["state"] or not over)


def _container_status(
    pod: Object,
    container: Object,
    old: Object | None,
    state: Callable[[Object | None, str], State],
    restarted: int,
    identity: ServerIdentity,
) -> Object:
    restarts = (old or {}).get("restartCount", 0) + restarted
    now = state(old, _container_id(identity.name, pod, container["name"], restarts - restarted))
    entry: Object = {
        "name": container["name"],
        "image": container.get("image", ""),
        "imageID": "",
        "ready": "running" in now,
        "started": "running" in now,
        "restartCount": restarts,
        "state": now,
        "lastState": dict((old or {}).get("lastState") or {}),
    }
    if "waiting" not in now:
        entry["imageID"] = container.get("image", "")
        entry["containerID"] = _container_id(identity.name, pod, container["name"], restarts)
    return entry


def _is_sidecar(container: Object) -> bool:
    return bool(container.get("restartPolicy") == "Always")


def _container_id(runtime: str, pod: Object, container: str, restarts: int) -> str:
    """A unique id for each start of a container. Not a digest, because hashlib loads OpenSSL."""
    uid = pod["metadata"]["uid"].replace("-", "")
    return f"{runtime}://{uid}{crc32(container.encode()):08x}{restarts:024x}"


def _started_at(entry: Object | None) -> str | None:
    state = (entry or {}).get("state") or {}
    return (state.get("running") or state.get("terminated") or {}).get("startedAt")


def started_at(entry: Object | None, otherwise: str) -> str:
    """When a container was started, or ``otherwise``."""
    return _started_at(entry) or otherwise


def set_pod_conditions(pod: Object, at: str) -> None:
    """Set the pod conditions that follow from container states; others (DisruptionTarget) are kept."""
    status = pod["status"]
    phase, entries = status["phase"], status.get("containerStatuses") or ()
    unready = [entry["name"] for entry in entries if not entry["ready"]]
    initialized = all(entry["ready"] for entry in status.get("initContainerStatuses") or ()) or phase != "Pending"
    if phase == "Succeeded":
        why = {"reason": "PodCompleted"}
    elif phase == "Failed":
        why = {"reason": "PodFailed"}
    elif unready:
        why = {"reason": "ContainersNotReady", "message": f"containers with unready status: [{' '.join(unready)}]"}
    else:
        why = {}
    ready = "False" if why else "True"
    sandbox = phase not in {"Succeeded", "Failed"} and bool(status.get("podIP"))
    if initialized:
        started = {"status": "True"} | ({"reason": "PodCompleted"} if phase == "Succeeded" else {})
    else:
        names = " ".join(container["name"] for container in pod["spec"].get("initContainers") or ())
        text = f"containers with incomplete status: [{names}]"
        started = {"status": "False", "reason": "ContainersNotInitialized", "message": text}
    _set_conditions(
        status,
        {
            "PodReadyToStartContainers": {"status": "True" if sandbox else "False"},
            "Initialized": started,
            "Ready": {"status": ready, **why},
            "ContainersReady": {"status": ready, **why},
            "PodScheduled": {"status": "True"},
        },
        at,
    )


def _set_conditions(status: Object, conditions: dict[str, dict[str, str]], at: str) -> None:
    """Set conditions by their types, in place of their earlier states or behind all others.

    The time of a transition changes only with the status; reason and message go if there are none.
    """
    found = []
    for old in status.get("conditions") or ():
        new = conditions.pop(old.get("type", ""), None)
        if new is None:
            found.append(old)
            continue
        since = old.get("lastTransitionTime", at) if old.get("status") == new["status"] else at
        kept = {part: value for part, value in old.items() if part not in {"reason", "message"} or part in new}
        found.append({**kept, **new, "lastTransitionTime": since})
    found += [{"type": kind, **new, "lastTransitionTime": at} for kind, new in conditions.items()]
    status["conditions"] = found
