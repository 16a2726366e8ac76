"""The folders of pods on this machine: what runs, with which devices, and what has to be ended or removed.

Everything that must survive the agent is in these folders. A GPU belongs to the pod whose plan names it, from before
its first process starts until after its last one has ended.
"""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import cast

from pumice.agent.shim.cgroup_removal import remove_cgroups
from pumice.agent.shim.process_table import boot_id, cgroup_processes, is_same_process, kill_all, marked_processes
from pumice.agent.shim.records import (
    PLAN,
    SHIM,
    STATE,
    STOP,
    PodPlan,
    PodRecord,
    ShimRecord,
    read_record,
    sync,
    write_record,
)

KILLED = 137
OVERDUE_SECONDS = 120.0
"""How long a shim may take to end a pod after the grace period."""
REBOOTED, SHIM_LOST = "NodeRebooted", "ShimLost"


class PodFolder:
    """The folder of one pod."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.plan: PodPlan | None = read_record(str(path / PLAN))
        """None: the agent was killed before the plan was complete; nothing has been started."""
        self._has_ended = False
        self._shim: ShimRecord | None = None

    @property
    def uid(self) -> str:
        """The uid of the pod."""
        return self.path.name

    def record(self) -> PodRecord | None:
        """What the shim has written down last."""
        return cast("PodRecord | None", read_record(str(self.path / STATE)))

    def shim(self) -> ShimRecord | None:
        """The process of the shim; None if none was started."""
        if self._shim is None:  # there is one shim for a pod, ever
            self._shim = cast("ShimRecord | None", read_record(str(self.path / SHIM)))
        return self._shim

    @property
    def finished(self) -> bool:
        """Whether no process of the pod is left, and none will be started."""
        if self.plan is None:
            return True
        if not self._has_ended:  # an end is final: it is read once
            record = self.record()
            self._has_ended = record is not None and record["finished"]
        return self._has_ended

    @property
    def has_ended(self) -> bool:
        """Whether there was a pod, and it has ended."""
        return self.plan is not None and self.finished

    def write_plan(self, plan: PodPlan) -> None:
        """Write down what is to run. From now on its devices are taken."""
        write_record(str(self.path / PLAN), plan, durable=True)
        sync(str(self.path.parent))
        self.plan = plan

    @property
    def rebooted(self) -> bool:
        """Whether the machine was started again since the pod was: nothing of it can be there."""
        shim = self.shim()
        boots = {self.plan.get("boot") if self.plan else None, shim["boot"] if shim else None}
        return not boots <= {None, boot_id()}

    def is_shim_alive(self) -> bool:
        """Whether the shim that was written down still runs."""
        shim = self.shim()
        return shim is not None and is_same_process(shim["pid"], shim["start_ticks"], shim["boot"])

    def request_stop(self, grace: float) -> None:
        """Have the shim end the pod. One that is long overdue is killed: a file system of its user may hold it up."""
        asked = read_record(str(self.path / STOP))
        if asked is None or grace < asked["grace"]:
            write_record(str(self.path / STOP), {"grace": grace})
            asked = None
        shim = self.shim()
        if shim is not None and is_same_process(shim["pid"], shim["start_ticks"], shim["boot"]):
            with suppress(ProcessLookupError):
                os.kill(shim["pid"], signal.SIGKILL if asked and self._is_overdue(asked["grace"]) else signal.SIGTERM)

    def _is_overdue(self, grace: float) -> bool:
        return time.time() - (self.path / STOP).stat().st_mtime > grace + OVERDUE_SECONDS

    def write_off(self) -> None:
        """End what a shim has left that is no more, and write down why the pod has failed."""
        assert self.plan is not None
        rebooted = self.rebooted
        cgroups = self.plan["cgroups"]
        identity = next((each.get("identity") for each in self.plan["containers"]), None)
        user = identity["uid"] if identity is not None else None
        if not rebooted:
            kill_all(lambda: marked_processes(self.uid, user=user) | cgroup_processes(cgroups))
        reason = REBOOTED if rebooted else SHIM_LOST
        message = (
            "The machine was started again while the pod was running"
            if rebooted
            else "The process that held the pod's containers was killed, so their exit codes are not known"
        )
        record = self.record() or _empty_record(self.plan)
        for container in record["containers"]:
            run = container["run"]
            if run is not None and container["state"] == "running":
                run["finished"], run["exit_code"] = time.time(), KILLED
                run["reason"], run["message"] = "ContainerStatusUnknown", message
                container["state"], container["ready"] = "terminated", False
        record["phase"], record["reason"], record["message"] = "Failed", reason, message
        record["finished"] = True
        write_record(str(self.path / STATE), record, durable=True)

    def remove(self) -> None:
        """Remove everything of a pod that has ended."""
        if self.plan is not None:
            remove_cgroups(self.plan["cgroups"])
        from shutil import rmtree  # with its compression, half a MiB

        try:
            rmtree(self.path)
        except RecursionError:  # folders in folders, as deep as somebody likes
            subprocess.run(["rm", "-rf", "--", self.path], check=True, stdin=subprocess.DEVNULL)


def _empty_record(plan: PodPlan) -> PodRecord:
    """Of a shim that left none, since it was killed as it began: any container may have run."""
    now = time.time()
    return {
        "phase": "Pending",
        "reason": "",
        "message": "",
        "started": now,
        "finished": False,
        "containers": [
            {
                "name": each["name"],
                "init": each["init"],
                "state": "running",
                "reason": "",
                "message": "",
                "restarts": 0,
                "ready": False,
                "run": {
                    "pid": 0,
                    "start_ticks": 0,
                    "started": now,
                    "finished": 0.0,
                    "exit_code": 0,
                    "reason": "",
                    "message": "",
                },
                "last": None,
            }
            for each in plan["containers"]
        ],
    }


class PodFolders:
    """The folders of all pods. Of a pod that has ended nothing is in memory: its folder is read again if need be."""

    def __init__(self, path: Path) -> None:
        self._path = path
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        found = [PodFolder(path / uid) for uid in self.uids()]
        self._held = {folder.uid: folder for folder in found if not folder.has_ended}

    def __iter__(self) -> Iterator[PodFolder]:
        """The folders of pods that were not seen to have ended."""
        return iter(list(self._held.values()))

    def uids(self) -> list[str]:
        """All pods that have a folder."""
        return sorted(entry.name for entry in self._path.iterdir() if entry.is_dir())

    def held(self, uid: str) -> PodFolder | None:
        """The folder of a pod, unless the pod was seen to have ended."""
        return self._held.get(uid)

    def get(self, uid: str) -> PodFolder | None:
        """The folder of a pod."""
        held = self._held.get(uid)
        if held is not None or not uid or uid in (".", "..") or "/" in uid:
            return held
        path = self._path / uid
        return PodFolder(path) if os.path.isdir(path) else None

    def create(self, uid: str) -> PodFolder:
        """The folder of a pod, made if need be."""
        (self._path / uid).mkdir(mode=0o700, exist_ok=True)
        return self._held.setdefault(uid, PodFolder(self._path / uid))

    def let_go(self, folder: PodFolder) -> None:
        """Keep nothing in memory of a pod that has ended."""
        if folder.has_ended:
            self._held.pop(folder.uid, None)

    def remove(self, folder: PodFolder) -> None:
        """Remove the folder of a pod that has ended."""
        folder.remove()
        self._held.pop(folder.uid, None)

    def taken_ports(self) -> set[int]:
        """The ports that pods have which have not ended."""
        return {port for plan in self._unfinished_plans() for port in plan.get("ports", ())}

    def taken_devices(self, resource: str) -> set[str]:
        """The devices that pods have which have not ended."""
        return {device for plan in self._unfinished_plans() for device in plan["devices"].get(resource, ())}

    def _unfinished_plans(self) -> list[PodPlan]:
        """The plans of pods that have not ended. An end is final, so that each is found once."""
        plans = []
        for folder in self:
            if folder.has_ended:
                self.let_go(folder)
            elif folder.plan is not None:
                plans.append(folder.plan)
        return plans
