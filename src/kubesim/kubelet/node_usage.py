"""What pods on nodes that are not simulated really use: asked of the agents of these nodes."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from typing import Any

from kubesim.api.client import InProcessClient
from kubesim.api.status import ApiError
from kubesim.controllers.nodes.node_lifecycle import is_simulated
from kubesim.kubelet.node_logs import ask_node
from kubesim.registry.registry import Object

PATH = "/usage"
ANSWER_SECONDS = 10.0
LONGEST_ANSWER = 16 << 20


async def read_node_usage(api: InProcessClient) -> dict[str, Mapping[str, Any] | None]:
    """The report of each node that is not simulated; None: its agent does not answer."""
    nodes = [node for node in api.list("nodes") if not is_simulated(node, api.identity)]
    reports = await asyncio.gather(*(_ask(api, node) for node in nodes))
    return {node["metadata"]["name"]: report for node, report in zip(nodes, reports, strict=True)}


async def _ask(api: InProcessClient, node: Object) -> Mapping[str, Any] | None:
    try:
        async with asyncio.timeout(ANSWER_SECONDS):
            code, _, reader, writer = await ask_node(api, node, PATH)
            try:
                body = await reader.read(-1)
            finally:
                writer.close()
    except (ApiError, OSError, TimeoutError):
        return None
    if code != "200" or len(body) > LONGEST_ANSWER:
        return None
    try:
        report = json.loads(body)
    except ValueError:
        return None
    return report if isinstance(report, dict) else None
