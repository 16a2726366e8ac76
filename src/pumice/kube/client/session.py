"""HTTP to one cluster: persistent connections, a limit on requests in flight, and retries.

A request is retried only if that is safe: a GET always; a write only if the server certainly did not execute it,
because no connection could be made, or because the API asked to retry later (429 with Retry-After). All other errors of
writes go to the caller; ``UnreachableError.sent`` says whether the server may have executed the write.
"""

from __future__ import annotations

import asyncio
import logging
import time
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Callable, Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Self

from pumice.kube.client.api_errors import ApiError, CredentialError, UnreachableError
from pumice.kube.client.credentials import Credential
from pumice.kube.client.kubeconfig import Access
from pumice.kube.client.rate_limit import Backoff
from pumice.kube.client.tls import Trust

JSON = "application/json"
LOCAL = "http://localhost"
NO_CREDENTIAL = Credential()
BUSY = frozenset({429, 500, 502, 503, 504})  # a GET is tried again after these

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of a session: requests in flight, timeouts and retries."""

    in_flight: int = 64
    """Maximum number of writes in flight, in the order of the calls, and of reads beside them: reads do not wait for
    writes. Watches do not count."""
    urgent: int = 16
    """Maximum number of urgent writes in flight, which do not wait for the others."""
    timeout: float = 30.0
    """Timeout of one attempt, in seconds."""
    connect: float = 10.0
    attempts: int = 5
    first_pause: float = 0.1
    longest_pause: float = 5.0
    longest_wait: float = 60.0
    """The longest Retry-After, in seconds, that a call waits for; beyond that it fails."""


class ApiSession(ABC):
    """Calls one cluster: when, how often, and with which credentials. ``Session`` brings the HTTP."""

    def __init__(
        self,
        access: Access,
        limits: Limits | None = None,
        *,
        now: Callable[[], float] = time.monotonic,
        may_write: Callable[[], bool] = lambda: True,
    ) -> None:
        self.access = access
        self.may_write = may_write
        """Checked before every write is sent: a replica that is not the leader writes nothing."""
        self._limits = limits = limits or Limits()
        self._reading, self._writing = (asyncio.Semaphore(limits.in_flight) for _ in range(2))
        self._urgent = asyncio.Semaphore(limits.urgent)
        self._credentials = access.credential_source(now)
        self._obtaining = asyncio.Lock()  # however many calls wait for a credential, one thread is enough
        self._credential_trouble = ""
        self._trust = Trust(access)

    @abstractmethod
    async def __aenter__(self) -> Self:
        """Open the session."""

    @abstractmethod
    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close its connections."""

    async def call(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: bytes = b"",
        media: str = JSON,
        patient: bool = True,
        urgent: bool = False,
    ) -> bytes:
        """The body of the response. ``patient``: retry a 429 that has a Retry-After."""
        backoff: Backoff | None = None
        reads = method == "GET"
        turn = self._reading if reads else self._urgent if urgent else self._writing
        for left in reversed(range(self._limits.attempts)):
            pause = 0.0
            credential = NO_CREDENTIAL
            try:
                async with turn:
                    credential = await self._credential()
                    return await self._once(method, path, query, body, media, credential)
            except ApiError as error:
                asked = error.retry_after or 0.0
                later = error.code == 429 and error.retry_after is not None and patient
                fresh = error.code == 401 and await self._renew(credential)
                if not left or not (later or fresh or (reads and error.code in BUSY)):
                    raise
                if asked > self._limits.longest_wait:
                    raise
                backoff = backoff or self._backoff()
                pause = 0.0 if fresh else backoff.next(least=asked)
            except CredentialError:
                raise  # another attempt would fail as this one did
            except UnreachableError as error:
                if not left or not (reads or not error.sent):
                    raise
                backoff = backoff or self._backoff()
                pause = backoff.next()
            await asyncio.sleep(pause)
        raise AssertionError("the last attempt returns or raises")

    def _backoff(self) -> Backoff:
        return Backoff(self._limits.first_pause, self._limits.longest_pause)

    @abstractmethod
    async def _once(
        self, method: str, path: str, query: Mapping[str, str] | None, body: bytes, media: str, credential: Credential
    ) -> bytes:
        """One attempt: the body of the response. ``ApiError`` if it is an error, ``UnreachableError`` if none came."""

    @abstractmethod
    def lines(self, path: str, query: Mapping[str, str], *, silence: float) -> AsyncGenerator[list[bytes], None]:
        """The lines of an answer that goes on and on, as many at a time as have come; first none: it has begun.

        It ends when the server ends it. When nothing has come for ``silence`` seconds it counts as lost. A line that
        was cut off is not given.
        """

    async def _credential(self) -> Credential:
        """The credential for the next request. A command that supplies one runs in a thread: the loop goes on."""
        found = self._credentials.cached()
        if found is None:
            async with self._obtaining:
                try:
                    found = await asyncio.to_thread(self._credentials.obtain)
                except CredentialError as error:
                    if str(error) != self._credential_trouble:  # once, however many calls fail because of it
                        log.warning('Failed to get credentials: error="%s"', error)
                    self._credential_trouble = str(error)
                    raise
            self._credential_trouble = ""
        self._trust.present(found)
        return found

    async def _renew(self, refused: Credential) -> bool:
        """After a 401: whether there is another credential to try."""
        async with self._obtaining:
            return await asyncio.to_thread(self._credentials.renew, refused)

    def _check(self, method: str) -> None:
        """Refuse to send a write that is not for this replica to make."""
        if method != "GET" and not self.may_write():
            raise UnreachableError("not sent: this replica is not the leader", sent=False)


class LineBuffer:
    """Assembles lines from chunks of bytes."""

    def __init__(self) -> None:
        self._rest = bytearray()

    def add(self, chunk: bytes) -> list[bytes]:
        """The lines that this piece completes."""
        end = chunk.rfind(b"\n")
        if end < 0:
            self._rest += chunk
            return []
        lines = chunk[:end].split(b"\n")
        if self._rest:
            lines[0] = bytes(self._rest) + lines[0]
        self._rest = bytearray(chunk[end + 1 :])
        return lines
