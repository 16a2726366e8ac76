"""The embedded API behind a guard that knows which tokens are good now, for tests of credentials that change."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Iterator
from unittest import mock

from kubesim.api import status
from kubesim.api.client import InProcessClient
from kubesim.http.connection import Request, Response
from kubesim.http.handler import RequestHandler
from tests.support import scripted_server


class Guard:
    """Lets requests in whose token is good."""

    def __init__(self, *good: str) -> None:
        self.good = set(good)
        self.seen: list[str] = []
        """The tokens that came, each once in a row."""
        self.refused = 0

    def check(self, request: Request) -> None:
        """Answer 401 to a token that is not good."""
        token = request.header("authorization").removeprefix("Bearer ")
        if self.seen[-1:] != [token]:
            self.seen.append(token)
        if token not in self.good:
            self.refused += 1
            raise status.unauthorized()

    @contextlib.asynccontextmanager
    async def serving(self, api: InProcessClient) -> AsyncIterator[str]:
        """An API that this guard stands before; gives the address."""
        http = RequestHandler(api)

        async def handle(request: Request) -> Response:
            return await http.handle(request)

        with self.everywhere():
            async with scripted_server.answering(handle) as address:
                yield address

    @contextlib.contextmanager
    def everywhere(self) -> Iterator[None]:
        """Stand before every API of this process."""
        with mock.patch.object(RequestHandler, "_authenticate", lambda _, request: self.check(request)):
            yield
