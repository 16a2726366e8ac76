"""Logs of simulated pods: a few lines derived from the status, and the errors of a real node."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from kubesim.api import status
from kubesim.clock import parse_time
from kubesim.registry.registry import Object


@dataclass(frozen=True, slots=True)
class LogOptions:
    """Which part of a log is asked for."""

    container: str = ""
    previous: bool = False
    timestamps: bool = False
    tail_lines: int | None = None
    since: float | None = None  # only lines from this moment on
    limit_bytes: int | None = None


def pod_log(pod: Object, excerpt: LogOptions | None = None) -> str:
    """The log of one container of a pod. ``ApiError`` if there is none to show."""
    excerpt = excerpt or LogOptions()
    container = chosen_container(pod, excerpt.container)
    if not pod["spec"].get("nodeName"):
        return ""
    lines = list(_lines(pod, container, previous=excerpt.previous))
    if excerpt.since is not None:
        lines = [line for line in lines if parse_time(line[0]) >= excerpt.since]
    if excerpt.tail_lines is not None:
        lines = lines[-excerpt.tail_lines :] if excerpt.tail_lines else []
    text = "".join(f"{at} {words}\n" if excerpt.timestamps else f"{words}\n" for at, words in lines)
    return text if excerpt.limit_bytes is None else text.encode()[: excerpt.limit_bytes].decode(errors="ignore")


def container_entry(pod: Object, container: str) -> Object | None:
    """The status of a container, or of the only one if none is named; None if there is no status yet."""
    container = chosen_container(pod, container)
    found = pod.get("status") or {}
    entries = [*(found.get("initContainerStatuses") or ()), *(found.get("containerStatuses") or ())]
    return next((entry for entry in entries if entry["name"] == container), None)


def run_of(entry: Object) -> Object:
    """When the present run of a container started and ended; empty while it waits."""
    state = entry.get("state") or {}
    return state.get("running") or state.get("terminated") or {}


def chosen_container(pod: Object, container: str) -> str:
    """The requested container; without a name, the only one."""
    name, spec = pod["metadata"]["name"], pod["spec"]
    names = [entry["name"] for entry in spec["containers"]]
    init = [entry["name"] for entry in spec.get("initContainers") or ()]
    if not container:
        if len(names) == 1:
            return str(names[0])
        text = f"a container name must be specified for pod {name}, choose one of: [{' '.join(names)}]"
        if init:
            text += f" or one of the init containers: [{' '.join(init)}]"
        raise status.bad_request(text)
    if container not in {*names, *init}:
        raise status.bad_request(f"container {container} is not valid for pod {name}")
    return container


def _lines(pod: Object, container: str, *, previous: bool) -> Iterator[tuple[str, str]]:
    """Moment and text of each line."""
    name, entry = pod["metadata"]["name"], container_entry(pod, container)
    if entry is None:
        raise status.bad_request(f'container "{container}" in pod "{name}" is not available')
    state, last = entry.get("state") or {}, entry.get("lastState") or {}
    if previous:
        if "terminated" not in last:
            raise status.bad_request(f'previous terminated container "{container}" in pod "{name}" not found')
        state = last
    elif "waiting" in state:
        if "terminated" in last:
            state = last
        else:
            reason = state["waiting"].get("reason", "ContainerCreating")
            raise status.bad_request(f'container "{container}" in pod "{name}" is waiting to start: {reason}')
    run = state.get("running") or state.get("terminated") or {}
    image, node = entry.get("image", ""), pod["spec"]["nodeName"]
    yield run["startedAt"], f"{container}: started {image} on {node} (simulated)"
    if "terminated" in state:
        yield run["finishedAt"], f"{container}: exited with {run['exitCode']}"
