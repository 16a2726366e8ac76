"""What crash tests are made of: programs that can be killed, a slow wire to them, clients that write on regardless."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any

from pumice.kube.client import Client, Document
from pumice.kube.kubeconfig import Access
from pumice.kube.refusals import RefusedError, UnreachableError
from tests.support.processes import end_process, start_process
from tests.support.unsteady_proxy import Proxy, unsteady
from tests.support.witness import GROUP

PATIENCE = 300.0
"""Seconds after which whatever is waited for will not come."""


class Program:
    """A command of ours as one process after another."""

    def __init__(self, folder: Path, *arguments: str) -> None:
        self._arguments = arguments
        self._log = folder / f"{arguments[0]}.log"
        self._process: subprocess.Popen[bytes] | None = None
        self.starts = 0

    def start(self) -> None:
        with self._log.open("ab") as output:
            command = [sys.executable, "-m", "pumice", *self._arguments]
            self._process = start_process(command, stdout=output, stderr=output)
        self.starts += 1

    def end(self, how: signal.Signals = signal.SIGKILL) -> None:
        if self._process is not None:
            self._process.send_signal(how)
            try:
                self._process.wait(PATIENCE)
            finally:
                end_process(self._process)
                self._process = None

    def said(self) -> str:
        return self._log.read_text(errors="replace")[-4000:] if self._log.exists() else ""

    @property
    def started(self) -> bool:
        return self._process is not None

    @property
    def lives(self) -> bool:
        return self._process is not None and self._process.poll() is None


class Wire(threading.Thread):
    """A slow wire to a port of this machine."""

    proxy: Proxy  # once it has begun

    def __init__(self, upstream: int, delay: float) -> None:
        super().__init__(daemon=True)
        self._upstream = upstream
        self._delay = delay
        self._ready = threading.Event()
        self._finish: Callable[[], Any] = lambda: None
        self.heal: Callable[[], None] = lambda: None
        self.port = 0

    def run(self) -> None:
        asyncio.run(self._serve())

    async def _serve(self) -> None:
        stop, loop = asyncio.Event(), asyncio.get_running_loop()
        self._finish = lambda: loop.call_soon_threadsafe(stop.set)
        async with unsteady(self._upstream) as proxy:
            proxy.scatter = self._delay
            self.proxy = proxy
            self.heal = proxy.heal
            self.port = proxy.port
            self._ready.set()
            await stop.wait()

    def begin(self) -> None:
        self.start()
        assert self._ready.wait(PATIENCE)

    def end(self) -> None:
        self._finish()
        self.join(PATIENCE)


@dataclass
class Gang:
    """A podgroup and its pods, as the load client makes them."""

    name: str
    queue: str
    size: int
    least: int
    rival: bool = False  # comes while the scheduler is dead, and would go before those that were there

    def group(self) -> Document:
        about = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "PodGroup", "metadata": {"name": self.name}}
        important = {"priorityClassName": "rival"} if self.rival else {}
        return {**about, "spec": {"minMember": self.least, "queue": self.queue, **important}}

    def pod(self, number: int) -> Document:
        about = {"name": f"{self.name}-{number}", "annotations": {GROUP: self.name}}
        asks = {"requests": {"cpu": "1"}}
        spec = {"schedulerName": "pumice", "containers": [{"name": "c", "image": "x", "resources": asks}]}
        spec |= {"priorityClassName": "rival"} if self.rival else {}
        return {"apiVersion": "v1", "kind": "Pod", "metadata": about, "spec": spec}


class Orders:
    """What is to be made, and how much of it is not made yet."""

    def __init__(self) -> None:
        self._orders: SimpleQueue[tuple[str, Document]] = SimpleQueue()
        self._lock = threading.Lock()
        self._open = 0

    def put(self, path: str, new: Document) -> None:
        with self._lock:
            self._open += 1
        self._orders.put((path, new))

    def get(self) -> tuple[str, Document]:
        return self._orders.get(timeout=0.05)

    def done(self) -> None:
        with self._lock:
            self._open -= 1

    def is_done(self) -> bool:
        return self._open == 0


class Writer(threading.Thread):
    """Makes what is to be made, however often it takes, and remembers what was acknowledged."""

    def __init__(self, server: str, orders: Orders) -> None:
        super().__init__(daemon=True)
        self._client = Client(Access(server))
        self._orders = orders
        self.acknowledged: dict[str, str] = {}  # uid by path
        self.stopping = False
        self.failure: BaseException | None = None

    def run(self) -> None:
        try:
            while not self.stopping:
                with contextlib.suppress(Empty):
                    self._make(*self._orders.get())
                    self._orders.done()
        except BaseException as failure:
            self.failure = failure

    def _make(self, path: str, new: Document) -> None:
        while not self.stopping:
            try:
                made = self._client.create(path, new)
                self.acknowledged[f"{path}/{new['metadata']['name']}"] = made["metadata"]["uid"]
                return
            except RefusedError as error:
                if error.exists:  # the answer to an earlier attempt got lost
                    return
                raise
            except UnreachableError:
                time.sleep(0.05)
