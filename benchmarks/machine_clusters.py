"""Two clusters on this machine that run processes: ``pumice up --here``, and Slurm with munge.

Both offer the same number of cpus, whatever the machine has. Slurm's settings are those under which it was fastest: the
main scheduler without delay, and an epilog (of ``true``), since without one it hears of the end of a job up to a second
later. Its accounting and its cgroups are off.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Protocol

from benchmarks.kubernetes import free_ports
from benchmarks.process_tree import ProcessTree
from pumice.kube.client.api import Api
from pumice.kube.client.kubeconfig import read_kubeconfig
from pumice.kube.client.transport import Session
from pumice.kube.resources import JOBS

READY_SECONDS = 120.0
POLL_SECONDS = 0.2
SLURM_PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch", "srun", "squeue", "sinfo")
SYSTEM_PATH = "/usr/sbin:/sbin"  # where Debian has daemons, also where the user's PATH lacks it

CONFIGURATION = """\
ClusterName=benchmark
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={controller_port}
SlurmdPort={node_port}
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
SlurmUser={user}
SlurmdUser={user}
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
MpiDefault=none
ReturnToService=2
MaxArraySize=100001
MaxJobCount=200000
MinJobAge=3600
Epilog=/bin/true
SchedulerParameters=batch_sched_delay=0,sched_min_interval=0,sched_interval=1,bf_interval=1
NodeName=here NodeHostname={host} NodeAddr=127.0.0.1 CPUs={cpus} RealMemory=1000 State=UNKNOWN
PartitionName=all Nodes=here Default=YES State=UP
"""


class Cluster(Protocol):
    """What is measured of both."""

    name: str
    trees: list[ProcessTree]

    def ways(self) -> list[str]:
        """How a process can be submitted."""

    def submit(self, way: str, script: str) -> None:
        """Run a shell script as a job; returns when its program does."""

    def run_many(self, count: int) -> None:
        """Submit so many jobs of ``true`` at once and wait until all have succeeded."""


class PumiceHere:
    """``pumice up --here``, with everything that it starts by default."""

    name = "Pumice"

    def __init__(self, folder: Path, cpus: int) -> None:
        self.kubeconfig = folder / "kubeconfig"
        self._environment = {**os.environ, "KUBECONFIG": str(self.kubeconfig)}
        self._jobs = 0
        command = [sys.executable, "-m", "pumice", "up", "--here", "--data", str(folder / "data"), "--port", "0"]
        command += ["--here-capacity", f"cpu={cpus},memory=4Gi", "--kubeconfig", str(self.kubeconfig)]
        self.trees = [ProcessTree(command, folder / "up.log", dict(os.environ))]
        _await("pumice up --here", self._is_ready)

    def ways(self) -> list[str]:
        return ["vsub"]

    def submit(self, way: str, script: str) -> None:
        self._jobs += 1
        self._vsub(f"job-{self._jobs}", 1, "sh", "-c", script)

    def run_many(self, count: int) -> None:
        self._jobs += 1
        name = f"many-{self._jobs}"
        self._vsub(name, count, "true")
        asyncio.run(self._succeeded(name, count))

    def _vsub(self, name: str, replicas: int, *command: str) -> None:
        program = Path(sys.executable).with_name("vsub")
        options = ["-r", str(replicas), "-q", "default", "-R", "cpu=1,memory=10Mi"]
        _run([str(program), name, *options, "--", *command], self._environment)

    async def _succeeded(self, name: str, count: int) -> None:
        async with Session(read_kubeconfig(self.kubeconfig)) as session:
            while True:
                status: dict[str, Any] = (await Api(session).get(JOBS, name, "default")).get("status", {})
                if status.get("succeeded", 0) == count:
                    return
                if status.get("failed", 0):
                    raise RuntimeError(f"{status['failed']} tasks of {name} failed")
                await asyncio.sleep(POLL_SECONDS)

    def _is_ready(self) -> bool:
        if not self.trees[0].alive():
            raise RuntimeError("pumice up --here ended")
        if not self.kubeconfig.exists():
            return False
        try:
            self.submit("vsub", "true")
        except RuntimeError:
            return False
        return True


class Slurm:
    """munged, slurmctld and slurmd, as the user who runs this."""

    name = "Slurm"

    def __init__(self, folder: Path, cpus: int) -> None:
        for part in ("state", "spool"):
            (folder / part).mkdir()
        key = folder / "munge.key"
        key.write_bytes(os.urandom(128))
        key.chmod(0o400)
        controller_port, node_port = free_ports(2)
        host = socket.gethostname().partition(".")[0]
        user = os.environ.get("USER", "root")
        configuration = folder / "slurm.conf"
        configuration.write_text(
            CONFIGURATION.format(
                folder=folder, host=host, user=user, cpus=cpus, controller_port=controller_port, node_port=node_port
            )
        )
        path = f"{os.environ.get('PATH', '')}:{SYSTEM_PATH}"
        self._environment = {**os.environ, "PATH": path, "SLURM_CONF": str(configuration)}
        munge = ["munged", "--foreground", "--force", f"--key-file={key}", f"--socket={folder}/munge.socket"]
        munge += [f"--pid-file={folder}/munged.pid", f"--log-file={folder}/munged.log", f"--seed-file={folder}/seed"]
        log = folder / "output.log"
        self.trees = [ProcessTree(munge, log, self._environment)]
        _await("munged", (folder / "munge.socket").exists)
        self.trees.append(ProcessTree(["slurmctld", "-D"], log, self._environment))
        self.trees.append(ProcessTree(["slurmd", "-D", "-N", "here"], log, self._environment))
        _await("Slurm", lambda: "idle" in self._run("sinfo", "-h"))

    def ways(self) -> list[str]:
        return ["sbatch", "srun"]

    def submit(self, way: str, script: str) -> None:
        if way == "srun":
            self._run("srun", "-Q", "-n1", "sh", "-c", script)
        else:
            self._run("sbatch", "-Q", "-n1", "-o", "/dev/null", "--wrap", script)

    def run_many(self, count: int) -> None:
        output = ("-o", "/dev/null", "--wrap", "true")
        array = self._run("sbatch", "--parsable", "-n1", f"--array=1-{count}", *output).strip()
        while self._run("squeue", "-h", "-j", array, "-t", "PENDING,RUNNING,COMPLETING,CONFIGURING"):
            time.sleep(POLL_SECONDS)
        succeeded = self._run("squeue", "-h", "-r", "-j", array, "-t", "COMPLETED", "-o", "%A").split()
        if len(succeeded) != count:
            raise RuntimeError(f"{len(succeeded)} of {count} jobs succeeded")

    def _run(self, *command: str) -> str:
        return _run(list(command), self._environment)


def missing_slurm() -> list[str]:
    """The programs of Slurm that are not installed."""
    path = f"{os.environ.get('PATH', '')}:{SYSTEM_PATH}"
    return [name for name in SLURM_PROGRAMS if shutil.which(name, path=path) is None]


def _run(command: list[str], environment: dict[str, str]) -> str:
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{command[0]} failed: {done.stderr.strip()[-500:]}")
    return done.stdout


def _await(what: str, is_ready: Any) -> None:
    deadline = time.monotonic() + READY_SECONDS
    while True:
        try:
            if is_ready():
                return
        except RuntimeError:
            if time.monotonic() > deadline:
                raise
        if time.monotonic() > deadline:
            raise RuntimeError(f"{what} is not ready after {READY_SECONDS:.0f} s")
        time.sleep(POLL_SECONDS)
