"""Serves the logs of this node's containers to the API server, under the path that kubelets have for it, and their use.

Only the API server knows the token: the agent keeps it in a Secret of ``kube-system``. To an API server of the same
user on the same machine the agent listens on a Unix socket in its folder, whose path is in the Secret. Otherwise it
listens on a port: in plain on loopback; at any other address, and on a machine that several people share, with TLS and
a certificate of its own, whose authority is in the same Secret, so that nobody else who listens there is taken for it.
"""

from __future__ import annotations

import asyncio
import json
import os
from _operator import _compare_digest  # as hmac has it, which would load OpenSSL, 4 MB
from base64 import b64encode
from collections.abc import Mapping
from contextlib import aclosing, suppress
from pathlib import Path
from urllib.parse import parse_qsl, unquote, urlsplit

from pumice.agent.log_certificate import make_tls_context
from pumice.agent.log_reader import LogQuery, NoLogError, log_path, read_log
from pumice.agent.pod_folders import PodFolder, PodFolders
from pumice.agent.pod_usage import UsageMeter
from pumice.kube.client.api import Api
from pumice.kube.client.api_errors import ApiError
from pumice.kube.resources import SECRETS, Document

SECRET_NAMESPACE = "kube-system"
PATH = "/containerLogs/"
USAGE_PATH = "/usage"
REQUEST_SECONDS = 10.0
LONGEST_HEAD = 16 * 1024
LOOPBACK = ("127.0.0.1", "::1")


def secret_name(node: str) -> str:
    """The Secret with which an API server reads the logs of a node."""
    return f"node-logs-{node}"


class LogServer:
    """Answers as long as it is open."""

    def __init__(
        self, folders: PodFolders, address: str, *, always_tls: bool = False, local_socket: Path | None = None
    ) -> None:
        self._folders = folders
        self._meter = UsageMeter(folders)
        self._address = address
        self._local_socket = local_socket
        self._is_plain = address in LOOPBACK and not always_tls
        self._token = os.urandom(32).hex()
        self._authority = b""
        self._server: asyncio.Server | None = None
        self.port = 0

    async def open(self) -> None:
        """Listen on the socket, or on a free port."""
        if self._local_socket is not None:
            self._local_socket.unlink(missing_ok=True)  # of an agent before this one
            self._server = await asyncio.start_unix_server(self._serve, self._local_socket, limit=LONGEST_HEAD)
            self._local_socket.chmod(0o600)  # in a folder that is the agent's alone
            return
        context = None
        if not self._is_plain:
            context, self._authority = make_tls_context(self._address)
        self._server = await asyncio.start_server(
            self._serve, self._address, 0, ssl=context, limit=LONGEST_HEAD, start_serving=True
        )
        self.port = self._server.sockets[0].getsockname()[1]

    async def publish(self, api: Api, node: str) -> None:
        """Give the API server what it needs to be answered."""
        values = {"token": self._token.encode()} | ({"ca.crt": self._authority} if self._authority else {})
        values |= {"socket": os.fsencode(self._local_socket)} if self._local_socket is not None else {}
        secret: Document = {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": secret_name(node), "namespace": SECRET_NAMESPACE},
            "data": {key: b64encode(value).decode() for key, value in values.items()},
        }
        try:
            await api.create(SECRETS, secret)
        except ApiError as error:
            if not error.already_exists:
                raise
            await api.update(SECRETS, secret)

    def close(self) -> None:
        """Accept no more requests."""
        if self._server is not None:
            self._server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError, TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            async with asyncio.timeout(REQUEST_SECONDS):
                head = await reader.readuntil(b"\r\n\r\n")
            await self._answer(head.decode("latin-1").split("\r\n"), writer)
        with suppress(ConnectionError):
            writer.close()
            await writer.wait_closed()

    async def _answer(self, head: list[str], writer: asyncio.StreamWriter) -> None:
        method, _, target = head[0].partition(" ")
        headers = {name.strip().lower(): value.strip() for name, _, value in (line.partition(":") for line in head[1:])}
        given = headers.get("authorization", "").encode("latin-1")
        if not _compare_digest(given, f"Bearer {self._token}".encode()):
            return await _send(writer, "401 Unauthorized", "a token is required")
        url = urlsplit(target.partition(" ")[0])
        if method == "GET" and url.path == USAGE_PATH:
            return await _send(writer, "200 OK", json.dumps(await self._meter.measure()))
        if method != "GET" or not url.path.startswith(PATH):
            return await _send(writer, "404 Not Found", f"no such path: {url.path}")
        query = dict(parse_qsl(url.query))
        container = unquote(url.path.rpartition("/")[2])
        try:
            folder = self._find(query.get("uid", ""), container)
            log_query = parse_query(query)
            path = log_path(folder.path, container, previous=log_query.previous)
        except (NoLogError, ValueError) as error:
            return await _send(writer, "400 Bad Request", str(error))
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nConnection: close\r\n\r\n")
        number = int(path.stem)
        blocks = read_log(path, log_query, is_over=lambda: is_run_over(folder, container, number))
        async with aclosing(blocks):
            async for block in blocks:
                writer.write(block)
                await writer.drain()
        return None

    def _find(self, uid: str, container: str) -> PodFolder:
        """The folder of a pod that has this container; names from outside never become paths unchecked."""
        folder = self._folders.get(uid)
        if folder is None or folder.plan is None:
            raise NoLogError("the pod has no log on this node")
        if container not in {each["name"] for each in folder.plan["containers"]}:
            raise NoLogError(f"container {container} is not valid for pod {folder.plan['name']}")
        return folder


def parse_query(query: Mapping[str, str]) -> LogQuery:
    """The part of a log that a query asks for. ``ValueError`` for what is not a number."""
    return LogQuery(
        previous=query.get("previous") == "true",
        timestamps=query.get("timestamps") == "true",
        tail=int(query["tailLines"]) if "tailLines" in query else None,
        since=float(query["since"]) if "since" in query else None,
        limit=int(query["limitBytes"]) if "limitBytes" in query else None,
        follow=query.get("follow") == "true",
    )


def is_run_over(folder: PodFolder, container: str, number: int) -> bool:
    """Whether a run of a container has ended, or its pod is gone."""
    record = folder.record()
    if record is None:
        return not folder.path.exists()
    found = next(each for each in record["containers"] if each["name"] == container)
    return record["finished"] or found["restarts"] != number or found["state"] == "terminated"


async def _send(writer: asyncio.StreamWriter, status: str, message: str) -> None:
    body = message.encode()
    head = f"HTTP/1.1 {status}\r\nContent-Type: text/plain\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    writer.write(head.encode() + body)
    await writer.drain()
