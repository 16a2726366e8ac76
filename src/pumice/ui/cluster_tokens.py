"""The cluster's own authentication: a viewer shows a token of the cluster, and sees what that user may read.

The API server says whose token it is (TokenReview), and what that user may list (SubjectAccessReview): queues, nodes,
and the pods and podgroups of all namespaces or of single ones. Answers count for a while, so that a right that was
taken away ends within ``FRESH_SECONDS``.
"""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Callable, Collection
from hashlib import blake2b
from typing import Any

from pumice.kube.client.api import Api
from pumice.kube.client.api_errors import ApiError, UnreachableError
from pumice.kube.resources import NODES, POD_GROUPS, PODS, QUEUES, Resource
from pumice.ui.http_errors import UnauthorizedError, UnavailableError
from pumice.ui.viewer import EVERYTHING, Viewer, ViewerScope

FRESH_SECONDS = 60.0
KEPT_VIEWERS = 1_000
LONGEST_TOKEN = 16 << 10
ABREAST = 8
"""Reviews that are under way at a time for one viewer."""

Document = dict[str, Any]

TOKEN_REVIEWS: Resource[Document] = Resource(
    "authentication.k8s.io/v1", "tokenreviews", "TokenReview", dict, namespaced=False
)
ACCESS_REVIEWS: Resource[Document] = Resource(
    "authorization.k8s.io/v1", "subjectaccessreviews", "SubjectAccessReview", dict, namespaced=False
)


class ClusterTokens:
    """Asks the cluster; ``namespaces`` are those that have something to show."""

    def __init__(
        self, api: Api, namespaces: Callable[[], Collection[str]], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._api = api
        self._namespaces = namespaces
        self._clock = clock
        self._known: OrderedDict[bytes, tuple[float, Viewer]] = OrderedDict()
        self._asking: dict[bytes, asyncio.Task[Viewer]] = {}

    async def viewer(self, token: str) -> Viewer:
        """The user with this token, and what the user may see. Raises ``UnauthorizedError``."""
        if not token or len(token) > LONGEST_TOKEN:
            raise UnauthorizedError("a token of the cluster is required")
        key = blake2b(token.encode(errors="replace"), digest_size=32).digest()  # tokens themselves are not kept
        until, viewer = self._known.get(key, (0.0, None))
        if viewer is not None and self._clock() < until:
            return viewer
        task = self._asking.get(key)
        if task is None:
            task = self._asking[key] = asyncio.create_task(self._ask(key, token))
            task.add_done_callback(lambda _: self._asking.pop(key, None))
        return await asyncio.shield(task)

    async def _ask(self, key: bytes, token: str) -> Viewer:
        try:
            user = await self._user(token)
            viewer = Viewer(str(user.get("username") or ""), "cluster", await self._scope(user))
        except (ApiError, UnreachableError) as error:
            raise UnavailableError(f"the cluster did not review the token: {error}") from None
        self._known[key] = (self._clock() + FRESH_SECONDS, viewer)
        self._known.move_to_end(key)
        while len(self._known) > KEPT_VIEWERS:
            self._known.popitem(last=False)
        return viewer

    async def _user(self, token: str) -> Document:
        review = await self._review(TOKEN_REVIEWS, {"token": token})
        if not review.get("authenticated"):
            raise UnauthorizedError("the cluster does not accept this token")
        found: Document = review.get("user") or {}
        return found

    async def _scope(self, user: Document) -> ViewerScope:
        queues, nodes, everywhere = await asyncio.gather(
            self._may_list(user, QUEUES, ""), self._may_list(user, NODES, ""), self._reads_namespace(user, "")
        )
        if everywhere:
            return EVERYTHING if queues and nodes else ViewerScope(queues, nodes)
        turns = asyncio.Semaphore(ABREAST)

        async def readable(namespace: str) -> bool:
            async with turns:
                return await self._reads_namespace(user, namespace)

        asked = sorted(self._namespaces())
        answers = await asyncio.gather(*map(readable, asked))
        return ViewerScope(queues, nodes, frozenset(name for name, yes in zip(asked, answers, strict=True) if yes))

    async def _reads_namespace(self, user: Document, namespace: str) -> bool:
        """Whether a user may list the jobs of a namespace with their pods; an empty one stands for all."""
        return await self._may_list(user, POD_GROUPS, namespace) and await self._may_list(user, PODS, namespace)

    async def _may_list(self, user: Document, resource: Resource[Any], namespace: str) -> bool:
        attributes = {
            "verb": "list",
            "group": resource.api_version.rpartition("/")[0],
            "resource": resource.plural,
            "namespace": namespace,
        }
        spec = {
            "resourceAttributes": attributes,
            "user": user.get("username"),
            "uid": user.get("uid") or "",
            "groups": user.get("groups") or [],
            "extra": user.get("extra") or {},
        }
        return bool((await self._review(ACCESS_REVIEWS, spec)).get("allowed"))

    async def _review(self, resource: Resource[Document], spec: Document) -> Document:
        review = {"apiVersion": resource.api_version, "kind": resource.kind, "spec": spec}
        answer = await self._api.create(resource, review)
        found: Document = answer.get("status") or {}
        return found
