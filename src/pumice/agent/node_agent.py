"""The agent of this machine: its node, its pods, its logs, until it is stopped. Pods go on without it."""

from __future__ import annotations

import asyncio
import fcntl
import logging
import os
import socket
import time
from _blake2 import blake2b  # hashlib would load OpenSSL, 4 MB
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from kubebase.field_error import FieldError
from kubebase.private_folder import make_private
from pumice.agent.cgroups import Cgroups, find_cgroups
from pumice.agent.log_server import LogServer
from pumice.agent.machine import Machine
from pumice.agent.node_pods import node_pods
from pumice.agent.node_registration import NodeRegistration
from pumice.agent.pod_folders import PodFolders
from pumice.agent.pod_refusals import Abilities
from pumice.agent.pod_worker import NodeContext, PodWorker
from pumice.agent.resting_memory import release_memory_repeatedly
from pumice.agent.shim.records import read_record, write_record
from pumice.agent.shim.volume_mounts import may_mount
from pumice.agent.shim_start import ShimStarter
from pumice.kube.client.api import Api, ListOptions
from pumice.kube.client.api_errors import ApiError, UnreachableError
from pumice.kube.watch.change_queue import ChangeQueue
from pumice.kube.watch.informer import Informer

PODS_FOLDER, CLUSTER_FILE, LOCK_FILE, BELL_FILE = "pods", "cluster.json", "lock", "bell"
RETRY_SECONDS = 1.0
CGROUP_ATTEMPTS = 3
"""How often cgroups are made: another agent may take them for abandoned before they are locked."""
LOCK_SECONDS, LOCK_PAUSE_SECONDS = 15.0, 0.1

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class AgentSettings:
    """The settings of an agent."""

    name: str
    machine: Machine
    folder: Path
    address: str
    """The address of the node: of its processes, and where logs are served."""
    cgroups: Cgroups | None
    shared: bool = False
    """Whether pods run as the owners of their namespaces."""
    log_socket: Path | None = None
    """The socket on which logs are served, if the API server runs on this machine as the same user; None: a port."""


class NodeAgent:
    """Runs the pods of one node."""

    def __init__(self, api: Api, settings: AgentSettings) -> None:
        self._api = api
        self._settings = settings
        folder = settings.folder
        self._folders = PodFolders(folder / PODS_FOLDER)
        self._bell = str(folder / BELL_FILE)  # in a folder that is the agent's alone, so that nobody else rings
        self._logs = LogServer(
            self._folders, settings.address, always_tls=settings.shared, local_socket=settings.log_socket
        )
        abilities = Abilities(mounts=may_mount())
        node = NodeContext(
            settings.machine, settings.cgroups, abilities, settings.address, self._bell, shared=settings.shared
        )
        self._shims = ShimStarter()
        self._worker = PodWorker(api, self._folders, node, self._shims)
        self._feed = ChangeQueue()
        chosen = ListOptions(fields=f"spec.nodeName={settings.name}")
        self._informer = Informer(api, node_pods(), self._feed, chosen)
        self._node: NodeRegistration | None = None

    @property
    def unready_reason(self) -> str:
        """Why the node is not at work; empty: it is."""
        if self._node is None or self._node.trouble:
            return self._node.trouble if self._node is not None else "starting"
        return "" if self._informer.synced.is_set() else "the pods of the node are not listed yet"

    async def run(self) -> None:
        """Work until cancelled."""
        await _until_reachable(self._check_cluster)
        settings = self._settings
        await self._logs.open()
        self._shims.prepare()
        try:
            await _until_reachable(lambda: self._logs.publish(self._api, settings.name))
            self._node = NodeRegistration(self._api, settings.name, settings.machine, settings.address, self._logs.port)
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._node.run())
                tasks.create_task(self._informer.run())
                tasks.create_task(self._follow_changes())
                await self._informer.synced.wait()
                for change in self._feed.drain():  # a pod that is not known yet would be taken for an orphan
                    self._worker.on_change(change)
                self._worker.adopt_folders()
                tasks.create_task(self._worker.work_queue.run())
                tasks.create_task(self._hear_shims())
                tasks.create_task(release_memory_repeatedly())
        finally:
            self._logs.close()
            self._shims.close()

    async def done(self) -> None:
        """Nothing has to be finished: shims go on, and the next agent takes over."""

    async def _check_cluster(self) -> None:
        """Refuse a folder with pods of another cluster: this one does not know them, so they would be ended."""
        path = str(self._settings.folder / CLUSTER_FILE)
        known, now = read_record(path), await self._api.identity()
        if known is not None and known["uid"] != now and any(not folder.finished for folder in self._folders):
            raise FieldError(
                f"--data {self._settings.folder}",
                "pods of another cluster run here; name another folder, or start the agent for that cluster",
            )
        write_record(path, {"uid": now}, durable=True)

    async def _follow_changes(self) -> None:
        async for batch in self._feed:
            for change in batch:
                self._worker.on_change(change)

    async def _hear_shims(self) -> None:
        """Reconcile pods whose shims say that something is new."""
        loop = asyncio.get_running_loop()
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as bell:
            bell.setblocking(False)
            with suppress(FileNotFoundError):
                os.unlink(self._bell)  # of an agent before this one
            folder = os.open(self._settings.folder, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                bell.bind(f"/proc/self/fd/{folder}/{BELL_FILE}")  # the path itself may be too long for a socket
            finally:
                os.close(folder)
            while True:
                self._worker.work_queue.add((await loop.sock_recv(bell, 256)).decode(errors="replace"))


async def _until_reachable(call: Callable[[], Awaitable[None]]) -> None:
    """Call the API again until it answers: it may be started after the agent."""
    while True:
        try:
            return await call()
        except (ApiError, UnreachableError) as error:
            log.warning('Failed to reach the API, retrying: error="%s"', error)
            await asyncio.sleep(RETRY_SECONDS)


class FolderInUseError(Exception):
    """Another agent runs the pods of this folder."""


def hold_folder(folder: Path) -> int:
    """Make the folder and keep other agents out of it, for as long as the descriptor is open.

    Waits a little: an agent whose supervisor was killed is about to end.
    """
    make_private(folder)
    lock = os.open(folder / LOCK_FILE, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    until = time.monotonic() + LOCK_SECONDS
    while True:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > until:
                os.close(lock)
                raise FolderInUseError(f"{folder}: another agent uses this folder") from None
            time.sleep(LOCK_PAUSE_SECONDS)
        else:
            return lock


def choose_cgroups(name: str, folder: Path) -> Cgroups | None:
    """The cgroups of an agent: one folder for each agent of this machine. Those of killed agents are removed."""
    found = None
    for _ in range(CGROUP_ATTEMPTS):
        found = find_cgroups(f"{name}-{blake2b(os.fsencode(folder), digest_size=4).hexdigest()}")
        if found is None or found.hold():
            break
    if found is not None:
        found.remove_abandoned()
    return found
