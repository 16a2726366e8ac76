"""How both clients ask for lists and watches: the size of a page, how long a watch lasts, and the next query."""

from __future__ import annotations

import random
from collections.abc import Mapping

from pumice.kube.refusals import RefusedError

PAGE_SIZE = 500
"""Objects that are asked for at once."""
WATCH_SECONDS = (300, 600)
"""A watch ends by itself somewhere in here, so that load finds its way to a new server."""
SILENCE_SECONDS = 150.0
"""A server sends a bookmark about once a minute: without any for so long, the watch is lost."""


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
        """Whether the next page is the first: what came before it is void."""
        return not self._token

    def query(self) -> dict[str, str]:
        """What to ask for next."""
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

    def restart(self, error: RefusedError) -> bool:
        """Begin again in one piece if the continue token has expired; False if the error is another one."""
        if not (error.expired and self._token):
            return False
        self._token, self._size = "", 0
        return True


def watch_query(query: Mapping[str, str] | None, revision: str) -> dict[str, str]:
    """What to ask for to be told what happens after a revision."""
    return {
        **(query or {}),
        "watch": "1",
        "allowWatchBookmarks": "true",
        "resourceVersion": revision,
        "timeoutSeconds": str(random.randint(*WATCH_SECONDS)),
    }
