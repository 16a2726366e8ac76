"""An API in memory, and a server over it, for tests."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from pumice.apiserver import builtin
from pumice.apiserver.catalogue import Catalogue
from pumice.apiserver.controllers import accounts
from pumice.apiserver.storage import Store
from pumice.apiserver.verbs import Api


@asynccontextmanager
async def memory_api(path: Path | None = None) -> AsyncIterator[Api]:
    """The API over an empty store (or a folder), with the namespaces that every cluster has and no controllers."""
    store = await Store.open(path)
    try:
        api = Api(store, Catalogue(builtin.resources()))
        await accounts.furnish(api)
        yield api
    finally:
        await store.close()
