"""Report in the conditions of a podgroup that containers of its running pods cannot start.

To the scheduler such a pod runs. The condition ``ContainersBlocked`` names the reason of the first container
(``ImagePullBackOff``, ``CrashLoopBackOff``) and is removed once all containers start. The scheduler replaces the list
of conditions when its own condition changes; the condition is then added again.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection
from typing import Final

from kubebase.timestamps import stamp
from kubebase.work_queue import WorkQueue
from pumice.controllers.manager import SharedInformers
from pumice.controllers.podgroups import is_ours
from pumice.controllers.retry_policy import RETRY_POLICY
from pumice.kube.client.api import Api
from pumice.kube.client.api_errors import ApiError
from pumice.kube.decode.container_states import STABLE_REASONS, BlockedContainer, blocked_containers, blocked_summary
from pumice.kube.decode.convert import SCHEDULERS
from pumice.kube.decode.pods import GROUP_NAME
from pumice.kube.resources import POD_GROUPS, PODS, Document
from pumice.kube.watch.change_queue import Change

CONTAINERS_BLOCKED: Final = "ContainersBlocked"


class PodGroupConditions:
    """Keeps the condition. Keys name podgroups."""

    def __init__(
        self,
        api: Api,
        informers: SharedInformers,
        *,
        schedulers: Collection[str] = SCHEDULERS,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._api = api
        self._schedulers = schedulers
        self._clock = clock
        self._groups = informers.all(POD_GROUPS)
        informers.all(PODS)  # their changes are told
        self._bound: dict[str, dict[str, tuple[BlockedContainer, ...]]] = {}
        """The pods with a node by podgroup, each with its containers that cannot start."""
        self.work_queue = WorkQueue(self._reconcile, workers=1, retries=RETRY_POLICY)

    def on_change(self, change: Change[Document]) -> None:
        """Follow the pods; queue podgroups whose condition may have to change."""
        if change.resource == PODS.name:
            before, after = self._group_of(change.old), self._group_of(change.new)
            if before is not None and before != after:
                self._forget(before, change.key)
            if after is not None and change.new is not None:
                self._note(after, change.key, change.new)
        elif change.resource == POD_GROUPS.name and change.new is not None and self._may_differ(change.key, change.new):
            self.work_queue.add(change.key)

    def _note(self, group: str, pod: str, document: Document) -> None:
        """Remember a pod; the summary changes with the number of pods too, while a container is blocked."""
        was_blocked, pods = self._is_blocked(group), self._bound.setdefault(group, {})
        blocked = tuple(blocked_containers(document))
        if pods.get(pod) != blocked:
            pods[pod] = blocked
            if blocked or was_blocked:
                self.work_queue.add(group)

    def _forget(self, group: str, pod: str) -> None:
        was_blocked, pods = self._is_blocked(group), self._bound.get(group, {})
        pods.pop(pod, None)
        if was_blocked:
            self.work_queue.add(group)
        if not pods:
            self._bound.pop(group, None)

    def _group_of(self, pod: Document | None) -> str | None:
        """The podgroup of a pod that runs as far as the scheduler can tell; None for other pods."""
        if pod is None or not pod["spec"].get("nodeName") or not is_ours(pod, self._schedulers):
            return None
        about = pod["metadata"]
        name = (about.get("annotations") or {}).get(GROUP_NAME)
        return f"{about['namespace']}/{name}" if name else None

    def _is_blocked(self, group: str) -> bool:
        return any(self._bound.get(group, {}).values())

    def _may_differ(self, key: str, group: Document) -> bool:
        return self._is_blocked(key) or _present(group) is not None

    async def _reconcile(self, key: str) -> None:
        known = self._groups.get(key)
        if known is None:
            return
        group = known.object
        wanted, present = self._condition(key), _present(group)
        if _said(wanted) == _said(present):
            return
        about = group["metadata"]
        conditions = [one for one in _conditions(group) if one.get("type") != CONTAINERS_BLOCKED]
        patch = {
            "metadata": {"uid": about["uid"], "resourceVersion": about["resourceVersion"]},
            "status": {"conditions": [*conditions, *([wanted] if wanted is not None else [])]},
        }
        try:
            await self._api.patch(POD_GROUPS.raw, about["name"], patch, about["namespace"])
        except ApiError as error:
            if not (error.not_found or error.conflict):  # a change follows, and with it another attempt
                raise

    def _condition(self, key: str) -> Document | None:
        pods = self._bound.get(key, {})
        found = [one for _, blocked in sorted(pods.items()) for one in blocked]
        if not found:
            return None
        now = self._clock()
        return {
            "type": CONTAINERS_BLOCKED,
            "status": "True",
            "reason": STABLE_REASONS.get(found[0].reason, found[0].reason),
            "message": f"{blocked_summary(found, len(pods))}: {found[0].stable_text()}",
            "lastTransitionTime": stamp(now),
            "transitionID": str(int(now * 1e9)),
        }


def _conditions(group: Document) -> list[Document]:
    found = (group.get("status") or {}).get("conditions")
    return [one for one in found if isinstance(one, dict)] if isinstance(found, list) else []


def _present(group: Document) -> Document | None:
    return next((one for one in _conditions(group) if one.get("type") == CONTAINERS_BLOCKED), None)


def _said(condition: Document | None) -> tuple[object, ...] | None:
    return None if condition is None else tuple(condition.get(name) for name in ("status", "reason", "message"))
