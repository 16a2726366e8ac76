"""Simulated nodes for a cluster that has none: the kubelets of the embedded server, at work on any API over HTTP.

They register nodes, keep them ready and play the pods that are bound to them, as the annotations of those say
(``pumice.dev/run-seconds``, ``pumice.dev/fail``, ``pumice.dev/stop-seconds``): a pod lives the same life on either
server. What has owners that are gone is deleted too, as kube-controller-manager would do.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from typing import Any, cast

import msgspec

from kubesim.api.client import InProcessClient as Embedded
from kubesim.api.status import ApiError
from kubesim.clock import Clock
from kubesim.kubelet.kubelets import Kubelets
from kubesim.kubelet.pod_lifecycle import KubeletConfig
from kubesim.storage import Change
from pumice.embedded.identity import PUMICE
from pumice.kube.client.api import Api
from pumice.kube.client.api_errors import ApiError as ClientError
from pumice.kube.client.kubeconfig import Access
from pumice.kube.client.transport import Session
from pumice.kube.resources import (
    CLAIMS,
    COMMANDS,
    CONFIG_MAPS,
    EVENTS,
    JOBS,
    LEASES,
    NODES,
    POD_GROUPS,
    PODS,
    Document,
    Resource,
)
from pumice.kube.watch import change_queue
from pumice.kube.watch.change_queue import ChangeQueue
from pumice.kube.watch.informer import Informer

SERVICES: Resource[Document] = Resource("v1", "services", "Service", dict)
SECRETS: Resource[Document] = Resource("v1", "secrets", "Secret", dict)
POLICIES: Resource[Document] = Resource("networking.k8s.io/v1", "networkpolicies", "NetworkPolicy", dict)
WORK = (JOBS, POD_GROUPS.raw, PODS.raw, COMMANDS)
BESIDE = (CONFIG_MAPS, SECRETS, SERVICES, POLICIES)
OWNED = (*WORK, *BESIDE)
"""What owns or is owned here: what people make, and what is made for it."""

GOODBYE = 0.2
"""Seconds in which TLS connections that were left say so to the other end."""

_RESOURCES = {resource.name: resource for resource in (CLAIMS.raw, EVENTS, LEASES, NODES.raw, PODS.raw)}
_encode = msgspec.json.Encoder().encode


@contextlib.contextmanager
def simulated_nodes(access: Access, nodes: Sequence[Document], *, speed: float = 1.0) -> Iterator[None]:
    """Play these nodes, and collect garbage, in a thread of their own for the time of a ``with`` block."""
    ready, stop = threading.Event(), asyncio.Event()
    failed: list[BaseException] = []
    loop = asyncio.new_event_loop()

    async def play() -> None:
        async with Session(access) as session:
            api = Api(session)
            remote = Remote(api)
            kubelets = Kubelets(
                cast("Embedded", remote), Clock(speed), nodes, config=KubeletConfig(PUMICE, start_seconds=0)
            )
            await kubelets.register()
            parts = (kubelets.run(), remote.keep(CLAIMS.name), Garbage(api).run(), stop.wait())
            work = [asyncio.ensure_future(each) for each in parts]
            ready.set()
            done, _ = await asyncio.wait(work, return_when=asyncio.FIRST_COMPLETED)
            for each in work:
                each.cancel()
            await asyncio.gather(*work, return_exceptions=True)
            await asyncio.sleep(GOODBYE)
            for each in done:
                each.result()

    def run() -> None:
        try:
            loop.run_until_complete(play())
        except BaseException as error:
            failed.append(error)
        finally:
            loop.close()
            ready.set()

    thread = threading.Thread(target=run)
    thread.start()
    assert ready.wait(60)
    try:
        assert not failed, failed
        yield
    finally:
        if not failed:
            loop.call_soon_threadsafe(stop.set)
        thread.join(60)
    assert not failed, failed


class Remote:
    """Of the verbs of the embedded server what its kubelets use, on another one. It reads what it follows."""

    identity = PUMICE
    requests = 0
    """It serves none: the kubelets need not make way for other clients."""

    def __init__(self, api: Api) -> None:
        self._api = api
        self._known: dict[str, Document] = {}

    def read(self, resource: str, namespace: str, name: str) -> Document | None:
        """The last state that was seen."""
        return self._known.get("/".join(filter(None, (resource, namespace, name))))

    def list(self, resource: str, namespace: str = "") -> list[Document]:
        """All that was seen, and is not gone."""
        prefix = "/".join(filter(None, (resource, namespace))) + "/"
        return [found for key, found in self._known.items() if key.startswith(prefix)]

    async def create(self, resource: str, namespace: str, new: Document) -> Document:
        """Create an object."""
        kind = _RESOURCES[resource]
        with _refusals():
            return await self._api.create(kind, {"apiVersion": kind.api_version, "kind": kind.kind, **new}, namespace)

    async def modify(
        self,
        resource: str,
        namespace: str,
        name: str,
        edit: Callable[[Document], None],
        *,
        subresource: str = "",
        uid: str = "",
        well_formed: bool = False,
    ) -> Document | None:
        """Edit the newest state of an object; None if it is gone, or another one. The server checks what is written."""
        kind = _RESOURCES[resource]
        while True:
            try:
                found = await self._api.get(kind, name, namespace)
                if uid and found["metadata"]["uid"] != uid:
                    return None
                edit(found)
                return await self._api.update(kind, found, subresource=subresource)
            except ClientError as error:
                if error.not_found:
                    return None
                if not error.conflict:
                    raise _as_here(error) from None

    async def delete(
        self,
        resource: str,
        namespace: str,
        name: str,
        *,
        grace: int | None = None,
        uid: str = "",
        propagation: str = "",
    ) -> None:
        """Delete an object, if it is still this one."""
        try:
            await self._api.delete(_RESOURCES[resource], name, namespace, grace=grace, uid=uid, propagation=propagation)
        except ClientError as error:
            if not (error.not_found or error.conflict):
                raise _as_here(error) from None

    async def follow(self, resource: str, namespace: str = "") -> AsyncIterator[Sequence[Change]]:
        """What is there, an empty batch, and what changes."""
        line = ChangeQueue()
        informer = Informer(self._api, _RESOURCES[resource], line)
        work = asyncio.ensure_future(informer.run())
        try:
            await informer.synced.wait()
            there = self._taken(line.drain())
            if there:
                yield there
            yield ()
            async for changes in line:
                yield self._taken(changes)
        finally:
            work.cancel()

    async def keep(self, resource: str) -> None:
        """Follow a resource only to read it."""
        async for _ in self.follow(resource):
            pass

    def _taken(self, changes: Sequence[change_queue.Change[Document]]) -> Sequence[Change]:
        found = []
        for change in changes:
            key = f"{change.resource}/{change.key}"
            if change.new is None:
                self._known.pop(key, None)
            else:
                self._known[key] = change.new
            found.append(Change(int(change.revision), key, _encode(change.new or change.old), deleted=not change.new))
        return found


class Garbage:
    """Deletes what has owners none of which is there any more."""

    def __init__(self, api: Api) -> None:
        self._api = api
        self._feed = ChangeQueue()
        self._informers = [Informer(api, resource, self._feed) for resource in OWNED]
        self._dependents: dict[str, dict[tuple[str, str], Document]] = defaultdict(dict)  # by the uid of an owner

    async def run(self) -> None:
        """Collect until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            for informer in self._informers:
                tasks.create_task(informer.run())
            async for changes in self._feed:
                suspects: dict[str, Document] = {}
                for change in changes:
                    suspects |= {found["metadata"]["uid"]: found for found in self._take(change)}
                for found in suspects.values():
                    await self._judge(found)

    def _take(self, change: change_queue.Change[Document]) -> list[Document]:
        """Take note; gives what may be garbage now."""
        now = change.new or change.old
        assert now is not None
        for owner in now["metadata"].get("ownerReferences", ()):
            if change.new is None:
                self._dependents[owner["uid"]].pop((change.resource, change.key), None)
            else:
                self._dependents[owner["uid"]][change.resource, change.key] = now
        if change.new is None:
            return list(self._dependents.pop(change.uid, {}).values())
        return [now] if change.old is None and "ownerReferences" in now["metadata"] else []

    async def _judge(self, found: Document) -> None:
        about = found["metadata"]
        for owner in about["ownerReferences"]:
            if await self._is_there(owner, about["namespace"]):
                return
        kind = _kind(found["apiVersion"], found["kind"])
        assert kind is not None
        with contextlib.suppress(ClientError):  # gone meanwhile
            await self._api.delete(kind, about["name"], about["namespace"], uid=about["uid"], propagation="Background")

    async def _is_there(self, owner: dict[str, Any], namespace: str) -> bool:
        kind = _kind(owner["apiVersion"], owner["kind"])
        if kind is None:
            return True  # for all we know
        try:
            return bool((await self._api.get(kind, owner["name"], namespace))["metadata"]["uid"] == owner["uid"])
        except ClientError as error:
            if error.not_found:
                return False
            raise


def _kind(api_version: str, kind: str) -> Resource[Document] | None:
    return next((each for each in OWNED if (each.api_version, each.kind) == (api_version, kind)), None)


@contextlib.contextmanager
def _refusals() -> Iterator[None]:
    try:
        yield
    except ClientError as error:
        raise _as_here(error) from None


def _as_here(error: ClientError) -> ApiError:
    return ApiError(error.code, error.reason, error.message, error.details)
