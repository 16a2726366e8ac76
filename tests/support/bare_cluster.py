"""The embedded API with nobody at work on it, in a thread: for tests of programs that call it from outside.

What such a program writes stays as it is written; a test that wants a controller plays it.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Iterator
from pathlib import Path

from kubesim.server import ServerSettings, running_cluster
from pumice.embedded.embedded_cluster import with_pumice
from pumice.kube.client.kubeconfig import read_kubeconfig
from pumice.kube.client.sync_client import Client


@contextlib.contextmanager
def bare_cluster(place: Path, *, token: str = "") -> Iterator[tuple[Client, Path]]:
    """Serve for the time of a ``with`` block: a client of it, and its kubeconfig."""
    kubeconfig = place / "kubeconfig"
    ready, ends = threading.Event(), threading.Event()
    failed: list[BaseException] = []

    async def serve() -> None:
        async with running_cluster(
            with_pumice(ServerSettings(data=None, kubeconfig=kubeconfig, nodes=[], token=token))
        ):
            ready.set()
            await asyncio.to_thread(ends.wait)

    def run() -> None:
        try:
            asyncio.run(serve())
        except BaseException as error:
            failed.append(error)
        finally:
            ready.set()

    thread = threading.Thread(target=run)
    thread.start()
    assert ready.wait(30)
    assert not failed, failed
    client = Client(read_kubeconfig(kubeconfig))
    try:
        yield client, kubeconfig
    finally:
        client.close()
        ends.set()
        thread.join(30)
    assert not failed, failed
