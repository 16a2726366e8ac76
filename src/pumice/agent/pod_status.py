"""The status of a pod as the API shows it, from what its shim has written down. Pure."""

from __future__ import annotations

from kubebase.timestamps import stamp
from pumice.agent.shim.records import ContainerRecord, PodRecord, RunRecord
from pumice.kube.resources import Document

RUNTIME = "pumice"
READY = ("Ready", "ContainersReady")


def pod_status(pod: Document, record: PodRecord, address: str) -> Document:
    """The status that a kubelet would report."""
    old = pod.get("status") or {}
    uid = pod["metadata"]["uid"]
    images = {
        each["name"]: each.get("image", "")
        for part in ("initContainers", "containers")
        for each in pod["spec"].get(part) or ()
    }
    shown = [(each["init"], _container_status(each, images, uid)) for each in record["containers"]]
    status: Document = {
        "phase": record["phase"],
        "reason": record["reason"] or None,
        "message": record["message"] or None,
        "startTime": old.get("startTime") or stamp(record["started"]),
        "hostIP": address,
        "hostIPs": [{"ip": address}],
        "podIP": address,
        "podIPs": [{"ip": address}],
        "qosClass": old.get("qosClass"),
        "initContainerStatuses": [entry for init, entry in shown if init] or None,
        "containerStatuses": [entry for init, entry in shown if not init],
    }
    status["conditions"] = _conditions(old.get("conditions") or [], record, latest_moment(record))
    return status


def latest_moment(record: PodRecord) -> str:
    """When something last changed, as far as the record tells."""
    runs = [run for each in record["containers"] for run in (each["run"], each["last"]) if run is not None]
    return stamp(max([record["started"], *(max(run["started"], run["finished"]) for run in runs)]))


def failed_status(pod: Document, reason: str, message: str, now: str) -> Document:
    """The status of a pod that was not started; its conditions say why."""
    said = {"reason": reason, "message": message}
    conditions = _changed((pod.get("status") or {}).get("conditions") or [], dict.fromkeys(READY, (False, said)), now)
    return {"phase": "Failed", **said, "conditions": conditions}


def differs(status: Document, now: Document) -> bool:
    """Whether a status would change anything; an absent field is None."""
    return any(now.get(key) != value for key, value in status.items())


def _container_status(record: ContainerRecord, images: dict[str, str], uid: str) -> Document:
    name, run = record["name"], record["run"]
    number = record["restarts"]
    entry: Document = {
        "name": name,
        "image": images.get(name, ""),
        "imageID": "",
        "ready": record["ready"] or (record["init"] and _succeeded(record)),
        "started": record["state"] == "running",
        "restartCount": number,
        "state": {},
        "lastState": {},
    }
    container_id = f"{RUNTIME}://{uid}/{name}/{number}"
    if record["state"] == "waiting" or run is None:
        waiting = {"reason": record["reason"]} | ({"message": record["message"]} if record["message"] else {})
        entry["state"] = {"waiting": waiting}
        last = run
    else:
        entry["containerID"] = container_id
        last = record["last"]
        if record["state"] == "running":
            entry["state"] = {"running": {"startedAt": stamp(run["started"])}}
        else:
            entry["state"] = {"terminated": _terminated(run, container_id)}
    if last is not None:
        before = number if last is run else number - 1
        entry["lastState"] = {"terminated": _terminated(last, f"{RUNTIME}://{uid}/{name}/{before}")}
    return entry


def _terminated(run: RunRecord, container_id: str) -> Document:
    found: Document = {"exitCode": run["exit_code"], "reason": run["reason"]}
    if run["message"]:
        found["message"] = run["message"]
    times = {"startedAt": stamp(run["started"]), "finishedAt": stamp(run["finished"])}
    return {**found, **times, "containerID": container_id}


def _succeeded(record: ContainerRecord) -> bool:
    run = record["run"]
    return record["state"] == "terminated" and run is not None and run["exit_code"] == 0


def _conditions(old: list[Document], record: PodRecord, now: str) -> list[Document]:
    over = record["phase"] in {"Succeeded", "Failed"}
    main = [each for each in record["containers"] if not each["init"]]
    unready = [each["name"] for each in main if not each["ready"]]
    incomplete = [each["name"] for each in record["containers"] if each["init"] and not _succeeded(each)]
    why: Document = {}
    if over:
        why = {"reason": "PodCompleted" if record["phase"] == "Succeeded" else "PodFailed"}
    elif unready:
        why = {"reason": "ContainersNotReady", "message": f"containers with unready status: [{' '.join(unready)}]"}
    uninitialized = (
        {
            "reason": "ContainersNotInitialized",
            "message": f"containers with incomplete status: [{' '.join(incomplete)}]",
        }
        if incomplete
        else {}
    )
    wanted: dict[str, tuple[bool, Document]] = {
        "PodReadyToStartContainers": (not over, {}),
        "Initialized": (not incomplete, uninitialized),
        **dict.fromkeys(READY, (not why, why)),
    }
    return _changed(old, wanted, now)


def _changed(old: list[Document], wanted: dict[str, tuple[bool, Document]], now: str) -> list[Document]:
    """Conditions with others in place of those of the same type; a condition that stays keeps its time."""
    kept = {entry["type"]: entry for entry in old}
    for kind, (holds, reason) in wanted.items():
        status = "True" if holds else "False"
        before = kept.get(kind)
        since = before["lastTransitionTime"] if before and before["status"] == status else now
        kept[kind] = {"type": kind, "status": status, "lastTransitionTime": since, **reason}
    return [*kept.values()]
