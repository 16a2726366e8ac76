"""An API in memory, and a server over it, for tests."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from kubesim import kinds
from kubesim.api.client import InProcessClient
from kubesim.controllers import service_accounts
from kubesim.identity import KUBESIM, ServerIdentity
from kubesim.registry.registry import ResourceRegistry
from kubesim.storage import Store


@asynccontextmanager
async def memory_api(path: Path | None = None, identity: ServerIdentity = KUBESIM) -> AsyncIterator[InProcessClient]:
    """The API over an empty store (or a folder), with the namespaces that every cluster has and no controllers."""
    store = await Store.open(path, identity)
    try:
        api = InProcessClient(store, ResourceRegistry(kinds.resources()), identity)
        await service_accounts.create_system_namespaces(api)
        yield api
    finally:
        await store.close()
