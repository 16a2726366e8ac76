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
        """Have the shim end the pod."""
        asked = read_record(str(self.path / STOP))
        if asked is None or grace < asked["grace"]:
            write_record(str(self.path / STOP), {"grace": grace})
        shim = self.shim()
        if shim is not None and is_same_process(shim["pid"], shim["start_ticks"], shim["boot"]):
            with suppress(ProcessLookupError):
                os.kill(shim["pid"], signal.SIGTERM)

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
            if container["state"] == "running" and container["run"] is not None:
                run = container["run"]
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
    return {
        "phase": "Pending",
        "reason": "",
        "message": "",
        "started": time.time(),
        "finished": False,
        "containers": [
            {
                "name": each["name"],
                "init": each["init"],
                "state": "waiting",
                "reason": "ContainerCreating",
                "message": "",
                "restarts": 0,
                "ready": False,
                "run": None,
                "last": None,
            }
            for each in plan["containers"]
        ],
    }


class PodFolders:
    """The folders of all pods."""

    def __init__(self, path: Path) -> None:
        self._path = path
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._folders = {entry.name: PodFolder(entry) for entry in sorted(path.iterdir()) if entry.is_dir()}
        self._unfinished = dict(self._folders)  # without those that were seen to have ended

    def __iter__(self) -> Iterator[PodFolder]:
        return iter(list(self._folders.values()))

    def get(self, uid: str) -> PodFolder | None:
        """The folder of a pod."""
        return self._folders.get(uid)

    def create(self, uid: str) -> PodFolder:
        """The folder of a pod, made if need be."""
        (self._path / uid).mkdir(mode=0o700, exist_ok=True)
        folder = self._folders.setdefault(uid, PodFolder(self._path / uid))
        self._unfinished[uid] = folder
        return folder

    def remove(self, folder: PodFolder) -> None:
        """Remove the folder of a pod that has ended."""
        folder.remove()
        self._folders.pop(folder.uid, None)
        self._unfinished.pop(folder.uid, None)

    def taken_ports(self) -> set[int]:
        """The ports that pods have which have not ended."""
        return {port for plan in self._unfinished_plans() for port in plan.get("ports", ())}

    def taken_devices(self, resource: str) -> set[str]:
        """The devices that pods have which have not ended."""
        return {device for plan in self._unfinished_plans() for device in plan["devices"].get(resource, ())}

    def _unfinished_plans(self) -> list[PodPlan]:
        """The plans of pods that have not ended. An end is final, so that each is found once."""
        plans = []
        for folder in list(self._unfinished.values()):
            if folder.plan is None:
                continue
            if folder.finished:
                self._unfinished.pop(folder.uid, None)
            else:
                plans.append(folder.plan)
        return plans
