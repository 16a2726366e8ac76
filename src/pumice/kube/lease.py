"""Leading: of several replicas one works, and the others wait for its place.

A Lease object says who leads. Whoever leads renews it in short intervals; whoever waits takes it when it has seen no
renewal for as long as the Lease says. Nobody compares clocks: a replica measures, by its own monotonic clock, how long
it has seen the same renewal.

Whoever leads counts from the moment *before* it asked for a renewal that succeeded, and for less time than the others
wait. So it knows that it no longer leads before anybody else can, whether it was cut off, slow or stopped for a while:
``held`` is to be looked at before whatever only the leader may do.
"""

from __future__ import annotations

import asyncio
import logging
import os
import random
import socket
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from pumice.kube.api import Api
from pumice.kube.refusals import RefusedError, UnreachableError
from pumice.kube.resources import LEASES, Document
from pumice.kube.times import micro_stamp

log = logging.getLogger(__name__)

JITTER = 0.2
"""By up to so much of itself each pause is longer, so that replicas do not ask in step."""
RELEASED_SECONDS = 1
"""For so long nobody may take a Lease that was given back."""


@dataclass(frozen=True, slots=True)
class Timing:
    """Seconds: how long others wait, for how long one leads after a renewal, and how often it renews."""

    duration: float = 15.0
    deadline: float = 10.0
    retry: float = 2.0

    def __post_init__(self) -> None:
        """Each must leave room for the next."""
        if not 0 < self.retry * (1 + JITTER) < self.deadline < self.duration:
            raise ValueError(
                f"a lease of {self.duration:g} s, renewed for {self.deadline:g} s every {self.retry:g} s: each must be "
                "longer than the next"
            )


class LostError(Exception):
    """Somebody else leads now, or soon may."""


def own_identity() -> str:
    """A name that no other process has, nor this one after a restart."""
    return f"{socket.gethostname()}_{os.getpid()}_{uuid.uuid4().hex[:8]}"


class Lease:
    """One replica's view of who leads."""

    def __init__(
        self,
        api: Api,
        name: str,
        namespace: str,
        *,
        identity: str = "",
        timing: Timing | None = None,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self.identity = identity or own_identity()
        self.leader = ""
        """Who leads, as last seen."""
        self._api = api
        self._name = name
        self._namespace = namespace
        self._timing = timing or Timing()
        self._now = now
        self._until = float("-inf")
        self._seen = ""  # the revision of the Lease as last seen, and since when
        self._since = float("-inf")

    @property
    def held(self) -> bool:
        """Whether this replica leads, and nobody else can at this moment."""
        return self._now() < self._until

    # ---- all of it ----------------------------------------------------------------------------------------

    async def acquire(self) -> None:
        """Wait until this replica leads."""
        while not await self._tried(self._timing.deadline):
            await asyncio.sleep(self._pause())

    async def keep(self) -> None:
        """Renew until cancelled. ``LostError`` when that has not worked for too long."""
        while self.held:
            await asyncio.sleep(min(self._pause(), max(0.0, self._until - self._now())))
            await self._tried(self._until - self._now())
        raise LostError(
            f"{self.identity} no longer leads: {self._namespace}/{self._name} is with {self.leader or 'nobody'}"
        )

    async def release(self) -> None:
        """Give it back, so that nobody has to wait; if that fails, they wait."""
        if not self.held:
            return
        self._until = float("-inf")
        try:
            async with asyncio.timeout(self._timing.retry):
                found = await self._api.get(LEASES, self._name, self._namespace)
                if found.get("spec", {}).get("holderIdentity") == self.identity:
                    await self._api.update(LEASES, self._with(found, holder="", seconds=RELEASED_SECONDS))
        except (RefusedError, UnreachableError, TimeoutError) as error:
            log.info("the lease %s/%s could not be given back: %s", self._namespace, self._name, error)

    def _pause(self) -> float:
        return self._timing.retry * random.uniform(1.0, 1.0 + JITTER)

    async def _tried(self, seconds: float) -> bool:
        """Whether an attempt, of bounded time, has made this replica the leader, or kept it so."""
        try:
            async with asyncio.timeout(max(0.0, seconds)):
                await self.attempt()
        except (RefusedError, UnreachableError, TimeoutError) as error:
            log.info("the lease %s/%s: %s", self._namespace, self._name, str(error) or "no answer in time")
        return self.held

    # ---- one attempt --------------------------------------------------------------------------------------

    async def attempt(self) -> None:
        """Take the Lease, or renew it, if nobody else has it."""
        began = self._now()
        try:
            found = await self._api.get(LEASES, self._name, self._namespace)
        except RefusedError as error:
            if not error.absent:
                raise
            about = {"metadata": {"name": self._name, "namespace": self._namespace}}
            new = self._with({"apiVersion": LEASES.api_version, "kind": LEASES.kind, **about})
            await self._written(self._api.create(LEASES, new, self._namespace), began)
            return
        self._observe(found)
        spec = found.get("spec") or {}
        self.leader = spec.get("holderIdentity") or ""
        if self.leader not in {"", self.identity}:
            self._until = float("-inf")  # taken by hand, say: whoever did that has the last word
        wait = float(spec.get("leaseDurationSeconds") or self._timing.duration)
        if self.leader not in {"", self.identity} and self._now() < self._since + wait:
            return
        began = self._now()
        await self._written(self._api.update(LEASES, self._with(found)), began)

    async def _written(self, write: Any, began: float) -> None:
        try:
            self._observe(await write)
        except RefusedError as error:
            if error.exists or error.conflict:
                return  # somebody else was quicker; who it is shows at the next attempt
            raise
        self.leader = self.identity
        self._until = began + self._timing.deadline

    def _observe(self, found: Document) -> None:
        revision = str(found["metadata"].get("resourceVersion", ""))
        if revision != self._seen:
            self._seen, self._since = revision, self._now()

    def _with(self, found: Document, *, holder: str | None = None, seconds: int = 0) -> Document:
        """The Lease as this replica writes it: taken, renewed or (without a holder) given back."""
        spec = dict(found.get("spec") or {})
        holder = self.identity if holder is None else holder
        stamp = micro_stamp(time.time())
        if spec.get("holderIdentity", "") != holder and holder:
            spec["acquireTime"] = stamp
            spec["leaseTransitions"] = spec.get("leaseTransitions", -1) + 1
        spec |= {
            "holderIdentity": holder,
            "leaseDurationSeconds": seconds or round(self._timing.duration),
            "renewTime": stamp,
        }
        return {**found, "spec": spec}
