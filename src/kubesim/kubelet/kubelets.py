"""All simulated kubelets, in one task.

Changes of nodes and pods set timers. When a timer expires, the kubelet takes the next step: one write to the API, whose
change event sets the next timer. Steps run in parallel, because a write waits for the disk and one sync serves all.

A lost node (annotation ``lost``) does nothing. When it returns it catches up: it reports the steps of the meantime with
the times at which they would have happened. A kubelet that comes late to a pod reports admission and start in one
write, as a real one reports only the latest status.

The nodes share a process with the API server. While clients send requests, the kubelets pause between batches of steps,
so that bindings and other requests come first.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial

from kubebase.resource_vector import Registry, ResourceError, Vector
from kubesim.api.client import InProcessClient
from kubesim.api.status import ApiError
from kubesim.clock import Clock, parse_time
from kubesim.controllers.events import EventRecorder
from kubesim.controllers.gc.garbage_collector import split_key
from kubesim.kubelet import pod_lifecycle
from kubesim.kubelet.mounted_claims import claims_of, unmounted_claim
from kubesim.kubelet.node_agents import NodeAgent, NodeAgents, is_alive, is_fully_reported
from kubesim.kubelet.node_capacity import requested_vector
from kubesim.kubelet.node_template import DEFAULT_CAPACITY, parse_capacity
from kubesim.kubelet.pod_lifecycle import (
    KubeletConfig,
    PodAction,
    PodStage,
    PodStep,
    next_step,
    pod_stage,
    restarts,
    stage_start,
)
from kubesim.kubelet.timer_queue import TimerQueue
from kubesim.registry.registry import Object
from kubesim.storage import Change

log = logging.getLogger(__name__)

AT_ONCE = 64
"""Steps in a batch. They delay a request that arrives meanwhile by some milliseconds."""
PAUSE_FACTOR = 3.0
"""Pause after a batch during which clients sent requests, as a multiple of the CPU time of the batch."""
LATE_SECONDS = 0.2
"""Delay from which on a kubelet reports the admission and the start of a pod together."""
RETRY_SECONDS = 1.0
MOUNT_RETRY_SECONDS = 0.2
"""How often the kubelet looks again for the volume of a claim."""


class _PodState:
    """A pod on a node: its stage, since when, and its next step."""

    __slots__ = (
        "address", "admitted", "coming", "deleted", "deletion", "entered", "has_claims", "host", "request", "stage",
        "step", "uid",
    )  # fmt: skip

    def __init__(self, uid: str, host: NodeAgent, request: Vector) -> None:
        self.uid = uid
        self.host = host
        self.request = request
        self.address = ""
        self.admitted = False
        self.has_claims = False
        self.stage: tuple[PodStage, int] | None = None
        self.entered = 0.0
        self.coming: float | None = None  # when the next stage begins, if known before its watch event
        self.deletion: tuple[str, int] | None = None
        self.deleted: float | None = None
        self.step: PodStep | None = None


class Kubelets:
    """The kubelets of all simulated nodes."""

    def __init__(
        self,
        api: InProcessClient,
        clock: Clock,
        nodes: Sequence[Object] = (),
        *,
        capacity: Mapping[str, str] | None = None,
        config: KubeletConfig | None = None,
    ) -> None:
        self._api = api
        self._clock = clock
        self._initial_nodes = nodes
        self._config = config or KubeletConfig(api.identity)
        self._events = EventRecorder(api, "kubelet", clock)
        self._registry = Registry()
        self.nodes = NodeAgents(api, clock, capacity or parse_capacity(DEFAULT_CAPACITY), self._registry)
        self._pod_states: dict[str, _PodState] = {}
        self._timers = TimerQueue()
        self._wake = asyncio.Event()

    async def register(self) -> None:
        """Create the initial nodes that do not exist."""
        await self.nodes.register(self._initial_nodes)

    # ---- watch events -------------------------------------------------------------------------------------

    def on_node_change(self, change: Change) -> None:
        """Handle a change of a node."""
        node = change.object
        host = self.nodes.on_node_change(node, deleted=change.deleted)
        alive = not change.deleted and is_alive(node, self._api.identity)
        if alive and not is_fully_reported(node):
            self._set_timer(f"nodes/{host.name}", self._clock.now())
        if alive != host.alive:
            host.alive = alive
            self._set_timer(f"leases/{host.name}", self._clock.now() if alive else None)
            for key in list(host.pods):
                self._resume_pod(key)
        self.nodes.drop_unused(host)

    def _resume_pod(self, key: str) -> None:
        """Resume a pod whose node is back, or suspend it if the node is lost. Deletions meanwhile count from now."""
        pod_state = self._pod_states[key]
        pod = self._api.read(*split_key(key)) if pod_state.host.alive else None
        if pod is not None and pod["metadata"]["uid"] == pod_state.uid:
            if pod_state.deleted is not None:
                pod_state.deleted = self._clock.now()
            pod_state.step = self._next_step(pod, pod_state)
        self._schedule_step(key, pod_state.step)

    def on_pod_change(self, change: Change, *, first: bool = False) -> None:
        """Handle a change of a pod. ``first``: it existed before this process, so its status has the times."""
        pod = change.object
        if not pod["spec"].get("nodeName"):
            return
        key, here = change.key, pod_stage(pod)
        pod_state = self._pod_states.get(key)
        gone = change.deleted or (here is PodStage.OVER and not pod["metadata"].get("deletionGracePeriodSeconds"))
        if pod_state is not None and (gone or pod_state.uid != pod["metadata"]["uid"]):
            self._remove_pod(key, pod_state)
            pod_state = None
        if gone:
            return
        if pod_state is None:
            pod_state = self._add_pod(key, pod)
        if here is PodStage.OVER:
            self._free_resources(pod_state)
        self._note_stage(pod_state, pod, first=first)
        self._note_deletion(pod_state, pod, first=first)
        self._schedule_step(key, self._next_step(pod, pod_state))

    def _next_step(self, pod: Object, pod_state: _PodState) -> PodStep | None:
        config = self._config_of(pod_state.host)
        return next_step(pod, pod_state.entered, pod_state.deleted, self._clock, config)

    def _config_of(self, host: NodeAgent) -> KubeletConfig:
        if not host.missing_programs:
            return self._config
        return replace(self._config, missing_programs=host.missing_programs)

    def _add_pod(self, key: str, pod: Object) -> _PodState:
        host = self.nodes.get_or_add(pod["spec"]["nodeName"])
        try:
            request = requested_vector(pod, self._registry)
        except ResourceError:
            request = ()
        pod_state = self._pod_states[key] = _PodState(pod["metadata"]["uid"], host, request)
        pod_state.has_claims = any(True for _ in claims_of(pod))
        host.pods.add(key)
        if pod_stage(pod) not in {PodStage.NEW, PodStage.OVER}:
            pod_state.admitted = True
            pod_state.address = (pod.get("status") or {}).get("podIP", "")
            host.capacity.reserve(request, pod_state.address)
        return pod_state

    def _note_stage(self, pod_state: _PodState, pod: Object, *, first: bool) -> None:
        here = (pod_stage(pod), restarts(pod))
        if pod_state.stage == here:
            return
        if first and here[0] is not PodStage.NEW:
            pod_state.entered = stage_start(pod)
        else:
            pod_state.entered = self._clock.now() if pod_state.coming is None else pod_state.coming
        pod_state.stage, pod_state.coming = here, None

    def _note_deletion(self, pod_state: _PodState, pod: Object, *, first: bool) -> None:
        about = pod["metadata"]
        if "deletionTimestamp" not in about:
            return
        grace = about.get("deletionGracePeriodSeconds") or 0
        deletion = (about["deletionTimestamp"], grace)
        if deletion != pod_state.deletion:  # new, or with a shorter grace, which counts from when it was asked for
            pod_state.deletion = deletion
            pod_state.deleted = parse_time(deletion[0]) - grace if first else self._clock.now()

    def _free_resources(self, pod_state: _PodState) -> None:
        if pod_state.admitted:
            pod_state.host.capacity.release(pod_state.request, pod_state.address)
            pod_state.admitted = False

    def _remove_pod(self, key: str, pod_state: _PodState) -> None:
        self._free_resources(pod_state)
        pod_state.host.pods.discard(key)
        self.nodes.drop_unused(pod_state.host)
        del self._pod_states[key]
        self._timers.set_timer(key, None)

    def _schedule_step(self, key: str, step: PodStep | None) -> None:
        pod_state = self._pod_states[key]
        pod_state.step = step
        self._set_timer(key, step.due if step and pod_state.host.alive else None)

    def _set_timer(self, key: str, at: float | None) -> None:
        self._timers.set_timer(key, at)
        if at is not None:
            self._wake.set()

    # ---- steps ---------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Simulate all nodes until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            async for batch in self._api.follow("nodes"):
                for change in batch:
                    self.on_node_change(change)
                if not batch:  # now all nodes are known
                    tasks.create_task(self._follow_pods(tasks))

    async def _follow_pods(self, tasks: asyncio.TaskGroup) -> None:
        known = False
        async for batch in self._api.follow("pods"):
            for change in batch if known else sorted(batch, key=_admitted_first):
                self.on_pod_change(change, first=not known)
            if not batch:
                known = True
                tasks.create_task(self._run_timers())

    async def _run_timers(self) -> None:
        while True:
            self._wake.clear()
            while await self._run_batch():
                pass
            due = self._timers.next_due()
            wait = None if due is None else max(0.0, due - self._clock.now())
            with suppress(TimeoutError):
                async with asyncio.timeout(wait):
                    await self._wake.wait()

    async def run_due_steps(self) -> int:
        """Take all steps that are due. Returns their number."""
        done = 0
        while count := await self._take_due_steps():
            done += count
        return done

    async def _run_batch(self) -> bool:
        """Take some of the steps that are due, and pause if clients sent requests meanwhile; False: none is due."""
        began, requests = time.thread_time(), self._api.requests
        if not await self._take_due_steps():
            return False
        if self._api.requests != requests:
            await asyncio.sleep(PAUSE_FACTOR * (time.thread_time() - began))
        return True

    async def _take_due_steps(self) -> int:
        keys = self._timers.pop_due(self._clock.now(), AT_ONCE)
        await asyncio.gather(*map(self._handle_timer, keys))
        return len(keys)

    async def _handle_timer(self, key: str) -> None:
        kind, _, name = key.partition("/")
        try:
            if kind == "nodes":
                await self.nodes.report_status(name)
            elif kind == "leases":
                self._set_timer(key, await self.nodes.renew_lease(name))
            else:
                await self._take_step(key)
        except Exception as error:  # one bad pod must not stop all nodes
            if not isinstance(error, ApiError):
                log.exception("%s: again in %.0f s", key, RETRY_SECONDS)
            if key in self._pod_states or kind != "pods":
                self._set_timer(key, self._clock.now() + RETRY_SECONDS)

    async def _take_step(self, key: str) -> None:
        """Take the next step of a pod."""
        pod_state = self._pod_states.get(key)
        if pod_state is None or pod_state.step is None or not pod_state.host.alive:
            return
        identity = self._config.identity
        at = pod_state.coming = min(pod_state.step.due, self._clock.now())
        match pod_state.step.action:
            case PodAction.ADMIT:
                await self._admit(key, pod_state, at)
            case PodAction.START:
                await self._start(key, pod_state, partial(pod_lifecycle.start, at=at, identity=identity))
            case PodAction.CONFIRM:
                await self._update_status(key, pod_state, partial(pod_lifecycle.confirm, at=self._clock.now()))
            case PodAction.EXIT:
                leave = partial(
                    pod_lifecycle.exit_containers,
                    at=at,
                    entered=pod_state.entered,
                    clock=self._clock,
                    config=self._config_of(pod_state.host),
                )
                await self._update_status(key, pod_state, leave)
            case PodAction.RESTART:
                await self._update_status(key, pod_state, partial(pod_lifecycle.restart, at=at, identity=identity))
            case PodAction.EXPIRE:
                await self._update_status(key, pod_state, partial(pod_lifecycle.expire, at=at, identity=identity))
            case PodAction.STOP:
                await self._update_status(key, pod_state, partial(pod_lifecycle.stop, at=at, identity=identity))
                await self._delete_pod(key, pod_state)
            case PodAction.REMOVE:
                await self._delete_pod(key, pod_state)

    async def _admit(self, key: str, pod_state: _PodState, at: float) -> None:
        host = pod_state.host
        if pod_state.has_claims and await self._waits_for_claim(key, pod_state):
            return
        lack = None if pod_state.admitted else host.capacity.shortage(pod_state.request)
        if lack is not None:
            reason, text = f"OutOf{lack.resource}", str(lack)
            pod = await self._update_status(
                key, pod_state, partial(pod_lifecycle.reject, at=at, reason=reason, message=text)
            )
            if pod is not None:
                await self._events.record_warning(pod, reason, text, host=host.name)
            return
        if not pod_state.admitted:  # otherwise admitted by an attempt whose write failed
            pod_state.address, pod_state.admitted = host.capacity.new_address(), True
            host.capacity.reserve(pod_state.request, pod_state.address)
        own, identity = pod_state.address, self._config.identity
        started = at + self._clock.real(self._config.start_seconds)
        late = self._clock.now() >= (started + LATE_SECONDS if self._config.start_seconds else started)
        if late:
            pod_state.coming = started

        def admit(pod: Object) -> None:
            address = host.address if pod["spec"].get("hostNetwork") else own
            pod_lifecycle.admit(pod, at, host.address, address, identity)
            if late:
                pod_lifecycle.start(pod, started, identity)

        await self._start(key, pod_state, admit)

    async def _waits_for_claim(self, key: str, pod_state: _PodState) -> bool:
        """Whether a claim of a pod is not bound. Then an event says so, and the kubelet looks again a little later."""
        pod = self._api.read(*split_key(key))
        problem = unmounted_claim(self._api, pod) if pod is not None else ""
        if pod is None or not problem:
            return False
        await self._events.record_warning(pod, "FailedMount", problem, host=pod_state.host.name)
        pod_state.coming = None
        if self._pod_states.get(key) is pod_state and pod_state.step is not None:
            later = self._clock.now() + MOUNT_RETRY_SECONDS
            self._schedule_step(key, PodStep(PodAction.ADMIT, later))
        return True

    async def _start(self, key: str, pod_state: _PodState, change: Callable[[Object], None]) -> None:
        pod = await self._update_status(key, pod_state, change)
        problem = pod_lifecycle.config_error(pod) if pod else ""
        if pod and problem:
            await self._events.record_warning(pod, "Failed", problem, host=pod_state.host.name)

    async def _update_status(self, key: str, pod_state: _PodState, change: Callable[[Object], None]) -> Object | None:
        """Update the status of a pod if it is still in the stage for which the change was planned."""
        planned = pod_state.stage, pod_state.deletion is not None

        def edit(pod: Object) -> None:
            if planned == ((pod_stage(pod), restarts(pod)), "deletionTimestamp" in pod["metadata"]):
                change(pod)

        return await self._api.modify(*split_key(key), edit, subresource="status", uid=pod_state.uid, well_formed=True)

    async def _delete_pod(self, key: str, pod_state: _PodState) -> None:
        await self._api.delete(*split_key(key), grace=0, uid=pod_state.uid)


def _admitted_first(change: Change) -> tuple[bool, str, str]:
    """Sort admitted pods before new ones, and these by creation."""
    pod = change.object
    return pod_stage(pod) is PodStage.NEW, pod["metadata"].get("creationTimestamp", ""), change.key
