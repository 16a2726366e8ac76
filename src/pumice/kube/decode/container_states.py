"""Containers that cannot start, as the status of their pod says: a missing image, a bad configuration, a crash loop.

The node has accepted such a pod, so for a scheduler it runs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

STARTING = frozenset({"", "ContainerCreating", "PodInitializing"})
"""Reasons for which a container waits while everything is well."""
STABLE_REASONS = {"ErrImagePull": "ImagePullBackOff"}
"""A kubelet that cannot pull an image reports the two in turn."""


@dataclass(frozen=True, slots=True)
class BlockedContainer:
    """A container that waits for a reason other than that its pod has just begun."""

    pod: str
    container: str
    reason: str
    message: str = ""

    def text(self) -> str:
        """Pod, container, reason and message."""
        detail = f": {self.message}" if self.message else ""
        return f"pod {self.pod}, container {self.container}: {self.reason}{detail}"

    def stable_text(self) -> str:
        """The same for a status: without the message, which changes with every attempt of the kubelet."""
        return f"pod {self.pod}, container {self.container}: {STABLE_REASONS.get(self.reason, self.reason)}"


def blocked_containers(pod: Mapping[str, Any]) -> Iterator[BlockedContainer]:
    """The containers of a pod that cannot start, init containers first; none if the pod is over or being deleted."""
    status, name = pod.get("status") or {}, pod["metadata"]["name"]
    if status.get("phase") in ("Succeeded", "Failed") or "deletionTimestamp" in pod["metadata"]:
        return
    for field in ("initContainerStatuses", "containerStatuses"):
        for entry in status.get(field) or ():
            waiting = (entry.get("state") or {}).get("waiting") or {}
            reason = waiting.get("reason") or ""
            if reason not in STARTING:
                message = waiting.get("message") or ""
                yield BlockedContainer(name, entry.get("name") or "", reason, _with_last_end(entry, message))


def _with_last_end(entry: Mapping[str, Any], message: str) -> str:
    """The message, and how the container ended last."""
    ended = (entry.get("lastState") or {}).get("terminated") or {}
    if not ended:
        return message
    reason = f" ({ended['reason']})" if ended.get("reason") else ""
    last = f"the last run ended with exit code {ended.get('exitCode', 0)}{reason}"
    return f"{message}; {last}" if message else last


def blocked_summary(found: Iterable[BlockedContainer], running: int) -> str:
    """How many of the pods that have a node cannot start a container."""
    blocked = list(found)
    pods = len({each.pod for each in blocked})
    several = "their containers" if pods > 1 else "its container" if len(blocked) == 1 else "its containers"
    number = f"{pods} of {running} running pods" if running > 1 else "its running pod"
    return f"{number} cannot start {several}"
