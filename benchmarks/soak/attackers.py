"""Clients that misbehave, one way after another: what they send is refused, and others do not notice."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Awaitable, Callable
from contextlib import suppress

HOST = "127.0.0.1"
CONFIG_MAPS = "/api/v1/namespaces/default/configmaps?dryRun=All"
PAUSE_SECONDS = 1.0
HALF_REQUESTS = 50


class Attackers:
    """Attack a server again and again."""

    def __init__(self, port: int) -> None:
        self._port = port
        self.attacks = 0

    async def run(self) -> None:
        """Attack until cancelled."""
        ways: list[Callable[[], Awaitable[None]]] = [
            self._half_requests,
            self._unread_answers,
            self._base_60,
            self._doubled_keys,
            self._deep_nesting,
            self._forged_continue,
            self._garbage,
        ]
        while True:
            for attack in ways:
                with suppress(OSError, asyncio.IncompleteReadError, TimeoutError):
                    async with asyncio.timeout(20):
                        await attack()
                self.attacks += 1
                await asyncio.sleep(PAUSE_SECONDS)

    async def _send(self, data: bytes, *, read: bool = True) -> asyncio.StreamWriter:
        reader, writer = await asyncio.open_connection(HOST, self._port)
        writer.write(data)
        await writer.drain()
        if read:
            await reader.readline()
        return writer

    async def _post(self, body: bytes, media: str = "application/json") -> None:
        head = (
            f"POST {CONFIG_MAPS} HTTP/1.1\r\nHost: {HOST}\r\nContent-Type: {media}\r\nContent-Length: {len(body)}\r\n"
        )
        (await self._send(head.encode() + b"\r\n" + body)).close()

    async def _half_requests(self) -> None:
        held = [await self._send(b"GET /api/v1/pods HT", read=False) for _ in range(HALF_REQUESTS)]
        await asyncio.sleep(PAUSE_SECONDS)
        for writer in held:
            writer.close()

    async def _unread_answers(self) -> None:
        request = f"GET /api/v1/pods HTTP/1.1\r\nHost: {HOST}\r\n\r\n".encode()
        writer = await self._send(request * 100, read=False)
        await asyncio.sleep(PAUSE_SECONDS)
        writer.close()

    async def _base_60(self) -> None:
        await self._post(b"a: 1" + b":59" * 200_000, "application/yaml")

    async def _doubled_keys(self) -> None:
        await self._post(b'{"data":{' + b",".join([b'"a":"b"'] * 100_000) + b"}}")

    async def _deep_nesting(self) -> None:
        await self._post(b"[" * 100_000)

    async def _forged_continue(self) -> None:
        token = base64.urlsafe_b64encode(b"[" * 20_000).decode()
        (
            await self._send(f"GET /api/v1/pods?limit=1&continue={token} HTTP/1.1\r\nHost: {HOST}\r\n\r\n".encode())
        ).close()

    async def _garbage(self) -> None:
        (await self._send(bytes(range(256)) * 100 + b"\r\n\r\n")).close()
