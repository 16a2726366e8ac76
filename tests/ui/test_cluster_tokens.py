"""The cluster's own authentication: whose token it is, and what that user may see."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from pumice.kube.client.api_errors import UnreachableError
from pumice.ui.cluster_tokens import ClusterTokens
from pumice.ui.http_errors import UnauthorizedError, UnavailableError
from pumice.ui.viewer import EVERYTHING, Viewer, ViewerScope

Document = dict[str, Any]


class Reviews:
    """An API that knows tokens, and what each user may list: resources by namespace, empty for all."""

    def __init__(self) -> None:
        self.tokens = {"of-admin": "admin", "of-viewer": "viewer"}
        self.rights: dict[str, set[tuple[str, str]]] = {
            "admin": {("queues", ""), ("nodes", ""), ("pods", ""), ("podgroups", "")},
            "viewer": {("queues", ""), ("pods", "a"), ("podgroups", "a"), ("podgroups", "b")},
        }
        self.asked = 0
        self.broken = False

    async def create(self, resource: Any, review: Document) -> Document:
        self.asked += 1
        await asyncio.sleep(0)
        if self.broken:
            raise UnreachableError("nobody there")
        spec = review["spec"]
        if resource.kind == "TokenReview":
            user = self.tokens.get(spec["token"])
            return {"status": {"authenticated": user is not None, "user": {"username": user, "groups": ["g"]}}}
        asked = spec["resourceAttributes"]
        assert (asked["verb"], spec["groups"]) == ("list", ["g"])
        rights = self.rights[spec["user"]]
        return {
            "status": {"allowed": bool({(asked["resource"], ""), (asked["resource"], asked["namespace"])} & rights)}
        }


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def tokens(reviews: Reviews, clock: Clock | None = None) -> ClusterTokens:
    return ClusterTokens(reviews, lambda: {"a", "b", "c"}, clock or Clock())  # type: ignore[arg-type]  # has its verb


def test_viewer_sees_what_its_user_may_list() -> None:
    known = tokens(Reviews())
    assert asyncio.run(known.viewer("of-admin")) == Viewer("admin", "cluster", EVERYTHING)
    only = ViewerScope(queues=True, nodes=False, namespaces=frozenset({"a"}))
    assert asyncio.run(known.viewer("of-viewer")) == Viewer("viewer", "cluster", only)


@pytest.mark.parametrize("token", ["", "forged", "x" * 20_000])
def test_unknown_token_is_refused(token: str) -> None:
    with pytest.raises(UnauthorizedError):
        asyncio.run(tokens(Reviews()).viewer(token))


def test_rights_are_asked_for_again_after_a_while() -> None:
    async def run() -> None:
        reviews, clock = Reviews(), Clock()
        known = tokens(reviews, clock)
        await asyncio.gather(*(known.viewer("of-admin") for _ in range(5)))
        assert reviews.asked == 5  # one token, four rights: viewers who come together ask once
        del reviews.tokens["of-admin"]
        assert (await known.viewer("of-admin")).name == "admin"
        clock.now += 61
        with pytest.raises(UnauthorizedError):
            await known.viewer("of-admin")

    asyncio.run(run())


def test_without_an_answer_nothing_is_shown() -> None:
    reviews = Reviews()
    reviews.broken = True
    with pytest.raises(UnavailableError, match="nobody there"):
        asyncio.run(tokens(reviews).viewer("of-admin"))
