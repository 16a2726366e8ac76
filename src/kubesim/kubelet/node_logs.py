"""Logs of pods on nodes that are not simulated: asked of the node's own agent, as a kubelet is asked.

The Secret ``node-logs-NODE`` in ``kube-system`` holds the token that the agent wants, and the authority of its
certificate if it speaks TLS, or the path of its Unix socket if it is on the same machine. No other credential is sent:
whoever listens on an agent's port after it has ended learns nothing.
"""

from __future__ import annotations

import asyncio
from base64 import b64decode
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import TYPE_CHECKING
from urllib.parse import quote, urlencode

from kubebase.local_socket import connect_local
from kubesim.api import status
from kubesim.api.client import InProcessClient
from kubesim.controllers.nodes.node_lifecycle import is_simulated
from kubesim.kubelet.logs import LogOptions, chosen_container, container_entry
from kubesim.kubelet.node_template import internal_address
from kubesim.registry.registry import Object

if TYPE_CHECKING:
    import ssl

SECRET_NAMESPACE = "kube-system"
CONNECT_SECONDS = 10.0
CHUNK = 1 << 16
LONGEST_HEAD = 1 << 14


def real_node(api: InProcessClient, pod: Object) -> Object | None:
    """The node of a pod, if it exists and is not simulated."""
    node = api.read("nodes", "", pod["spec"].get("nodeName") or "")
    return node if node is not None and not is_simulated(node, api.identity) else None


async def open_node_log(
    api: InProcessClient, node: Object, pod: Object, options: LogOptions, *, follow: bool
) -> AsyncIterator[bytes]:
    """Ask a node for a log; the answer as it arrives. ``ApiError`` if there is none."""
    container = chosen_container(pod, options.container)
    name = pod["metadata"]["name"]
    if container_entry(pod, container) is None:
        raise status.bad_request(f'container "{container}" in pod "{name}" is waiting to start: ContainerCreating')
    code, where, reader, writer = await ask_node(api, node, _log_path(pod, container, options, follow=follow))
    if code != "200":
        words = (await reader.read(CHUNK)).decode(errors="replace")
        writer.close()
        if code == "400":
            raise status.bad_request(f'{words} in pod "{name}"')
        raise status.internal(f"node {where} answers {code}: {words}")
    return _body(reader, writer)


async def ask_node(
    api: InProcessClient, node: Object, path: str
) -> tuple[str, str, asyncio.StreamReader, asyncio.StreamWriter]:
    """Send a request to the agent of a node: the status code, the node in words, and the rest of the answer.

    ``ApiError`` if nobody answers.
    """
    secret = (api.read("secrets", SECRET_NAMESPACE, f"node-logs-{node['metadata']['name']}") or {}).get("data") or {}
    address = internal_address(node)
    port = (((node.get("status") or {}).get("daemonEndpoints") or {}).get("kubeletEndpoint") or {}).get("Port") or 0
    local = b64decode(secret.get("socket", "")).decode()
    where = f"{node['metadata']['name']} ({local or f'{address}:{port}'})"
    try:
        async with asyncio.timeout(CONNECT_SECONDS):
            if local:
                reader, writer = await connect_local(local, LONGEST_HEAD)
            else:
                tls = _tls_context(b64decode(secret["ca.crt"])) if "ca.crt" in secret else None
                reader, writer = await asyncio.open_connection(address, port, ssl=tls, limit=LONGEST_HEAD)
            writer.write(_request(path, b64decode(secret.get("token", "")).decode()))
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    except (OSError, TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError) as error:
        raise status.internal(f"node {where} does not answer: {str(error) or type(error).__name__}") from None
    return head.split(" ", 2)[1] if " " in head else "", where, reader, writer


async def _body(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> AsyncIterator[bytes]:
    try:
        with suppress(ConnectionError):  # the agent was killed: what it sent is shown
            while content := await reader.read(CHUNK):
                yield content
    finally:
        writer.close()


def _request(path: str, token: str) -> bytes:
    return f"GET {path} HTTP/1.1\r\nHost: node\r\nAuthorization: Bearer {token}\r\nConnection: close\r\n\r\n".encode()


def _log_path(pod: Object, container: str, options: LogOptions, *, follow: bool) -> str:
    about = pod["metadata"]
    query: dict[str, str] = {"uid": about["uid"]}
    flags = {"previous": options.previous, "timestamps": options.timestamps, "follow": follow}
    query |= {key: "true" for key, wanted in flags.items() if wanted}
    numbers = {"tailLines": options.tail_lines, "since": options.since, "limitBytes": options.limit_bytes}
    query |= {key: str(number) for key, number in numbers.items() if number is not None}
    parts = (quote(part, safe="") for part in (about["namespace"], about["name"], container))
    return f"/containerLogs/{'/'.join(parts)}?{urlencode(query)}"


def _tls_context(authority: bytes) -> ssl.SSLContext:
    import ssl

    return ssl.create_default_context(cadata=authority.decode())
