"""How both clients ask for lists and watches: the size of a page, how long a watch lasts, and the next query."""

from __future__ import annotations

from collections.abc import Mapping

from pumice.kube.client.api_errors import ApiError

PAGE_SIZE = 500
"""Page size of a list."""
WATCH_SECONDS = (300, 600)
"""Bounds of the timeout of a watch, in seconds. Watches end at random times, so that load moves to new servers."""
SILENCE_SECONDS = 150.0
"""Seconds without any event after which a watch counts as lost: a server sends a bookmark about once a minute."""


class ListPages:
    """The queries of a list in pages, one after another.

    The continue token of a page may expire before the next is asked for. Then the list begins again, in one piece: with
    pages it might never come to an end.
    """

    def __init__(self, query: Mapping[str, str] | None = None, size: int = PAGE_SIZE) -> None:
        self._query = dict(query or {})
        self._size = size
        self._token = ""

    @property
    def first(self) -> bool:
        """Whether the next page is the first one, so that earlier pages are void."""
        return not self._token

    def query(self) -> dict[str, str]:
        """The query for the next page."""
        asked = dict(self._query)
        if self._size:
            asked["limit"] = str(self._size)
        if self._token:
            asked["continue"] = self._token
        return asked

    def advance(self, token: str) -> bool:
        """A page has come, with this continue token; whether there is another."""
        self._token = token
        return bool(token)

    def restart(self, error: ApiError) -> bool:
        """Begin again in one piece if the continue token has expired; False if the error is another one."""
        if not (error.expired and self._token):
            return False
        self._token, self._size = "", 0
        return True


def watch_query(query: Mapping[str, str] | None, revision: str) -> dict[str, str]:
    """The query of a watch from a resourceVersion on."""
    import random  # slow to load, and lists need none

    return {
        **(query or {}),
        "watch": "1",
        "allowWatchBookmarks": "true",
        "resourceVersion": revision,
        "timeoutSeconds": str(random.randint(*WATCH_SECONDS)),
    }
