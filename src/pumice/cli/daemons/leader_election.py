"""Leader election between replicas: its options, and the run of a worker while its replica leads.

A standby replica is ready as long as it can read the lease. A leader that cannot renew its lease exits and is restarted
by Kubernetes, because its state may be outdated by the time it leads again.

A separate thread renews the lease, so that a long cycle does not lose it. ``/healthz`` reports whether the leader makes
progress.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeVar

import click

from pumice.cli.terminal import echo

if TYPE_CHECKING:
    import asyncio

    from prometheus_client.core import Metric

    from pumice.kube.client.kubeconfig import Access
    from pumice.kube.client.loop_thread import LoopThread
    from pumice.kube.client.session import Limits
    from pumice.kube.leader_election import Lease
    from pumice.observability.process_probes import Probes

DEFAULT_NAMESPACE = "kube-system"
LEASE_NAMESPACE_KEY = "pumice.leader-elect-namespace"  # what a command remembers it by
CONNECT_FRACTION = 0.8
"""The part that connecting may take of the time after which another may lead."""

Command = TypeVar("Command", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class Election:
    """The Lease that elects the leader of a component."""

    name: str
    namespace: str


def election_option(name: str) -> Callable[[Command], Command]:
    """The options of leader election."""

    def add(command: Command) -> Command:
        command = click.option(
            "--leader-elect-namespace",
            metavar="NAMESPACE",
            help=f"Namespace of the Lease. [default: that of the pod, else {DEFAULT_NAMESPACE}]",
            expose_value=False,
            is_eager=True,  # the flag wants to know it
            callback=lambda context, _, given: context.meta.update({LEASE_NAMESPACE_KEY: given}),
        )(command)
        return click.option(
            "--leader-elect",
            "election",
            is_flag=True,
            callback=lambda context, _, on: _election(context, name) if on else None,
            help=f"Run only while holding the Lease {name}, so that several replicas can be started.",
        )(command)

    return add


def _election(context: click.Context, name: str) -> Election:
    from pumice.kube.client.in_cluster import in_cluster

    given = context.meta.get(LEASE_NAMESPACE_KEY)
    inside = None if given else in_cluster()
    return Election(name, given or (inside.namespace if inside else DEFAULT_NAMESPACE))


STANDBY = (503, b'{"error": "this replica does not lead; the history is that of the leader"}')
"""The answer of a replica that waits to a request for the history."""


class Leadership:
    """One replica's part in it. Without an election it leads, always."""

    def __init__(self, lease: Lease | None = None, aside: LoopThread | None = None) -> None:
        self._lease = lease
        self._lease_thread = aside
        self._renewal: asyncio.Future[None] | None = None
        self.started = lease is None

    @property
    def is_leader(self) -> bool:
        """Whether this replica is the leader and may write."""
        return self._lease is None or self._lease.held

    @property
    def trouble(self) -> str:
        """The error that keeps this replica from becoming the leader; empty if there is none."""
        return "" if self._lease is None else self._lease.trouble

    def probes(self, probes: Probes) -> Probes:
        """The probes of a replica: a standby replica reports only whether it can read the lease."""
        if self._lease is None:
            return probes
        metrics, history = probes.metrics, probes.history
        return replace(
            probes,
            alive=lambda: probes.alive() if self.started else "",
            ready=lambda: self.trouble or (probes.ready() if self.started else ""),
            metrics=metrics and (lambda: [*metrics(), leading_metric(self.is_leader)]),
            history=history and (lambda query: history(query) if self.is_leader else STANDBY),
        )

    def limits(self, limits: Limits) -> Limits:
        """Limits of a session that checks ``is_leader``: a slow connect must not outlast the lease."""
        if self._lease is None:
            return limits
        return replace(limits, connect=min(limits.connect, CONNECT_FRACTION * self._lease.timing.margin))

    async def run_while_leading(self, run: Callable[[], Awaitable[None]]) -> None:
        """Wait until this replica leads, then work for as long as it does. ``LostError`` if that ends."""
        import asyncio

        if self._lease is None:
            await run()
            return
        assert self._lease_thread is not None
        await self._lease_thread.run(self._lease.acquire())
        self.started = True
        echo(f"{self._lease.identity} became the leader", err=True)
        # Renewal continues while the worker stops, so that writes in progress can be finished.
        self._renewal = keeping = self._lease_thread.run(self._lease.keep())
        keeping.add_done_callback(lambda ended: ended.cancelled() or ended.exception())
        working = asyncio.ensure_future(run())
        try:
            await asyncio.wait({keeping, working}, return_when=asyncio.FIRST_COMPLETED)
            for ended in (keeping, working):
                if ended.done():
                    ended.result()
        finally:
            working.cancel()
            await asyncio.gather(working, return_exceptions=True)

    async def release(self) -> None:
        """Let another lead: this replica has finished what was under way."""
        import asyncio

        if self._lease is None:
            return
        assert self._lease_thread is not None
        if self._renewal is not None:
            self._renewal.cancel()
            await asyncio.gather(self._renewal, return_exceptions=True)
        await self._lease_thread.run(self._lease.release())


def leading_metric(held: bool) -> Metric:
    """The metric that shows whether a replica leads."""
    from pumice.observability.metrics.metric_families import gauge

    text = "With `--leader-elect`: 1 while this replica leads, 0 while it waits."
    return gauge("pumice_leading", text, float(held))


@asynccontextmanager
async def join_election(access: Access, election: Election | None) -> AsyncIterator[Leadership]:
    """Take part in an election, if there is one."""
    if election is None:
        yield Leadership()
        return
    from pumice.kube.client.api import Api
    from pumice.kube.client.loop_thread import LoopThread
    from pumice.kube.client.transport import Limits, Session
    from pumice.kube.leader_election import Lease

    async with LoopThread("lease") as aside:
        # A session of its own: renewals never wait behind anything else, and are tried again by the lease alone.
        session = await aside.enter(Session(access, Limits(attempts=1)))
        yield Leadership(Lease(Api(session), election.name, election.namespace), aside)
