"""More gangs than a cluster has room for: they keep coming, and those that run end after a while.

What a controller would do for them is done here: a pod that was evicted, or that its node has refused, is made again.
Whatever the API says or does not say, the same is tried again until it is done.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from enum import Enum

from pumice.kube.client.api_errors import ApiError, UnreachableError
from pumice.kube.client.kubeconfig import Access
from pumice.kube.client.sync_client import Client, Document
from tests.support.killable import Gang
from tests.support.witness import LATER, PODS, Witness

VOLCANO = "/apis/scheduling.volcano.sh/v1beta1"
GROUPS = f"{VOLCANO}/namespaces/default/podgroups"
QUEUES = f"{VOLCANO}/queues"
CLASSES = "/apis/scheduling.k8s.io/v1/priorityclasses"
SIZES = (3, 6, 2, 5, 4, 6)
"""Pods of the gangs, one after the other. Every third is content with less than it has."""


class Pace(Enum):
    """What the load does."""

    BUSY = "gangs come and end"
    STILL = "none comes and none ends"
    DRAINING = "they end, and no more come"


class Load(threading.Thread):
    """Keeps so many pods waiting or running, in these queues; gangs end when they were whole for ``work`` seconds."""

    def __init__(self, access: Access, pods: int, queues: list[str], minimum: dict[str, int], work: float) -> None:
        super().__init__(daemon=True)
        self._client = Client(access)
        self._wanted = pods
        self._queues = queues
        self._minimum = minimum
        self._work = work
        self._lock = threading.Lock()
        self._unmade: dict[str, int] = {}  # gangs, and how many of their pods are made; below 0: not the group either
        self._leaving: dict[str, int] = {}  # gangs that have ended, and how many of their pods are taken away
        self._anew: dict[str, None] = {}  # names of pods to be made again
        self._since: dict[str, float] = {}  # when a gang was seen whole
        self._number = 0
        self.witness: Witness  # who sees what becomes of it
        self.pace = Pace.BUSY
        self.gangs: dict[str, Gang] = {}
        self.ran: set[str] = set()  # gangs that have been whole
        self.recreated = 0
        self.refused: set[str] = set()  # uids of pods that their nodes have not taken
        self.troubles: dict[str, None] = {}  # what the API said that was not the end
        self.failure: BaseException | None = None
        self.stopping = False

    # ---- what tests ask for ------------------------------------------------------------------------------

    def submit(self, size: int = 0, least: int = 0, *, queue: str = "", rival: bool = False) -> str:
        """Order one more gang; its name. ``rival``: it goes before all that are there, and takes nothing away."""
        with self._lock:
            number, self._number = self._number, self._number + 1
        size = size or SIZES[number % len(SIZES)]
        least = least or (size if number % 3 else max(1, size - 2))
        gang = Gang(f"g{number}", queue or self._queues[number % len(self._queues)], size, least, rival)
        self.adopt(gang)
        self._unmade[gang.name] = -1
        return gang.name

    def adopt(self, gang: Gang) -> None:
        """Look after a gang that somebody else makes."""
        self._minimum[gang.name] = gang.least
        self.gangs[gang.name] = gang

    @property
    def is_made(self) -> bool:
        """Whether all that was ordered is there, and all that ended is gone."""
        return not (self._unmade or self._leaving or self._anew)

    def check(self) -> None:
        if self.failure is not None:
            raise self.failure

    # ---- what goes on ------------------------------------------------------------------------------------

    def run(self) -> None:
        try:
            while not self.stopping:
                self._look()
                for step in (self._take_away, self._make_anew, self._make):
                    self._attempt(step)
                time.sleep(0.05)
        except BaseException as failure:
            self.failure = failure

    def _attempt(self, step: Callable[[], None]) -> None:
        try:
            step()
        except UnreachableError as error:
            self.troubles[str(error)] = None
        except ApiError as error:
            if error.code not in LATER:
                raise
            self.troubles[str(error)] = None

    def _look(self) -> None:
        witness, now = self.witness, time.monotonic()
        for gang in witness.whole():
            self.ran.add(gang)
            if now - self._since.setdefault(gang, now) >= self._work and self.pace is not Pace.STILL:
                witness.finished.add(gang)
                self._leaving[gang] = 0
        for name, uids in list(witness.gone.items()):
            if uids and name.rpartition("-")[0] not in witness.finished:
                self.recreated += len(uids)
                self._anew[name] = None
            uids.clear()
        here = sum(gang.size for name, gang in self.gangs.items() if name not in witness.finished)
        while self.pace is Pace.BUSY and here < self._wanted:
            here += self.gangs[self.submit()].size

    def _take_away(self) -> None:
        for gang, done in list(self._leaving.items()):
            for number in range(done, self.gangs[gang].size):
                self._remove(f"{PODS}/{gang}-{number}")
                self._leaving[gang] = number + 1
            self._remove(f"{GROUPS}/{gang}")
            del self._leaving[gang]

    def _make_anew(self) -> None:
        for name, pod in list(self.witness.pods.items()):
            if pod.over and not pod.leaving and pod.gang not in self.witness.finished:
                self.refused.add(pod.uid)
                self._remove(f"{PODS}/{name}")
        for name in list(self._anew):
            gang, _, number = name.rpartition("-")
            if gang not in self.witness.finished:
                self._create(PODS, self.gangs[gang].pod(int(number)))
            del self._anew[name]

    def _make(self) -> None:
        for name, done in list(self._unmade.items()):
            gang = self.gangs[name]
            if done < 0:
                self._create(GROUPS, gang.group())
            for number in range(max(0, done), gang.size):
                self._unmade[name] = number
                self._create(PODS, gang.pod(number))
            del self._unmade[name]

    def _create(self, path: str, new: Document) -> None:
        try:
            self._client.create(path, new)
        except ApiError as error:
            if not error.already_exists:  # by an earlier attempt whose answer got lost
                raise

    def _remove(self, path: str) -> None:
        try:
            self._client.delete(path)
        except ApiError as error:
            if not error.not_found:
                raise
