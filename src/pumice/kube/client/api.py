"""The verbs of a Kubernetes API on its resources.

Callers pass objects as plain documents; responses are decoded to the type of the resource. Every verb raises
``ApiError`` if the API returns an error, and ``UnreachableError`` if there is no response.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from enum import Enum
from http import HTTPStatus
from typing import Any, Generic, TypeVar

import msgspec
from msgspec import Raw, Struct
from msgspec.json import Decoder

from pumice.kube.client.api_errors import ApiError, UnreachableError, error_from_status
from pumice.kube.client.paging import PAGE_SIZE, SILENCE_SECONDS, ListPages, watch_query
from pumice.kube.client.session import ApiSession
from pumice.kube.resources import PODS, Resource

T = TypeVar("T")

Batch = list[tuple[str, Raw]]
"""Events of a watch: the type of each event, and its object, undecoded."""

_encode = msgspec.json.Encoder().encode


class Patch(Enum):
    """How a patch is written."""

    JSON = "application/json-patch+json"
    MERGE = "application/merge-patch+json"
    STRATEGIC = "application/strategic-merge-patch+json"


@dataclass(frozen=True, slots=True)
class ListOptions:
    """Which objects of a collection: those of a namespace (empty: all), with labels, with fields."""

    namespace: str = ""
    labels: str = ""
    fields: str = ""

    def query(self) -> dict[str, str]:
        """The options as query parameters; the namespace is part of the path."""
        given = {"labelSelector": self.labels, "fieldSelector": self.fields}
        return {name: value for name, value in given.items() if value}


ALL_OBJECTS = ListOptions()


@dataclass(frozen=True, slots=True)
class Listing(Generic[T]):
    """The objects of a collection at one resourceVersion."""

    items: list[T]
    revision: str


@dataclass(frozen=True, slots=True)
class Page:
    """A part of a list, undecoded. After a ``first`` one everything that came before is void."""

    items: Sequence[Raw]
    revision: str
    first: bool


class _ListMeta(Struct, rename="camel"):
    resource_version: str = ""
    token: str = msgspec.field(default="", name="continue")


class _List(Struct):
    metadata: _ListMeta
    items: list[Raw] | None = None


class _Event(Struct):
    type: str
    object: Raw


_lists = Decoder(_List)
_events = Decoder(_Event)
_statuses = Decoder(dict[str, Any])


class _Identity(Struct, frozen=True):
    uid: str = ""


class _Identified(Struct, frozen=True):
    metadata: _Identity = _Identity()


KUBE_SYSTEM = Resource("v1", "namespaces", "Namespace", _Identified, namespaced=False)


class Api:
    """One cluster's API."""

    def __init__(self, session: ApiSession) -> None:
        self.session = session

    # ---- looking ------------------------------------------------------------------------------------------

    async def get(self, resource: Resource[T], name: str, namespace: str = "") -> T:
        """One object."""
        return _decoded(resource, await self.session.call("GET", resource.path(namespace, name)))

    async def identity(self) -> str:
        """The identity of the cluster: the uid of its namespace kube-system; empty if we may not read it."""
        try:
            found = await self.get(KUBE_SYSTEM, "kube-system")
        except ApiError as error:
            if error.not_found or error.code == HTTPStatus.FORBIDDEN:
                return ""
            raise
        return found.metadata.uid

    async def list(
        self, resource: Resource[T], choice: ListOptions = ALL_OBJECTS, *, limit: int = PAGE_SIZE
    ) -> Listing[T]:
        """All objects that are chosen, as they were at one moment."""
        items: list[T] = []
        revision = ""
        async with aclosing(self.pages(resource, choice, limit=limit)) as pages:
            async for page in pages:
                if page.first:
                    items.clear()
                items += [resource.decode(raw) for raw in page.items]
                revision = page.revision
        return Listing(items, revision)

    async def pages(
        self, resource: Resource[Any], choice: ListOptions = ALL_OBJECTS, *, limit: int = PAGE_SIZE
    ) -> AsyncGenerator[Page, None]:
        """A list in pages, the newest there is. If it expires on the way it begins again, then in one piece."""
        path, pages = resource.path(choice.namespace), ListPages(choice.query(), limit)
        more = True
        while more:
            try:
                content = await self.session.call("GET", path, query=pages.query())
            except ApiError as error:
                if pages.restart(error):
                    continue
                raise
            found = _understood(_lists, content)
            yield Page(found.items or (), found.metadata.resource_version, first=pages.first)
            more = pages.advance(found.metadata.token)

    async def watch(
        self,
        resource: Resource[T],
        revision: str,
        choice: ListOptions = ALL_OBJECTS,
        *,
        silence: float = SILENCE_SECONDS,
    ) -> AsyncGenerator[tuple[str, T], None]:
        """Watch from a resourceVersion on: ADDED, MODIFIED, DELETED or BOOKMARK, with the object."""
        async with aclosing(self.events(resource, revision, choice, silence=silence)) as batches:
            async for batch in batches:
                for kind, raw in batch:
                    yield kind, resource.decode(raw)

    async def events(
        self,
        resource: Resource[Any],
        revision: str,
        choice: ListOptions = ALL_OBJECTS,
        *,
        silence: float = SILENCE_SECONDS,
    ) -> AsyncGenerator[Batch, None]:
        """A watch as it arrives: as many events at a time as have come, undecoded. Its errors are raised.

        First none come: the server watches from now on. Whether it ever has something to tell is another matter.
        """
        path = resource.path(choice.namespace)
        async with aclosing(self.session.lines(path, watch_query(choice.query(), revision), silence=silence)) as chunks:
            async for lines in chunks:
                batch: Batch = []
                trouble = None
                for line in lines:
                    event = _understood(_events, line)
                    if event.type == "ERROR":
                        trouble = error_from_status(_understood(_statuses, event.object))
                        break
                    batch.append((event.type, event.object))
                if batch or not lines:
                    yield batch
                if trouble:
                    raise trouble

    # ---- changing -----------------------------------------------------------------------------------------

    async def create(self, resource: Resource[T], new: Mapping[str, Any], namespace: str = "") -> T:
        """Create an object, in the namespace given or the one it names."""
        namespace = namespace or new.get("metadata", {}).get("namespace", "")
        if resource.namespaced and not namespace:
            raise ValueError(f"a namespace is required to write a {resource.kind}: {resource.plural} are namespaced")
        return _decoded(resource, await self.session.call("POST", resource.path(namespace), body=_encode(new)))

    async def update(self, resource: Resource[T], new: Mapping[str, Any], *, subresource: str = "") -> T:
        """Replace an object, if it still has the resourceVersion that the new one carries (if any)."""
        about = new["metadata"]
        path = resource.path(about.get("namespace", ""), about["name"], subresource)
        return _decoded(resource, await self.session.call("PUT", path, body=_encode(new)))

    async def patch(
        self,
        resource: Resource[T],
        name: str,
        patch: Mapping[str, Any] | Sequence[Mapping[str, Any]],
        namespace: str = "",
        *,
        how: Patch = Patch.MERGE,
        subresource: str = "",
    ) -> T:
        """Change parts of an object."""
        path = resource.path(namespace, name, subresource)
        return _decoded(resource, await self.session.call("PATCH", path, body=_encode(patch), media=how.value))

    async def patch_status(
        self, resource: Resource[T], name: str, status: Mapping[str, Any], namespace: str = "", *, uid: str = ""
    ) -> T:
        """Change parts of an object's status; with a uid only that of this very object (otherwise 422, Invalid)."""
        patch: dict[str, Any] = {"status": status}
        if uid:
            patch["metadata"] = {"uid": uid}
        return await self.patch(resource, name, patch, namespace, subresource="status")

    async def delete(
        self,
        resource: Resource[Any],
        name: str,
        namespace: str = "",
        *,
        uid: str = "",
        revision: str = "",
        grace: int | None = None,
        propagation: str = "",
    ) -> None:
        """Delete an object; with a uid or a revision only if it has it, ``conflict`` otherwise.

        ``propagation``: Foreground, Background or Orphan; empty is what the resource does by itself.
        """
        options = _delete_options(uid, revision, grace)
        if propagation:
            options["propagationPolicy"] = propagation
        body = _encode({"kind": "DeleteOptions", "apiVersion": "v1", **options})
        await self.session.call("DELETE", resource.path(namespace, name), body=body)

    async def bind(
        self, namespace: str, pod: str, node: str, *, uid: str = "", annotations: Mapping[str, str] | None = None
    ) -> None:
        """Put a pod on a node, for good; with a uid only this very pod. Annotations are added to the pod."""
        about: dict[str, Any] = {"name": pod, "namespace": namespace}
        if uid:
            about["uid"] = uid
        if annotations:
            about["annotations"] = annotations
        binding = {"apiVersion": "v1", "kind": "Binding", "metadata": about, "target": {"kind": "Node", "name": node}}
        await self.session.call("POST", PODS.path(namespace, pod, "binding"), body=_encode(binding))

    async def evict(self, namespace: str, pod: str, *, uid: str = "", grace: int | None = None) -> None:
        """Delete a pod if its disruption budgets allow it. If not, that is a 429, and not tried again by itself.

        Does not wait behind other writes: room is needed, or a node has too little of it.
        """
        eviction: dict[str, Any] = {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"name": pod, "namespace": namespace},
        }
        options = _delete_options(uid, "", grace)
        if options:
            eviction["deleteOptions"] = options
        path = PODS.path(namespace, pod, "eviction")
        await self.session.call("POST", path, body=_encode(eviction), patient=False, urgent=True)


def _understood(decoder: Decoder[T], content: bytes | Raw) -> T:
    """Decode a response. A body that is not JSON did not come from a Kubernetes API."""
    try:
        return decoder.decode(content)
    except msgspec.DecodeError as error:
        raise UnreachableError(f"the response is not valid for the Kubernetes API: {error}") from None


def _decoded(resource: Resource[T], content: bytes) -> T:
    try:
        return resource.decode(content)
    except msgspec.DecodeError as error:
        raise UnreachableError(f"the response is not valid for the Kubernetes API: {error}") from None


def _delete_options(uid: str, revision: str, grace: int | None) -> dict[str, Any]:
    options: dict[str, Any] = {}
    conditions = {"uid": uid, "resourceVersion": revision}
    if uid or revision:
        options["preconditions"] = {name: value for name, value in conditions.items() if value}
    if grace is not None:
        options["gracePeriodSeconds"] = grace
    return options
