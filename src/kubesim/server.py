"""The server: starts an API server with nodes and controllers from its settings, and stops it.

The order matters. Errors in the settings (a certificate, a kubeconfig of another cluster, a data directory in use, a
port in use) are found before anything is written. The initial objects (namespaces, given definitions, nodes) exist
before the first request is answered; the kubeconfig is written after that. Stopping is the reverse: no more requests,
no more controllers, and then the store is closed, when all pending writes are on disk.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kubesim import bootstrap, controllers, kinds
from kubesim.api.access import AccessFactory
from kubesim.api.admission import AdmissionFactory
from kubesim.api.client import InProcessClient
from kubesim.clock import Clock
from kubesim.controllers import service_accounts
from kubesim.http.auth import generate_tls, is_loopback, load_or_create_token, load_tls, needs_tls
from kubesim.http.listen import bind_sockets, compact_periodically, run_controllers, serve_http
from kubesim.http.unix_socket import LONGEST_PATH, bind_local_socket, bind_unix_socket
from kubesim.identity import KUBESIM, ServerIdentity
from kubesim.kinds import custom_resources
from kubesim.kubeconfig import require_own_kubeconfig, write_kubeconfig
from kubesim.kubelet.kubelets import Kubelets
from kubesim.registry.registry import Object, ResourceRegistry
from kubesim.storage import Store
from kubesim.storage.directory_lock import require_unused
from kubesim.stored_objects import report_unusable, set_aside_unusable

WILDCARDS = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # how a wildcard address is reached from this machine


@dataclass(frozen=True, slots=True)
class ServerSettings:
    """The settings of a server."""

    data: Path | None
    """The data directory, also for generated certificates and tokens; None keeps everything in memory."""
    kubeconfig: Path
    nodes: Sequence[Object]
    host: str = "127.0.0.1"
    port: int = 0
    token: str = ""
    own_certificate: tuple[Path, Path] | None = None
    """A certificate and its key."""
    speed: float = 1.0
    identity: ServerIdentity = KUBESIM
    """The product as whose part the server shows itself."""
    admission: AdmissionFactory | None = None
    """Creates the hook that modifies or rejects objects before they are stored."""
    prepare: Callable[[InProcessClient], Awaitable[None]] | None = None
    """Creates further initial objects (definitions and others) before the first request is answered."""
    more_controllers: Callable[[InProcessClient, Clock], Sequence[Coroutine[Any, Any, None]]] | None = None
    """Controllers of the embedding program, each to be run until cancelled."""
    access: AccessFactory | None = None
    """Creates the policy that knows users and what they may do; None: there is one user, who may do everything."""
    unix_socket: Path | None = None
    """The socket on which users of this machine are known by the kernel; needs ``access``."""
    local_socket: Path | None = None
    """A socket beside the port for programs of the same user, who send the same token there, but need no TLS."""
    announce: Callable[[str, bytes], None] | None = None
    """Hears the address of the server and the authority of its certificate before the first request is answered."""


@dataclass(frozen=True, slots=True)
class RunningCluster:
    """A running server."""

    api: InProcessClient
    kubelets: Kubelets
    server: str
    """Its address in the kubeconfig."""
    outside: str
    """Its address for other machines; empty if it listens on loopback only."""
    broken: asyncio.Future[None]
    """Completes if a controller ends, which is an error."""


@contextlib.asynccontextmanager
async def running_cluster(settings: ServerSettings) -> AsyncIterator[RunningCluster]:
    """Run a server. When the context ends, it is stopped and all writes are on disk."""
    clock = Clock(settings.speed)
    own = load_tls(*settings.own_certificate) if settings.own_certificate else None
    require_own_kubeconfig(settings.kubeconfig, settings.identity.name)
    if settings.data:
        require_unused(settings.data)
    async with AsyncExitStack() as stack:
        sockets = stack.enter_context(bind_sockets(settings.host, settings.port))
        unix = stack.enter_context(bind_unix_socket(settings.unix_socket)) if settings.unix_socket else None
        local = _local_socket(settings)
        beside = stack.enter_context(bind_local_socket(local)) if local else None
        store = await Store.open(settings.data, settings.identity)
        stack.push_async_callback(store.close)
        inside = WILDCARDS.get(settings.host, settings.host)
        secure = needs_tls(settings.host, settings.token)
        tls = own or (generate_tls(inside, settings.data, settings.identity) if secure else None)
        token = settings.token or (load_or_create_token(settings.data) if tls else "")
        api = InProcessClient(store, ResourceRegistry(kinds.resources()), settings.identity)
        if settings.admission:
            api.writes.admission = settings.admission(store)
        set_aside_unusable(api)
        for definition in api.list(custom_resources.QUALIFIED):
            custom_resources.install(api.registry, definition)
        await service_accounts.create_system_namespaces(api)
        await bootstrap.create_system_classes(api)
        await bootstrap.create_default_storage_class(api)
        if settings.prepare:
            await settings.prepare(api)
        kubelets = Kubelets(api, clock, settings.nodes)
        await kubelets.register()
        work = [*controllers.all_controllers(api, clock), kubelets.run(), compact_periodically(api)]
        work += settings.more_controllers(api, clock) if settings.more_controllers else []
        work += [report_unusable(api, clock)] if settings.data else []
        broken = await stack.enter_async_context(run_controllers(*work))
        context, authority = (tls.context, tls.authority) if tls else (None, b"")
        server = _url(inside, sockets[0].getsockname()[1], secure=tls is not None)
        if settings.announce:
            settings.announce(server, authority)
        access = settings.access(api) if settings.access else None
        port = await stack.enter_async_context(
            serve_http(api, sockets, token=token, tls=context, access=access, unix_socket=unix, local_socket=beside)
        )
        store.announce(server)
        write_kubeconfig(
            settings.kubeconfig, server, name=settings.identity.name, token=token, authority=authority, socket=local
        )
        yield RunningCluster(api, kubelets, server, _outside(settings.host, port), broken)


def _local_socket(settings: ServerSettings) -> Path | None:
    """Where the socket goes; none if its path is too long for one, which the settings of a user may cause."""
    path = settings.local_socket
    return path if path is not None and len(os.fsencode(path)) <= LONGEST_PATH else None


def _outside(host: str, port: int) -> str:
    if is_loopback(host):
        return ""
    return _url(socket.gethostname() if host in WILDCARDS else host, port, secure=True)


def _url(host: str, port: int, *, secure: bool) -> str:
    named = f"[{host}]" if ":" in host else host
    return f"{'https' if secure else 'http'}://{named}:{port}"
