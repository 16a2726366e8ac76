"""A load client for any Kubernetes API, light enough to share two cores with the server it measures.

It uses raw HTTP/1.1 over asyncio transports: requests are prepared bytes, and of responses only status and end are
read. It runs in its own process; each command prints one JSON document.

python -m benchmarks.apiserver_load create URL --namespace NS --count 1000 --in-flight 16      (TOKEN in $API_TOKEN)
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import ssl
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import click
import yaml

WORKLOAD = yaml.safe_load((Path(__file__).parent / "workloads" / "api.yaml").read_text())
POD = WORKLOAD["pod"]


class Answers(asyncio.Protocol):
    """One connection with one request in flight: resolves to status and body when the answer is complete."""

    def __init__(self) -> None:
        self.buffer = bytearray()
        self.waiting: asyncio.Future[tuple[int, bytes]] | None = None
        self.body_starts = 0
        self.length = -1

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    def connection_lost(self, exc: Exception | None) -> None:
        if self.waiting and not self.waiting.done():
            self.waiting.set_exception(exc or ConnectionError("the server closed the connection"))

    def ask(self, request: bytes) -> asyncio.Future[tuple[int, bytes]]:
        self.waiting = asyncio.get_running_loop().create_future()
        self.transport.write(request)
        return self.waiting

    def data_received(self, data: bytes) -> None:
        self.buffer += data
        if not self.body_starts:
            end = self.buffer.find(b"\r\n\r\n")
            if end < 0:
                return
            self.body_starts = end + 4
            head = self.buffer[:end].lower()
            at = head.find(b"\r\ncontent-length:")
            self.length = int(head[at + 17 :].split(b"\r\n", 1)[0]) if at >= 0 else -1
        if self.length >= 0:
            if len(self.buffer) < self.body_starts + self.length:
                return
        elif not self.buffer.endswith(b"0\r\n\r\n"):
            return
        status, body = int(self.buffer[9:12]), bytes(self.buffer[self.body_starts :])
        self.buffer.clear()
        self.body_starts = 0
        assert self.waiting is not None
        self.waiting.set_result((status, body))


class Events(asyncio.Protocol):
    """One watch: records the time of each event, and reports when all expected events have arrived.

    A server may end the watch of a slow client. The watch then continues from its last revision and counts restarts.
    """

    def __init__(self, request: Callable[[str], bytes], expected: int, done: Callable[[], None]) -> None:
        self.request = request
        self.expected = expected
        self.done = done
        self.times: list[float] = []
        self.resumed = 0
        self.started = asyncio.get_running_loop().create_future()
        self.head: bytes | None = b""  # the part of the response head read so far; None after it
        self.tail = b""
        self.recent = (b"", b"")  # the last two reads: they hold the last event's revision

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport  # kept: a TLS transport without a reference stops reading
        transport.write(self.request(""))

    def data_received(self, data: bytes) -> None:
        now = time.monotonic()
        if self.head is not None:
            head, found, data = (self.head + data).partition(b"\r\n\r\n")
            if not found:
                self.head = head
                return
            self.head = None
            if not self.started.done():
                self.started.set_result(int(head[9:12]))
        # An event ends with a bare newline; those of the chunks' headers follow a carriage return.
        seen = data.count(b"\n") - data.count(b"\r\n") - (self.tail.endswith(b"\r") and data.startswith(b"\n"))
        self.recent = (self.recent[1], data)
        self.tail = data[-7:] if len(data) >= 7 else (self.tail + data)[-7:]
        if seen:
            before = len(self.times)
            self.times.extend([now] * seen)
            if before < self.expected <= len(self.times):
                self.done()
        if self.tail.endswith(b"\r\n0\r\n\r\n") and len(self.times) < self.expected:
            self._resume()

    def _resume(self) -> None:
        whole = re.sub(rb"\r\n[0-9a-f]+\r\n", b"", b"".join(self.recent))
        revision = re.findall(rb'"resourceVersion":"(\d+)"', whole)[-1].decode()
        self.resumed += 1
        self.head, self.tail = b"", b""
        self.transport.write(self.request(f"&resourceVersion={revision}"))


class Server:
    """The target of the requests."""

    def __init__(self, url: str) -> None:
        place = urlsplit(url)
        self.host, self.port = place.hostname or "", place.port or 0
        self.tls: ssl.SSLContext | None = None
        if place.scheme == "https":
            self.tls = ssl.create_default_context()
            self.tls.check_hostname = False
            self.tls.verify_mode = ssl.CERT_NONE
        self.token = os.environ.get("API_TOKEN", "")

    def request(self, method: str, path: str, document: Any = None) -> bytes:
        body = b"" if document is None else json.dumps(document, separators=(",", ":")).encode()
        head = (
            f"{method} {path} HTTP/1.1\r\nHost: {self.host}:{self.port}\r\nAuthorization: Bearer {self.token}\r\n"
            f"Accept: application/json\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        )
        return head.encode() + body

    async def connect(self) -> Answers:
        loop = asyncio.get_running_loop()
        _, protocol = await loop.create_connection(Answers, self.host, self.port, ssl=self.tls)
        return protocol

    async def spread(self, requests: Iterator[bytes], in_flight: int) -> dict[str, float]:
        """Carry out all requests, so many at a time; when that began, and the seconds it took."""
        connections = [await self.connect() for _ in range(in_flight)]

        async def drain(connection: Answers) -> None:
            for request in requests:
                status, body = await connection.ask(request)
                if status not in (200, 201):
                    raise click.ClickException(f"{status}: {body[:500]!r}")

        start = time.monotonic()
        await asyncio.gather(*map(drain, connections))
        return {"start": start, "seconds": time.monotonic() - start}


def pods(server: Server, namespace: str, count: int) -> Iterator[bytes]:
    path = f"/api/v1/namespaces/{namespace}/pods"
    template = server.request("POST", path, {**POD, "metadata": {"name": "pod-00000000", **POD["metadata"]}})
    for number in range(count):
        yield template.replace(b"pod-00000000", b"pod-%08d" % number)


def bindings(server: Server, namespace: str, count: int) -> Iterator[bytes]:
    path = f"/api/v1/namespaces/{namespace}/pods/pod-00000000/binding"
    body = {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": "pod-00000000"},
        "target": {"kind": "Node", "name": "elsewhere"},
    }
    template = server.request("POST", path, body)
    for number in range(count):
        yield template.replace(b"pod-00000000", b"pod-%08d" % number)


@click.group()
def main() -> None:
    """Put load on an API server."""


def _say(figures: dict[str, Any]) -> None:
    click.echo(json.dumps(figures))


@main.command()
@click.argument("url")
@click.option("--namespace", required=True)
def namespace(url: str, namespace: str) -> None:
    """Create a namespace."""
    server = Server(url)
    document = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}
    asyncio.run(server.spread(iter([server.request("POST", "/api/v1/namespaces", document)]), 1))


@main.command()
@click.argument("url")
@click.option("--namespace", required=True)
@click.option("--count", type=int, required=True)
@click.option("--in-flight", type=int, required=True)
def create(url: str, namespace: str, count: int, in_flight: int) -> None:
    """Create pods."""
    server = Server(url)
    _say(asyncio.run(server.spread(pods(server, namespace, count), in_flight)))


@main.command()
@click.argument("url")
@click.option("--namespace", required=True)
@click.option("--count", type=int, required=True)
@click.option("--in-flight", type=int, required=True)
def bind(url: str, namespace: str, count: int, in_flight: int) -> None:
    """Bind the pods that ``create`` created."""
    server = Server(url)
    _say(asyncio.run(server.spread(bindings(server, namespace, count), in_flight)))


@main.command()
@click.argument("url")
@click.option("--namespace", required=True)
@click.option("--count", type=int, required=True)
@click.option("--milliseconds", type=float, required=True)
def pace(url: str, namespace: str, count: int, milliseconds: float) -> None:
    """Create pods one after the other at a fixed interval; prints when each request was sent."""
    server = Server(url)

    async def run() -> list[float]:
        connection, sent = await server.connect(), []
        start = time.monotonic()
        for number, request in enumerate(pods(server, namespace, count)):
            await asyncio.sleep(max(0, start + number * milliseconds / 1000 - time.monotonic()))
            sent.append(time.monotonic())
            await connection.ask(request)
        return sent

    _say({"sent": asyncio.run(run())})


@main.command()
@click.argument("url")
@click.option("--namespace", required=True)
@click.option("--watchers", type=int, required=True)
@click.option("--count", type=int, required=True)
def watch(url: str, namespace: str, watchers: int, count: int) -> None:
    """Watch pods with many clients; prints "ready", then when the last client had all events, and their times."""
    server = Server(url)

    def request(more: str) -> bytes:
        return server.request("GET", f"/api/v1/namespaces/{namespace}/pods?watch=1{more}")

    async def run() -> list[Events]:
        loop, finished, left = asyncio.get_running_loop(), asyncio.Event(), watchers

        def one_done() -> None:
            nonlocal left
            left -= 1
            if not left:
                finished.set()

        watches = []
        for _ in range(watchers):
            _, watching = await loop.create_connection(
                lambda: Events(request, count, one_done), server.host, server.port, ssl=server.tls
            )
            watches.append(watching)
        # The real server sends the response head at once; the embedded server must do so too.
        statuses = await asyncio.gather(*(watching.started for watching in watches))
        if set(statuses) != {200}:
            raise click.ClickException(f"the watches were answered with {sorted(set(statuses))}")
        print("ready", flush=True)
        try:
            await asyncio.wait_for(finished.wait(), 120)
        except TimeoutError:
            fewest = min(len(watching.times) for watching in watches)
            raise click.ClickException(f"one watch saw {fewest} of {count} events in two minutes") from None
        return watches

    watches = asyncio.run(run())
    _say({"times": [w.times[:count] for w in watches], "resumed": sum(w.resumed for w in watches)})


@main.command("list")
@click.argument("url")
@click.option("--namespace", required=True)
@click.option("--expect", type=int, required=True)
@click.option("--page", type=int, default=0)
@click.option("--times", type=int, required=True)
def list_pods(url: str, namespace: str, expect: int, page: int, times: int) -> None:
    """List pods, at once or in pages; prints the time to the last byte."""
    server = Server(url)
    path = f"/api/v1/namespaces/{namespace}/pods"

    async def once(connection: Answers) -> tuple[float, int]:
        start, size, token, limit = time.monotonic(), 0, "", f"?limit={page}" if page else ""
        while True:
            more = f"&continue={token}" if token else ""
            status, body = await connection.ask(server.request("GET", path + limit + more))
            if status != 200:
                raise click.ClickException(f"{status}: {body[:500]!r}")
            size += len(body)
            token = _continue(body) if page else ""
            if not token:
                return time.monotonic() - start, size

    async def run() -> list[tuple[float, int]]:
        connection = await server.connect()
        await connection.ask(server.request("GET", f"{path}?limit=1"))
        return [await once(connection) for _ in range(times)]

    measured = asyncio.run(run())
    if any(size < expect * 500 for _, size in measured):
        raise click.ClickException(f"too little for {expect} pods: {[size for _, size in measured]} bytes")
    _say({"seconds": statistics.median(s for s, _ in measured), "bytes": measured[0][1]})


def _continue(body: bytes) -> str:
    """The token of the next page, wherever the metadata is, without decoding the items."""
    at = body.find(b'"continue":"')
    return body[at + 12 : body.index(b'"', at + 12)].decode() if at >= 0 else ""


if __name__ == "__main__":
    sys.exit(main())
