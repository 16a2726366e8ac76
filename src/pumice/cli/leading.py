"""Several replicas, of which one works: the options that ask for it, and a life as one of them.

A replica that waits is ready: it could take over. One that leads and cannot renew its lease any more ends, and is
started again by whoever looks after it: what it knows may be old by the time it leads again.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeVar

import click

from pumice.cli.terminal import echo

if TYPE_CHECKING:
    from pumice.kube.kubeconfig import Access
    from pumice.kube.lease import Lease
    from pumice.service.endpoints import Probes

DEFAULT_NAMESPACE = "kube-system"
LEASE_NAMESPACE = "pumice.leader-elect-namespace"  # what a command remembers it by

Command = TypeVar("Command", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class Election:
    """The Lease by which replicas of one component agree who leads."""

    name: str
    namespace: str


def election_option(name: str) -> Callable[[Command], Command]:
    """The options that ask for replicas of which one leads."""

    def add(command: Command) -> Command:
        command = click.option(
            "--leader-elect-namespace",
            metavar="NAMESPACE",
            help=f"Where that Lease is. [default: the pod's own, else {DEFAULT_NAMESPACE}]",
            expose_value=False,
            is_eager=True,  # the flag wants to know it
            callback=lambda context, _, given: context.meta.update({LEASE_NAMESPACE: given}),
        )(command)
        return click.option(
            "--leader-elect",
            "election",
            is_flag=True,
            callback=lambda context, _, on: _election(context, name) if on else None,
            help=f"Work only while holding the Lease {name}, so that several can run side by side.",
        )(command)

    return add


def _election(context: click.Context, name: str) -> Election:
    from pumice.kube.incluster import in_cluster

    given = context.meta.get(LEASE_NAMESPACE)
    inside = None if given else in_cluster()
    return Election(name, given or (inside.namespace if inside else DEFAULT_NAMESPACE))


class Leading:
    """One replica's part in it. Without an election it leads, always."""

    def __init__(self, lease: Lease | None) -> None:
        self._lease = lease
        self.begun = lease is None

    @property
    def held(self) -> bool:
        """Whether this replica may write."""
        return self._lease is None or self._lease.held

    def probes(self, probes: Probes) -> Probes:
        """What is asked of a replica: one that waits is ready, and what it does not follow it need not know."""
        return replace(
            probes,
            alive=lambda: probes.alive() if self.begun else "",
            ready=lambda: probes.ready() if self.begun else "",
        )

    async def work(self, run: Callable[[], Awaitable[None]]) -> None:
        """Wait until this replica leads, then work for as long as it does. ``LostError`` if that ends."""
        import asyncio

        if self._lease is None:
            await run()
            return
        await self._lease.acquire()
        self.begun = True
        echo(f"{self._lease.identity} leads from now on", err=True)
        keeping = asyncio.ensure_future(self._lease.keep())
        working = asyncio.ensure_future(run())
        try:
            await asyncio.wait({keeping, working}, return_when=asyncio.FIRST_COMPLETED)
            for ended in (keeping, working):
                if ended.done():
                    ended.result()
        finally:
            working.cancel()
            keeping.cancel()
            await asyncio.gather(working, keeping, return_exceptions=True)


@asynccontextmanager
async def leading(access: Access, election: Election | None) -> AsyncIterator[Leading]:
    """Take part in an election, if there is one; in the end the lease is given back."""
    if election is None:
        yield Leading(None)
        return
    from pumice.kube.api import Api
    from pumice.kube.lease import Lease
    from pumice.kube.session import Limits, Session

    async with AsyncExitStack() as stack:
        # A session of its own: renewals never wait behind anything else, and are tried again by the lease alone.
        session = await stack.enter_async_context(Session(access, Limits(attempts=1)))
        lease = Lease(Api(session), election.name, election.namespace)
        try:
            yield Leading(lease)
        finally:
            await lease.release()
