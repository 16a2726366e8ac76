"""Leader election: of several replicas one works, and the others wait to replace it.

A Lease object names the leader. The leader renews it at short intervals; another replica acquires it after it has seen
no renewal for the duration in the Lease, and never sooner than its own configured duration. Clocks of different
machines are never compared: a replica measures with its own monotonic clock for how long it has seen the same renewal.

Only the holder and its renewal time count as a renewal; other changes of the object do not. A holder that releases the
Lease removes both. If others clear or delete the Lease, replicas wait as if it had just been renewed, because its
holder may not know yet. (Only a replica that has never seen the Lease does not wait where there is none. So do not
delete it while a replica starts.)

The leader counts from the moment *before* it sent a renewal that succeeded, and for less time than the others wait. So
it stops leading before another replica can start, even if it was disconnected, slow or suspended: check ``held`` before
everything that only the leader may do. Any thread may read ``held`` and ``trouble``.
"""

from __future__ import annotations

import asyncio
import logging
import math
import os
import random
import socket
import time
import uuid
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from kubebase.timestamps import micro_stamp
from pumice.kube.client.api import Api
from pumice.kube.client.api_errors import ApiError, UnreachableError
from pumice.kube.resources import LEASES, Document

log = logging.getLogger(__name__)

JITTER = 0.2
"""Maximum jitter, as a fraction of a pause, so that replicas do not retry in step."""
RELEASED_SECONDS = 1
"""The duration in seconds that a released Lease has, for clients that wait for it."""
NEVER = float("-inf")


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
                f"lease duration {self.duration:g} s, renew deadline {self.deadline:g} s, retry period "
                f"{self.retry:g} s: each must be longer than the next"
            )

    @property
    def call(self) -> float:
        """For one call: when a connection is dead, there is time left for another."""
        return self.deadline / 2

    @property
    def margin(self) -> float:
        """Between the moment when one leads no longer and the first when another may."""
        return self.duration - self.deadline


class LostError(Exception):
    """Another replica leads now, or soon may."""


def own_identity() -> str:
    """A name that no other process has, nor this one after a restart."""
    return f"{socket.gethostname()}_{os.getpid()}_{uuid.uuid4().hex[:8]}"


class Lease:
    """The leader election, as one replica takes part in it."""

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
        """The identity of the leader, as last seen."""
        self._api = api
        self._name = name
        self._namespace = namespace
        self.timing = timing or Timing()
        self._now = now
        self._until = NEVER
        self._written: Document | None = None  # the Lease as this replica wrote it last: what is renewed
        self._named = False  # whether it may ever have named this replica
        # What its holder wrote last, as far as seen (nothing: there is no Lease), since when, for how long it counts
        self._sign: tuple[Any, ...] = ()
        self._since = NEVER
        self._wait = self.timing.duration
        # The last attempt: when it began, what went wrong; and when one last went well, if ever
        self._began = NEVER
        self._error = "no attempt yet"
        self._well = now()
        self._ever = False
        self._warned = False

    @property
    def held(self) -> bool:
        """Whether this replica leads; then no other replica can lead at the same time."""
        return self._now() < self._until

    @property
    def trouble(self) -> str:
        """Why the Lease could not be read or written for longer than it lasts, or never yet."""
        error, lasted = self._error, self._now() - self._well
        if self._ever and (not error or lasted <= self.timing.duration):
            return ""
        return f"lease {self._namespace}/{self._name} has been unreachable for {lasted:.0f} s: {error}"

    # ---- all of it ----------------------------------------------------------------------------------------

    async def acquire(self) -> None:
        """Wait until this replica leads."""
        while not await self._tried():
            await self._rest()

    async def keep(self) -> None:
        """Renew until cancelled. ``LostError`` when that has not worked for too long."""
        while self.held:
            await self._rest()
            if self.held:
                await self._tried()
        why = self._error or "lease not renewed before its deadline"
        if self.leader != self.identity:
            why = f"the leader is {self.leader}" if self.leader else "the lease has no holder"
        raise LostError(f"{self.identity} lost the lease {self._namespace}/{self._name}: {why}")

    async def release(self) -> None:
        """Release the Lease, so that other replicas need not wait until it expires."""
        self._until = NEVER
        if not self._named:
            return
        try:
            async with asyncio.timeout(self.timing.retry):
                while not await self.give_back():
                    pass
        except (ApiError, UnreachableError, TimeoutError) as error:
            log.info('Failed to release the lease: lease=%s/%s error="%s"', self._namespace, self._name, error)

    async def _rest(self) -> None:
        """Wait until the next attempt is due. The duration of the last attempt counts as part of the pause."""
        until = self._began + self.timing.retry * random.uniform(1.0, 1.0 + JITTER)
        if self.held:
            until = min(until, self._until)
        await asyncio.sleep(max(0.0, until - self._now()))

    async def _tried(self) -> bool:
        """Whether an attempt has made this replica the leader, or kept it so."""
        self._began = self._now()
        try:
            await self.attempt()
        except (ApiError, UnreachableError, TimeoutError) as error:
            self._error = str(error) or "timed out"
            log.info(
                'Failed to acquire or renew the lease: lease=%s/%s error="%s"', self._namespace, self._name, self._error
            )
            if self._now() - self._well > self.timing.duration and not self._warned:
                self._warned = True
                log.warning('The lease is unreachable: error="%s"', self.trouble)
        else:
            self._error, self._well, self._ever, self._warned = "", self._now(), True, False
        return self.held

    # ---- one attempt --------------------------------------------------------------------------------------

    async def attempt(self) -> None:
        """Renew the Lease, or acquire it if no other replica holds it."""
        if self.held and self._written is not None:
            try:
                await self._write(self._written)
                return
            except ApiError as error:
                self._written = None  # it is not what it was: look
                if not (error.conflict or error.not_found):
                    raise
        found = await self._look()
        ours = self.held or self.leader == self.identity
        if not ours and self._now() < self._since + self._wait:
            return
        try:
            await self._write(found)
        except ApiError as error:
            if not (error.already_exists or error.conflict):
                raise  # else somebody was quicker; who it is shows at the next attempt

    async def give_back(self) -> bool:
        """Whether the Lease does not name this replica any more."""
        found = await self._look()
        if found is None or self.leader != self.identity:
            return True
        try:
            await self._answer(self._api.update(LEASES, self._with(found, holder="", seconds=RELEASED_SECONDS)))
        except ApiError as error:
            if not error.conflict:
                raise
            return False  # a renewal of ours that had been given up has arrived all the same
        return True

    async def _look(self) -> Document | None:
        """The Lease as it is now, if there is one."""
        found = None
        try:
            found = await self._answer(self._api.get(LEASES, self._name, self._namespace))
        except ApiError as error:
            if not error.not_found:
                raise
        self._observe(found)
        if self.leader not in {"", self.identity}:
            self._until = NEVER  # taken by hand, say: whoever did that has the last word
        return found

    async def _write(self, found: Document | None) -> None:
        """Take or renew the Lease that was found."""
        began, self._named = self._now(), True
        if found is None:
            about = {"metadata": {"name": self._name, "namespace": self._namespace}}
            new = self._with({"apiVersion": LEASES.api_version, "kind": LEASES.kind, **about})
            written = await self._answer(self._api.create(LEASES, new, self._namespace))
        else:
            written = await self._answer(self._api.update(LEASES, self._with(found)))
        self._observe(written)
        self._written = written
        self._until = began + self.timing.deadline

    async def _answer(self, call: Awaitable[Document]) -> Document:
        """The response of the API, within the deadline."""
        seconds = self.timing.call
        if self.held:
            seconds = min(seconds, self._until - self._now())
        async with asyncio.timeout(seconds):
            return await call

    # ---- what is in it ------------------------------------------------------------------------------------

    def _observe(self, found: Document | None) -> None:
        """Look for a sign of life."""
        spec = (found or {}).get("spec") or {}
        self.leader = spec.get("holderIdentity") or ""
        if found is not None:
            self._wait = max(self.timing.duration, spec.get("leaseDurationSeconds") or 0)
        sign = () if found is None else (self.leader, spec.get("renewTime"), spec.get("leaseTransitions"))
        if sign != self._sign:
            free = found is not None and not self.leader and not spec.get("acquireTime")
            self._sign, self._since = sign, NEVER if free else self._now()

    def _with(self, found: Document, *, holder: str | None = None, seconds: int = 0) -> Document:
        """The Lease as this replica writes it: taken, renewed or (without a holder) given back."""
        spec = dict(found.get("spec") or {})
        holder = self.identity if holder is None else holder
        stamp = micro_stamp(time.time())
        if not holder:
            spec.pop("acquireTime", None)
        elif spec.get("holderIdentity") != holder:
            spec["acquireTime"] = stamp
            before = spec.get("leaseTransitions")
            spec["leaseTransitions"] = 0 if before is None else before + 1
        spec |= {
            "holderIdentity": holder,
            "leaseDurationSeconds": seconds or math.ceil(self.timing.duration),
            "renewTime": stamp,
        }
        return {**found, "spec": spec}
