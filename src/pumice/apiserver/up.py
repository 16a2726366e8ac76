"""``pumice up``, without the command line: one process, from a folder to a cluster that answers.

The order matters. The data directory is taken first, so that a second start fails before it has touched anything;
what every cluster has (its namespaces, our definitions, its nodes) is there before the first request is answered;
the kubeconfig is written when the port is known. It stops in reverse: no more requests, no more controllers, and
then the store, when what is under way is on disk.
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import ssl
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path

from pumice.apiserver import builtin, controllers, shipped
from pumice.apiserver.builtin import definitions
from pumice.apiserver.catalogue import Catalogue, Object
from pumice.apiserver.clock import Clock
from pumice.apiserver.controllers import accounts
from pumice.apiserver.kubeconfig import write_kubeconfig
from pumice.apiserver.nodes.fleet import Fleet
from pumice.apiserver.server import Address, compact, listening, working
from pumice.apiserver.storage import Store
from pumice.apiserver.verbs import Api

WILDCARDS = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # how an address that means "all" is reached from here


@dataclass(frozen=True, slots=True)
class Settings:
    """What somebody asked for."""

    data: Path | None
    """The data directory; None keeps everything in memory."""
    kubeconfig: Path
    certificates: Path
    """Where certificates are made, if they are needed and none are given."""
    nodes: Sequence[Object]
    host: str = "127.0.0.1"
    port: int = 0
    token: str = ""
    own_certificate: tuple[Path, Path] | None = None
    """A certificate and its key."""
    speed: float = 1.0


@dataclass(frozen=True, slots=True)
class Cluster:
    """What is up."""

    api: Api
    fleet: Fleet
    server: str
    """Its address, as the kubeconfig has it."""
    broken: asyncio.Future[None]
    """Done if a controller ends, which none should."""


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach an address."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


@contextlib.asynccontextmanager
async def cluster(settings: Settings) -> AsyncIterator[Cluster]:
    """A cluster that answers. It is stopped, and everything on disk, when the context ends."""
    clock = Clock(settings.speed)
    async with AsyncExitStack() as stack:
        store = await Store.open(settings.data)
        stack.push_async_callback(store.close)
        api = Api(store, Catalogue(builtin.resources()))
        for definition in api.list(definitions.QUALIFIED):
            definitions.install(api.catalogue, definition)
        await accounts.furnish(api)
        await shipped.furnish(api)
        fleet = Fleet(api, clock, settings.nodes)
        await fleet.register()
        work = [*controllers.everybody(api, clock), fleet.run(), compact(api)]
        broken = await stack.enter_async_context(working(*work))
        token, tls, authority = _protection(settings)
        port = await stack.enter_async_context(listening(api, Address(settings.host, settings.port, token, tls)))
        server = f"{'https' if tls else 'http'}://{_reachable(settings.host)}:{port}"
        store.announce(server)
        write_kubeconfig(settings.kubeconfig, server, token=token, authority=authority)
        yield Cluster(api, fleet, server, broken)


def _protection(settings: Settings) -> tuple[str, ssl.SSLContext | None, bytes]:
    """Token, TLS and the authority that clients trust. Beyond loopback there is no going without.

    A token alone would not do: clients send none over plain HTTP.
    """
    if settings.own_certificate:
        certificate, key = settings.own_certificate
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate, key)
        return settings.token or _new_token(settings), context, certificate.read_bytes()
    if is_loopback(settings.host) and not settings.token:
        return "", None, b""
    from pumice.apiserver.tls import certificates  # noqa: PLC0415 - large, and on loopback nobody needs it

    made = certificates(settings.certificates, _reachable(settings.host))
    return settings.token or _new_token(settings), made.context(), made.authority.read_bytes()


def _new_token(settings: Settings) -> str:
    return "" if is_loopback(settings.host) else secrets.token_urlsafe(32)


def _reachable(host: str) -> str:
    """A host as a client on this machine writes it."""
    named = WILDCARDS.get(host, host)
    return f"[{named}]" if ":" in named else named
