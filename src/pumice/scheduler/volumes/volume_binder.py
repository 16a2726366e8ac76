"""Binds the volumes of a pod before the pod itself: writes the plan to the API and waits until all claims are bound.

As kube-scheduler does, a claim that needs a new volume gets the annotation ``selected-node``, and a volume that exists
gets the claim in its ``claimRef``; the controllers of the cluster do the rest. A provisioner that fails removes the
annotation. Each pod waits on its own, so slow storage does not delay other pods.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, Protocol, TypeVar

from pumice.kube.client.api import Api
from pumice.kube.client.api_errors import ApiError, UnreachableError
from pumice.kube.decode.storage import BOUND_BY_CONTROLLER, SELECTED_NODE, Claim
from pumice.kube.resources import CLAIMS, VOLUMES
from pumice.scheduler.volumes.volume_cache import VolumeCache
from pumice.scheduler.volumes.volume_plan import VolumePlan

log = logging.getLogger(__name__)

BIND_SECONDS = 600.0
"""How long the claims of a pod may take to be bound, as in kube-scheduler."""

T = TypeVar("T")


class VolumeBindingError(Exception):
    """The volumes of a pod could not be bound on its node; says why."""


class Retry(Protocol):
    """Repeats a call until the API answers."""

    def __call__(self, key: str, ask: Callable[[], Awaitable[T]], /) -> Awaitable[T]:
        """The answer."""


class VolumeBinder:
    """Carries out the volume plans of pods."""

    def __init__(self, api: Api, cache: VolumeCache, retry: Retry) -> None:
        self._api = api
        self._cache = cache
        self._retry = retry
        self._stopped = False

    def stop(self) -> None:
        """Wait for no claim any more: the scheduler that comes next finds what was written."""
        self._stopped = True
        self._cache.wake()

    async def bind(self, pod: str, plan: VolumePlan, is_wanted: Callable[[], bool]) -> bool:
        """Bind the claims of a pod. False: the pod is no longer to be bound. Raises ``VolumeBindingError``."""
        try:
            if plan.conflict:
                raise VolumeBindingError(plan.conflict)
            await self._write(pod, plan)
            return await self._wait_until_bound(pod, plan, is_wanted)
        except VolumeBindingError:
            await self._unselect(plan)
            raise
        finally:
            self._cache.release(plan)

    # ---- writes -------------------------------------------------------------------------------------------

    async def _write(self, pod: str, plan: VolumePlan) -> None:
        claims = {claim.key: claim for claim in plan.claims}
        try:
            for key, volume in plan.bindings.items():
                await self._retry(pod, partial(self._reserve, claims[key], volume))
            for key in plan.provisions:
                await self._retry(pod, partial(self._select_node, claims[key], plan.node))
        except ApiError as error:
            raise VolumeBindingError(str(error)) from None

    async def _reserve(self, claim: Claim, name: str) -> None:
        """Write a claim into the claimRef of a volume."""
        volume = self._cache.storage.volumes.get(name)
        if volume is None:
            raise VolumeBindingError(f'persistentvolume "{name}" not found')
        namespace, _, claim_name = claim.key.partition("/")
        reference = {
            "apiVersion": CLAIMS.api_version,
            "kind": CLAIMS.kind,
            "namespace": namespace,
            "name": claim_name,
            "uid": claim.uid,
        }
        about = {"uid": volume.uid, "resourceVersion": volume.revision, "annotations": {BOUND_BY_CONTROLLER: "yes"}}
        await self._api.patch(VOLUMES.raw, name, {"metadata": about, "spec": {"claimRef": reference}})

    async def _select_node(self, claim: Claim, node: str) -> None:
        """Write the annotation that lets a provisioner make a volume for a node, unless the claim has changed."""
        namespace, _, name = claim.key.partition("/")
        about = {"uid": claim.uid, "resourceVersion": claim.revision, "annotations": {SELECTED_NODE: node}}
        await self._api.patch(CLAIMS.raw, name, {"metadata": about}, namespace)

    async def _unselect(self, plan: VolumePlan) -> None:
        """Withdraw the node from claims without a volume, so that another node can be chosen."""
        for claim in plan.claims:
            seen = self._cache.storage.claims.get(claim.key)
            if claim.key not in plan.provisions or seen is None or seen.bound or seen.selected_node != plan.node:
                continue
            namespace, _, name = claim.key.partition("/")
            about: dict[str, Any] = {"uid": seen.uid, "resourceVersion": seen.revision}
            about["annotations"] = {SELECTED_NODE: None}
            try:
                await self._api.patch(CLAIMS.raw, name, {"metadata": about}, namespace)
            except (ApiError, UnreachableError) as error:
                # Somebody else changed it, or nobody can: the claim keeps its node until its provisioner gives up.
                log.info('Failed to withdraw the node of a claim: claim=%s error="%s"', claim.key, error)

    # ---- waiting ------------------------------------------------------------------------------------------

    async def _wait_until_bound(self, pod: str, plan: VolumePlan, is_wanted: Callable[[], bool]) -> bool:
        end = asyncio.get_running_loop().time() + BIND_SECONDS
        while True:
            if self._stopped or not is_wanted():
                return False
            waiting = self._next_unbound(plan)
            if waiting is None:
                return True
            left = end - asyncio.get_running_loop().time()
            if left <= 0:
                message = f'persistentvolumeclaim "{waiting.name}" was not bound within {BIND_SECONDS:.0f} s'
                raise VolumeBindingError(message)
            await self._cache.wait_for_change(left)

    def _next_unbound(self, plan: VolumePlan) -> Claim | None:
        """The first claim that is not bound yet; raises if it cannot be bound, or not for this node."""
        storage = self._cache.storage
        for claim in plan.claims:
            seen = storage.claims.get(claim.key)
            if seen is None or seen.uid != claim.uid:
                raise VolumeBindingError(f'persistentvolumeclaim "{claim.name}" not found')
            if not seen.bound:
                if self._cache.is_refused(claim.key):
                    raise VolumeBindingError(f'provisioning failed for PVC "{claim.name}"')
                return seen
            volume = storage.volumes.get(seen.volume)
            if volume is None:
                return seen  # its watch event is still to come
            if not storage.is_usable_from(volume, plan.node):
                raise VolumeBindingError(f'pv "{volume.name}" node affinity doesn\'t match node "{plan.node}"')
        return None
