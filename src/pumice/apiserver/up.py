"""A cluster in one process: from a folder to an API server with nodes and controllers that answers.

The order matters. What can be wrong with what was asked for (a certificate, a kubeconfig of another cluster, data that
another process holds, a port that is taken) is found before anything is written. What the cluster has from the start
(namespaces, definitions handed in, nodes) is there before the first request is answered; the kubeconfig is written
after that. It stops in reverse: no more requests, no more controllers, and then the store, when the writes under way
are on disk.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path

from pumice.apiserver import bootstrap, builtin, controllers
from pumice.apiserver.admission import AdmissionFactory
from pumice.apiserver.builtin import definitions
from pumice.apiserver.catalogue import Catalogue, Object
from pumice.apiserver.clock import Clock
from pumice.apiserver.controllers import accounts
from pumice.apiserver.kubeconfig import require_ours, write_kubeconfig
from pumice.apiserver.nodes.fleet import Fleet
from pumice.apiserver.protection import is_loopback, made_tls, made_token, needs_tls, own_tls
from pumice.apiserver.server import bound, compact, listening, working
from pumice.apiserver.storage import Store
from pumice.apiserver.storage.holder import require_free
from pumice.apiserver.verbs import Api

WILDCARDS = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # how an address that means "all" is reached from here


@dataclass(frozen=True, slots=True)
class Settings:
    """What somebody asked for."""

    data: Path | None
    """The data directory, also for the certificates and the token that are made; None keeps everything in memory."""
    kubeconfig: Path
    nodes: Sequence[Object]
    host: str = "127.0.0.1"
    port: int = 0
    token: str = ""
    own_certificate: tuple[Path, Path] | None = None
    """A certificate and its key."""
    speed: float = 1.0
    admission: AdmissionFactory | None = None
    """Makes the hook that changes or refuses objects before they are stored."""
    prepare: Callable[[Api], Awaitable[None]] | None = None
    """Creates what this cluster has beyond every other (definitions, objects), before the first request is answered."""


@dataclass(frozen=True, slots=True)
class Cluster:
    """What is up."""

    api: Api
    fleet: Fleet
    server: str
    """Its address, as the kubeconfig has it."""
    outside: str
    """Its address for other machines; empty if they cannot reach it."""
    broken: asyncio.Future[None]
    """Done if a controller ends, which none should."""


@contextlib.asynccontextmanager
async def cluster(settings: Settings) -> AsyncIterator[Cluster]:
    """A cluster that answers. It is stopped, and everything on disk, when the context ends."""
    clock = Clock(settings.speed)
    own = own_tls(*settings.own_certificate) if settings.own_certificate else None
    require_ours(settings.kubeconfig)
    if settings.data:
        require_free(settings.data)
    async with AsyncExitStack() as stack:
        sockets = stack.enter_context(bound(settings.host, settings.port))
        store = await Store.open(settings.data)
        stack.push_async_callback(store.close)
        inside = WILDCARDS.get(settings.host, settings.host)
        tls = own or (made_tls(inside, settings.data) if needs_tls(settings.host, settings.token) else None)
        token = settings.token or (made_token(settings.data) if tls else "")
        api = Api(store, Catalogue(builtin.resources()))
        if settings.admission:
            api.writes.admission = settings.admission(store)
        for definition in api.list(definitions.QUALIFIED):
            definitions.install(api.catalogue, definition)
        await accounts.furnish(api)
        await bootstrap.create_system_classes(api)
        if settings.prepare:
            await settings.prepare(api)
        fleet = Fleet(api, clock, settings.nodes)
        await fleet.register()
        work = [*controllers.everybody(api, clock), fleet.run(), compact(api)]
        broken = await stack.enter_async_context(working(*work))
        context = tls.context if tls else None
        port = await stack.enter_async_context(listening(api, sockets, token=token, tls=context))
        server = _url(inside, port, secure=tls is not None)
        store.announce(server)
        write_kubeconfig(settings.kubeconfig, server, token=token, authority=tls.authority if tls else b"")
        yield Cluster(api, fleet, server, _outside(settings.host, port), broken)


def _outside(host: str, port: int) -> str:
    if is_loopback(host):
        return ""
    return _url(socket.gethostname() if host in WILDCARDS else host, port, secure=True)


def _url(host: str, port: int, *, secure: bool) -> str:
    named = f"[{host}]" if ":" in host else host
    return f"{'https' if secure else 'http'}://{named}:{port}"
